// Package env is a Kubernetes with the operator in it, for the demo, the end-to-end tests and the benchmarks.
//
// [Up] makes everything there is to make: the local cluster of test/cluster (or it takes the cluster of KUBECONFIG), the
// images, the operator. [Attach] only connects, where a Makefile target has made all that before. Both give an [Env],
// whose methods are what tests do all the time:
//
//   - [Env.WaitFor] polls a condition with a deadline, shows progress, and tells the last state seen when it fails;
//   - [Env.Exec] runs a program in a pod, [Env.OpenDB] gives a *sql.DB through a Service from outside, with TLS verified
//     by the MySQL cluster's own authority, [Env.StartClient] a pod from which SQL takes the way of an application: DNS,
//     Service, kube-proxy;
//   - [Env.DumpDiagnostics] writes objects, Events and logs to a folder, for a failure to be understood afterwards;
//   - [Local] switches nodes off and cuts them from the network.
//
// Settings from the environment: KUBECONFIG, REGISTRY, CLUSTER, PORPOISE_CLUSTER_NAME; see [FromEnvironment].
package env
