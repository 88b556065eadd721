package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/network"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/process"
)

// Info is what other programs need to use a cluster.
type Info struct {
	Kubeconfig string
	BinDir     string
	StateDir   string
}

// Find returns the Info of an existing cluster.
func Find(name string) (Info, error) {
	if err := plan.ValidateName(name); err != nil {
		return Info{}, err
	}
	s, err := load(StateRoot(), name)
	if err != nil {
		return Info{}, err
	}
	return Info{Kubeconfig: s.Kubeconfig(), BinDir: filepath.Join(s.BinaryDir, "bin"), StateDir: s.StateDir}, nil
}

// PrintStatus writes a table of processes and nodes, and then the first thing that is wrong, if there is one.
func PrintStatus(ctx context.Context, name string, out io.Writer) error {
	s, err := load(StateRoot(), name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Cluster %s: %d node(s), API %s, state %s\n\n", s.Name, s.Nodes, s.APIServerURL(), s.StateDir)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tPROCESS\tNETWORK\tLOG")
	for _, name := range controlPlane() {
		fmt.Fprintf(table, "%s\t%s\t\t%s\n", name, s.describe(name), s.logFile(name))
	}
	for _, n := range append(s.AllNodes(), s.Gateway()) {
		cable := "cut off"
		if network.IsPlugged(n) {
			cable = n.Address().String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", n.Name(), s.describe(n.Name()), cable, n.VarLog())
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	if problem := s.problem(ctx); problem != nil {
		return fmt.Errorf("cluster %q is not complete: %w", s.Name, problem)
	}
	fmt.Fprintln(out, "\nEverything is ready.")
	return nil
}

func (s state) describe(name string) string {
	record, err := process.Load(s.pidFile(name))
	if err != nil || !record.Alive() {
		return "stopped"
	}
	return fmt.Sprintf("pid %d", record.PID)
}

// Logs lists the cluster's log files: of the control plane, or of one node, or all.
func Logs(name string) (map[string]string, error) {
	s, err := load(StateRoot(), name)
	if err != nil {
		return nil, err
	}
	logs := map[string]string{"audit": s.logFile("audit")}
	for _, part := range controlPlane() {
		logs[part] = s.logFile(part)
	}
	for _, n := range append(s.AllNodes(), s.Gateway()) {
		files, err := filepath.Glob(filepath.Join(n.VarLog(), "*.log"))
		if err != nil {
			return nil, fmt.Errorf("list logs of %s: %w", n.Name(), err)
		}
		for _, file := range files {
			base := filepath.Base(file)
			logs[n.Name()+"/"+base[:len(base)-len(".log")]] = file
		}
	}
	return logs, nil
}
