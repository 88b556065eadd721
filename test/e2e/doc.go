// Package e2e tests the product as its user meets it: on a real Kubernetes with kubelets, with the operator deployed and
// real MySQL. The tests have the build tag e2e and are run by `make test-e2e`, which makes a local cluster of three nodes
// (or takes that of KUBECONFIG); RUN=TestDemoStory runs one, KEEP=1 leaves the cluster, and the namespaces, standing.
//
// Every test has a namespace of its own, or uses the one healthy cluster that [shared] gives to all tests which leave it as
// they found it. Tests run one after the other, since some of them stop the operator or a node; those of bad input, which
// touch nothing but their namespace, run in parallel at the end.
//
// A test never sleeps: it polls a condition with a deadline, which is several times of what is usual. A failed one writes
// objects, Events and logs to bin/logs/diagnostics-TIME and says so.
package e2e
