package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/test/env"
)

// createdBy marks what the demo made in a cluster that is not its own.
const createdBy = "porpoise-demo"

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := rootCommand().ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted; run it again to start anew, or remove everything: make demo-down")
	default:
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
	}
	return 1
}

func rootCommand() *cobra.Command {
	options := env.FromEnvironment()
	options.CreatedBy, options.Out = createdBy, os.Stdout
	s := &story{namespace: "demo", cluster: "demo"}
	root := &cobra.Command{
		Use:   "demo",
		Short: "Show a replicated MySQL: Kubernetes, operator, three instances, a lost replica that comes back",
		Long: `Show a replicated MySQL: Kubernetes, operator, three instances, a lost replica that comes back.

It uses the local Kubernetes of test/cluster, or the cluster of KUBECONFIG if that is set; then REGISTRY names the
registry to which the images are pushed.`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.tell(cmd.Context(), options) },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&s.namespace, "namespace", s.namespace, "namespace of the demo; it is deleted first, if an earlier demo made it")
	flags.StringVar(&options.LocalName, "cluster", options.LocalName, "name of the local Kubernetes")
	root.Flags().IntVar(&options.Nodes, "nodes", 0, "nodes of the local Kubernetes (default 1)")
	root.AddCommand(&cobra.Command{
		Use: "down", Args: cobra.NoArgs,
		Short: "Remove the local Kubernetes; of the cluster of KUBECONFIG only what the demo made",
		RunE:  func(cmd *cobra.Command, _ []string) error { return s.down(cmd.Context(), options) },
	})
	return root
}

// down leaves nothing behind.
func (s *story) down(ctx context.Context, options env.Options) error {
	if !options.External() {
		local, err := env.NewLocal(options)
		if err != nil {
			return err
		}
		return local.Down(ctx)
	}
	e, err := env.Attach(ctx, options)
	if err != nil {
		return err
	}
	existed, err := e.DeleteNamespace(ctx, s.namespace)
	if err != nil {
		return err
	}
	if !existed {
		e.Timeline.Note("There is no namespace %s", s.namespace)
	}
	others, err := s.otherClusters(ctx, e)
	if err != nil {
		return err
	}
	if others > 0 {
		return errors.New("the operator stays: it runs MySQLClusters that are not the demo's; remove it with: make undeploy")
	}
	return e.Undeploy(ctx)
}
