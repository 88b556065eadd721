package cli

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cluster"
)

func (c *command) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Args: cobra.NoArgs,
		Short: "Show processes and nodes; the exit code is 0 only if everything is ready",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cluster.PrintStatus(cmd.Context(), c.name, cmd.OutOrStdout())
		},
	}
}

func (c *command) kubeconfig() *cobra.Command {
	var content bool
	cmd := &cobra.Command{
		Use: "kubeconfig", Args: cobra.NoArgs,
		Short: "Print the path of the administrator's kubeconfig",
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := cluster.Find(c.name)
			if err != nil {
				return err
			}
			if !content {
				fmt.Fprintln(cmd.OutOrStdout(), info.Kubeconfig)
				return nil
			}
			data, err := os.ReadFile(info.Kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	cmd.Flags().BoolVar(&content, "content", false, "print the file instead of its path")
	return cmd
}

func (c *command) env() *cobra.Command {
	return &cobra.Command{
		Use: "env", Args: cobra.NoArgs,
		Short: "Print shell commands that set KUBECONFIG and put kubectl on PATH",
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := cluster.Find(c.name)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG='%s'\nexport KUBEBUILDER_ASSETS='%s'\nexport PATH='%s':\"$PATH\"\n",
				info.Kubeconfig, info.BinDir, info.BinDir)
			return nil
		},
	}
}

func (c *command) logs() *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use: "logs [PART]", Args: cobra.MaximumNArgs(1),
		Short: "List the logs, or print the end of one: kube-apiserver, audit, node-1/kubelet, …",
		RunE: func(cmd *cobra.Command, args []string) error {
			logs, err := cluster.Logs(c.name)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				for _, part := range slices.Sorted(maps.Keys(logs)) {
					fmt.Fprintf(cmd.OutOrStdout(), "%-28s %s\n", part, logs[part])
				}
				return nil
			}
			path, ok := logs[args[0]]
			if !ok {
				return fmt.Errorf("no log %q; there are: %v", args[0], slices.Sorted(maps.Keys(logs)))
			}
			tailArgs := []string{"-n", strconv.Itoa(lines), path}
			if follow {
				tailArgs = append([]string{"-F"}, tailArgs...)
			}
			tail := exec.CommandContext(cmd.Context(), "tail", tailArgs...)
			tail.Stdout, tail.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return tail.Run()
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing what is added")
	cmd.Flags().IntVarP(&lines, "lines", "n", 50, "number of lines")
	return cmd
}
