package env

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// OperatorNamespace is where config/default puts the operator.
const OperatorNamespace = "porpoise-system"

// RegistryLoaded as a registry says that the images are in the nodes of KUBECONFIG's cluster already.
const RegistryLoaded = "loaded"

// Options say which Kubernetes to use and how to talk about it.
type Options struct {
	// Kubeconfig of an existing cluster; empty: the local one.
	Kubeconfig string
	// Registry that the nodes of Kubeconfig's cluster pull from, or RegistryLoaded.
	Registry string
	// LocalName names the local cluster. With Kubeconfig it says that this is the kubeconfig of that local cluster, so
	// that its nodes can be switched off.
	LocalName string
	// Nodes of the local cluster; 0: 1, or as many as it has.
	Nodes int
	// CreatedBy marks what Up installs in a cluster that is not ours alone; [Env.Undeploy] removes only that.
	CreatedBy string
	// Out gets progress; nil: nothing.
	Out io.Writer
	// LogDir gets logs of steps and diagnostics; empty: bin/logs of the work tree.
	LogDir string
}

// FromEnvironment reads KUBECONFIG, REGISTRY (or PORPOISE_REGISTRY), PORPOISE_CLUSTER_NAME (KUBECONFIG is that of the
// local cluster of this name) and CLUSTER (name of the local cluster to make, default porpoise).
func FromEnvironment() Options {
	o := Options{
		Kubeconfig: os.Getenv("KUBECONFIG"),
		Registry:   firstNonEmpty(os.Getenv("PORPOISE_REGISTRY"), os.Getenv("REGISTRY")),
		LocalName:  os.Getenv("PORPOISE_CLUSTER_NAME"),
	}
	if o.Kubeconfig == "" {
		o.LocalName = firstNonEmpty(o.LocalName, os.Getenv("CLUSTER"), "porpoise")
	}
	return o
}

// External says whether the cluster is not the local one: images must be pushed, and nothing else of it is ours.
func (o Options) External() bool { return o.Kubeconfig != "" && o.LocalName == "" }

func (o Options) check() error {
	if o.External() && o.Registry == "" {
		return fmt.Errorf(`KUBECONFIG is set (%s), so the images must reach that cluster by a registry that its nodes can pull from:
  REGISTRY=host[:port][/path]   they are pushed there
  REGISTRY=%s               they are in the nodes already (archives: go run ./hack/images list -o archive)
or unset KUBECONFIG to use the local cluster`, o.Kubeconfig, RegistryLoaded)
	}
	return nil
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

const modulePath = "github.com/porpoise-dev/porpoise"

// findRoot walks up from the working folder to the root of the work tree: tests run in their package's folder.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the work tree: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if first, _, _ := strings.Cut(string(text), "\n"); err == nil && isModule(string(text), first) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("find the work tree: no folder from %s up is the module %s", dir, modulePath)
		}
	}
}

func isModule(text, first string) bool {
	return first == "module "+modulePath || strings.Contains(text, "\nmodule "+modulePath+"\n")
}
