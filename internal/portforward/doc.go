// Package portforward opens connections to ports of pods through the API server, as `kubectl port-forward` does, but
// without a listening port on this machine: nobody else there can use the way, and what goes wrong in the pod
// ("connection refused") comes back as the error of the connection instead of in a log.
package portforward
