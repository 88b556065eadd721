// Command images builds, lists and pushes the container images of the project without docker, and prints the manifests
// that install them.
// `go run ./hack/images --help` explains its commands; the work is done by internal/release/image.
package main
