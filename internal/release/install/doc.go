// Package install renders the manifests in config/ for images that were built, for hack/deploy and the test environment
// alike.
//
// Whatever depends on the build is put into the sources, in memory, before kustomize reads them. So what kustomize
// derives agrees with it: the name of the image map's ConfigMap, a hash of its content by whose change the manager is
// restarted, and the operator's image, which the manager is also told by name.
package install
