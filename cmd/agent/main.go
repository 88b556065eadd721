// Command agent is PID 1 of an instance's pod: it runs mysqld and does what the manager commands. See internal/agent.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/version"
)

func main() {
	if err := root().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Runs mysqld in a pod of a Porpoise cluster",
		Long: `agent is PID 1 of the mysqld container of each instance. The operator's init container copies it there
(agent install), so any image that holds mysqld works.

It makes the data directory, renders mysqld's option file, starts mysqld read-only and starts it again when it
dies, reports status to the manager over HTTPS with mutual TLS, and does what the manager commands. It has no
access to Kubernetes and decides nothing about who is primary.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(runCommand(), installCommand(), validateCommand(), versionCommand())
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the build's version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		},
	}
}

func installCommand() *cobra.Command {
	return &cobra.Command{
		Use: "install DEST", Short: "Copy this binary to DEST", Args: cobra.ExactArgs(1),
		Long: `install copies this binary to DEST, or to DEST/agent if DEST is a directory, with mode 0755. The init container
runs it, so that the mysqld container, whose image knows nothing of Porpoise, can start the copy.`,
		Example: "  agent install /opt/porpoise/agent",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := agent.Install(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "installed", path)
			return err
		},
	}
}
