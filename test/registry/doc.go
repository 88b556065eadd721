// Package registry tests that images are pushed to a registry and pulled from there by a Kubernetes of somebody else's: the
// one to which KUBECONFIG leads. The tests have the build tag e2e and are run by `make test-registry`; RUN=TestDemo runs one,
// KEEP=1 leaves the cluster standing.
//
// A registry runs in the test's process, with TLS of an authority of its own, on an address that the nodes of a local
// cluster reach. The cluster is fresh: no image is loaded into its node, which trusts that authority. Its kubeconfig is
// copied, so that the Makefile takes it for a foreign one. Then the targets of the Makefile run as a user runs them.
package registry
