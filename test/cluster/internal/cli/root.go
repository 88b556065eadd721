// Package cli is the command line of test/cluster.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

const long = `A real Kubernetes on a bare Debian machine: nothing but Go, root and the Debian mirror is needed.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler run on the machine; every node is a set of namespaces with its own
containerd, kubelet and kube-proxy, so that a node can be switched off or cut off from the network for real. The programs are built
from their Go modules once and cached outside of the work tree.

Environment:
  PORPOISE_CACHE   where programs are kept   (default: $XDG_CACHE_HOME/porpoise or ~/.cache/porpoise)
  PORPOISE_STATE   where clusters live       (default: /var/lib/porpoise-cluster)`

const example = `  up && eval "$(cluster env)" && kubectl get nodes
  up --nodes 3
  load build/images/*.tar
  stop-node 2; start-node 2
  down`

// command carries what all subcommands share.
type command struct {
	name   string
	report *progress.Reporter
}

// Main runs the command line and returns the exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; run the same command again to go on")
		}
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	c := &command{report: progress.New(os.Stderr)}
	root := &cobra.Command{
		Use: "cluster", Short: "A real Kubernetes " + toolchain.KubernetesVersion + " on a bare Debian machine",
		Long: long, Example: example, Version: "Kubernetes " + toolchain.KubernetesVersion,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&c.name, "name", "porpoise", "name of the cluster; clusters of different names run side by side")
	root.AddCommand(c.up(), c.down(), c.binaries(), c.load(), c.trustRegistry(), c.status(), c.logs(), c.kubeconfig(), c.env())
	root.AddCommand(c.nodeCommands()...)
	return root
}

// nodeNumber reads the argument N of commands on one node; "node-2" is understood as well.
func nodeNumber(argument string) (int, error) {
	digits := argument
	if len(digits) > 5 && digits[:5] == "node-" {
		digits = digits[5:]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("node %q: must be a number, as in 2 or node-2", argument)
	}
	return n, nil
}
