package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cluster"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

func (c *command) up() *cobra.Command {
	var options cluster.Options
	var memory, cpu []string
	cmd := &cobra.Command{
		Use: "up", Args: cobra.NoArgs,
		Short: "Create the cluster, or repair it, or do nothing if it runs",
		Long: `Create the cluster and wait until nodes, DNS and the default StorageClass are ready. On a running cluster this returns at once;
a stopped, cut-off or half-dead one is repaired, or made anew if that fails. Missing Debian packages are installed.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			resources, err := cluster.ParseResources(memory, cpu)
			if err != nil {
				return err
			}
			options.Name, options.Resources = c.name, resources
			if cmd.Flags().Changed("nodes") && options.Nodes == 0 {
				return fmt.Errorf("--nodes 0: must be from 1 to 50")
			}
			return cluster.Up(cmd.Context(), options, c.report)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&options.Nodes, "nodes", 0, "number of nodes; an existing cluster can grow (default 1)")
	flags.StringSliceVar(&memory, "node-memory", nil, "memory that a node offers to pods: 4Gi for every node, 3=512Mi for node 3; may be repeated (default: all of the machine's)")
	flags.StringSliceVar(&cpu, "node-cpu", nil, "processors that a node offers to pods: 2 or 500m for every node, 3=500m for node 3; may be repeated (default: all of the machine's)")
	return cmd
}

func (c *command) down() *cobra.Command {
	return &cobra.Command{
		Use: "down", Args: cobra.NoArgs,
		Short: "Remove the cluster and everything that belongs to it; cached programs stay",
		RunE:  func(*cobra.Command, []string) error { return cluster.Down(c.name, c.report) },
	}
}

func (c *command) binaries() *cobra.Command {
	return &cobra.Command{
		Use: "binaries", Args: cobra.NoArgs,
		Short: "Build the programs if they are not cached, and print their directory",
		Long: `Build the programs if they are not cached, and print the directory with etcd, kube-apiserver, kubectl and the others.
Tests against an API server without nodes use it as KUBEBUILDER_ASSETS. Needs no root.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			binaries, err := toolchain.Ensure(cmd.Context(), c.report)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), binaries.BinDir())
			return nil
		},
	}
}

func (c *command) load() *cobra.Command {
	return &cobra.Command{
		Use: "load ARCHIVE...", Args: cobra.MinimumNArgs(1),
		Short: "Import image archives (docker or OCI) into every node",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cluster.Load(cmd.Context(), c.name, args, c.report)
		},
	}
}

func (c *command) trustRegistry() *cobra.Command {
	return &cobra.Command{
		Use: "trust-registry HOST[:PORT] CA-FILE", Args: cobra.ExactArgs(2),
		Short: "Let every node pull from a registry whose certificate this authority signed",
		Long: `Let every node pull from a registry whose certificate the authority in CA-FILE (PEM) signed. It counts from the next pull, also on
nodes that come later; for another authority call it again. Nodes reach no further than this machine: a registry on it listens on the
bridge's address, which is that of the API server in the kubeconfig.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return cluster.TrustRegistry(c.name, args[0], args[1], c.report)
		},
	}
}

func (c *command) nodeCommands() []*cobra.Command {
	onNode := func(use, short string, run func(cmd *cobra.Command, number int) error) *cobra.Command {
		return &cobra.Command{Use: use + " N", Short: short, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			number, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			return run(cmd, number)
		}}
	}
	return []*cobra.Command{
		onNode("stop-node", "Switch a node off: kubelet, containerd and all containers die at once",
			func(_ *cobra.Command, n int) error { return cluster.StopNode(c.name, n, c.report) }),
		onNode("start-node", "Switch a stopped node on again and wait until it is ready",
			func(cmd *cobra.Command, n int) error { return cluster.StartNode(cmd.Context(), c.name, n, c.report) }),
		onNode("cut-node", "Cut a node off from the network; its containers go on running",
			func(_ *cobra.Command, n int) error { return cluster.SetCable(c.name, n, false, c.report) }),
		onNode("heal-node", "Put a cut-off node back on the network",
			func(_ *cobra.Command, n int) error { return cluster.SetCable(c.name, n, true, c.report) }),
		c.inNode(),
	}
}

func (c *command) inNode() *cobra.Command {
	return &cobra.Command{
		Use: "in-node N -- PROGRAM [ARGUMENT…]", Args: cobra.MinimumNArgs(2),
		Short: "Run a program of this machine in a node's network, as if it ran on that node",
		Long: `Run a program of this machine in a node's network, as if it ran on that node: Services' addresses lead where kube-proxy lets them lead
there. The program sees this machine's files. Standard input and output are its own; the exit code is its.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := nodeNumber(args[0])
			if err != nil {
				return err
			}
			return cluster.InNode(cmd.Context(), c.name, number, args[1:])
		},
	}
}
