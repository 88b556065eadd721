package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/test/bench/internal/figure"
)

// durabilityOptions of `bench durability`.
type durabilityOptions struct {
	runs, threads, tables, tableSize int
	duration                         time.Duration
	workloads                        []string
	dir                              string
}

func (o *durabilityOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.runs, "runs", 5, "runs of each variant")
	f.DurationVar(&o.duration, "duration", 20*time.Second, "length of a run")
	f.IntVar(&o.threads, "threads", 8, "clients of sysbench")
	f.IntVar(&o.tables, "tables", 4, "tables of sysbench")
	f.IntVar(&o.tableSize, "table-size", 25000, "rows of each table")
	f.StringSliceVar(&o.workloads, "workloads", []string{"oltp_write_only", "oltp_read_write"}, "what sysbench does")
	f.StringVar(&o.dir, "dir", "", "`folder` for the databases, on a disk; default: that for temporary files")
}

func (o *durabilityOptions) quick() map[string]string {
	return map[string]string{"runs": "1", "duration": "5s", "table-size": "1000"}
}

func (o *durabilityOptions) check() error {
	errs := []error{between("runs", o.runs, 1, 100), lasting("duration", o.duration), between("threads", o.threads, 1, 30),
		between("tables", o.tables, 1, 64), between("table-size", o.tableSize, 100, 10_000_000)}
	for _, w := range o.workloads {
		if allowed := []string{"oltp_write_only", "oltp_read_write", "oltp_insert", "oltp_update_index"}; !slices.Contains(allowed, w) {
			errs = append(errs, fmt.Errorf("--workloads: %q; allowed are %s", w, strings.Join(allowed, ", ")))
		}
	}
	return errors.Join(errs...)
}

// The variants of one comparison.
const (
	variantShipped  = "as shipped: 1 ack, sync_relay_log=1"
	variantRelayLog = "1 ack, sync_relay_log=10000 (MySQL's default)"
	variantAsync    = "semi-sync off (a commit may be lost with its primary)"
)

// measure runs sysbench against clusters of three real mysqlds, the variants taking turns.
func (o *durabilityOptions) measure(ctx context.Context, b *bench) error {
	version, err := ensureSysbench(ctx)
	if err != nil {
		return err
	}
	if err := o.prepareHost(ctx); err != nil {
		return err
	}
	var figures []*figure.Figure
	err = withHarness(func(h *harness) error {
		began := b.figure("", "")
		clusters, err := o.startClusters(ctx, h)
		if err != nil {
			return err
		}
		for _, workload := range o.workloads {
			f := *began
			f.ID, f.Title = "durability-"+strings.ReplaceAll(workload, "_", "-"), "Throughput of "+workload
			f.Notes = append(slices.Clone(began.Notes), o.note(version, clusters.disk))
			if err := o.compare(ctx, clusters, workload, &f); err != nil {
				return err
			}
			figures = append(figures, &f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range figures {
		if err := b.keepFigure(f); err != nil {
			return err
		}
	}
	return nil
}

func (o *durabilityOptions) note(version string, d disk) string {
	return fmt.Sprintf("%s, %d threads, %d tables of %d rows, runs of %s by turns; all three mysqlds and sysbench on one machine and one disk (%s; an fsync of 4 KiB takes %.2f ms)",
		version, o.threads, o.tables, o.tableSize, o.duration, d.filesystem, d.fsync.Seconds()*1000)
}

// prepareHost provides mysqld on this machine and the folder for its data.
func (o *durabilityOptions) prepareHost(ctx context.Context) error {
	if err := ensureMysqld(ctx); err != nil {
		return err
	}
	if o.dir == "" {
		return nil
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	// agenttest makes its folders where temporary files go.
	return os.Setenv("TMPDIR", dir)
}

// ensureMysqld provides mysqld on this machine, for agenttest.
func ensureMysqld(ctx context.Context) error {
	if os.Getenv("PORPOISE_MYSQL_BIN") != "" {
		return nil
	}
	fmt.Fprintln(os.Stderr, "providing mysqld on this machine")
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/images", "mysql-host")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("provide mysqld: go run ./hack/images mysql-host: %w", err)
	}
	if err := os.Setenv("PORPOISE_MYSQL_BIN", strings.TrimSpace(string(out))); err != nil {
		return fmt.Errorf("provide mysqld: %w", err)
	}
	return nil
}

// durabilityClusters are both clusters: a mysqld's sync_relay_log differs from boot on, semi-sync by command.
type durabilityClusters struct {
	strict, relaxed *durabilityCluster
	disk            disk
}

func (o *durabilityOptions) startClusters(ctx context.Context, h *harness) (*durabilityClusters, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	// mysqld's user must get to the wrapper.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	c := &durabilityClusters{}
	if c.disk, err = measureDisk(dir); err != nil {
		return nil, err
	}
	if c.strict, err = o.startCluster(ctx, h, dir, "1"); err != nil {
		return nil, err
	}
	c.relaxed, err = o.startCluster(ctx, h, dir, "10000")
	return c, err
}

// durabilityCluster is a primary with two replicas.
type durabilityCluster struct {
	*agenttest.Cluster
	sysbench   *sysbench
	generation int64
}

func (o *durabilityOptions) startCluster(ctx context.Context, h *harness, dir, syncRelayLog string) (*durabilityCluster, error) {
	fmt.Fprintf(os.Stderr, "starting three mysqlds with sync_relay_log=%s\n", syncRelayLog)
	wrapper := filepath.Join(dir, "mysqld-"+syncRelayLog)
	// The agent owns this option and puts it into the option file last: only the command line is later.
	text := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" --sync-relay-log=%s\n", filepath.Join(agenttest.MysqlBin(h), "mysqld"), syncRelayLog)
	if err := os.WriteFile(wrapper, []byte(text), 0o755); err != nil {
		return nil, fmt.Errorf("write %s: %w", wrapper, err)
	}
	c := &durabilityCluster{Cluster: agenttest.New(h, 3, agenttest.Options{
		Extra:  map[string]string{"innodb_buffer_pool_size": "256M", "innodb_redo_log_capacity": "256M"},
		Change: func(cfg *agent.Config) { cfg.Mysqld = wrapper },
	}), generation: 2}
	for _, i := range c.Instances {
		i.WriteAccount("app", map[string]string{"username": "app", "password": appPassword, "database": "app"})
	}
	c.StartAll()
	c.Bootstrap(1)
	for _, i := range c.Instances[1:] {
		db := i.DB("app", appPassword, "app")
		var got string
		if err := db.QueryRowContext(ctx, "SELECT @@GLOBAL.sync_relay_log").Scan(&got); err != nil {
			return nil, fmt.Errorf("read sync_relay_log of %s: %w", i.Config.Instance, err)
		}
		if got != syncRelayLog {
			return nil, fmt.Errorf("sync_relay_log of %s is %s, want %s", i.Config.Instance, got, syncRelayLog)
		}
	}
	folder, err := os.MkdirTemp(dir, "sysbench")
	if err != nil {
		return nil, fmt.Errorf("make a folder for sysbench: %w", err)
	}
	if c.sysbench, err = newSysbench(folder, c.CA, c.Instances[0], o); err != nil {
		return nil, err
	}
	if err := c.sysbench.prepare(ctx); err != nil {
		return nil, err
	}
	c.settle()
	return c, nil
}

// require makes the primary wait for so many acknowledgements, and waits until it is in force.
func (c *durabilityCluster) require(acks int32) {
	primary, others := c.Instances[0], c.Instances[1:]
	c.generation++
	quorum := c.Quorum(c.generation, acks, others...)
	for _, o := range others {
		o.SetQuorum(quorum)
	}
	primary.SetQuorum(quorum)
	primary.Await("the quorum is in force", func(s agentapi.Status) bool {
		return s.Server != nil && s.Server.AppliedQuorum == c.generation && s.Server.SemiSync.SourceEnabled == (acks > 0) &&
			(acks == 0 || s.Server.SemiSync.Clients == len(others))
	})
}

// settle waits until the replicas have everything: what one run left to do is not the next one's.
func (c *durabilityCluster) settle() {
	written := c.Instances[0].Status().Server.GTIDExecuted
	for _, i := range c.Instances[1:] {
		i.Await("the replica has caught up", func(s agentapi.Status) bool { return s.Server != nil && s.Server.GTIDExecuted.Contains(written) })
	}
}

// compare lets the variants take turns, so that a machine that grows slower or faster does so for all.
func (o *durabilityOptions) compare(ctx context.Context, c *durabilityClusters, workload string, f *figure.Figure) error {
	variants := []struct {
		name    string
		cluster *durabilityCluster
		acks    int32
	}{{variantShipped, c.strict, 1}, {variantRelayLog, c.relaxed, 1}, {variantAsync, c.strict, 0}}
	throughput, latency := map[string][]float64{}, map[string][]float64{}
	for run := range o.runs {
		// Each round begins with another variant, so that none always follows the same one.
		for turn := range variants {
			v := variants[(turn+run)%len(variants)]
			v.cluster.require(v.acks)
			result, err := v.cluster.sysbench.run(ctx, workload, o.duration)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			v.cluster.settle()
			throughput[v.name] = append(throughput[v.name], result.transactionsPerSecond)
			latency[v.name] = append(latency[v.name], result.p95)
			fmt.Fprintf(os.Stderr, "%s, run %d of %d: %-55s %8.1f transactions/s, p95 %.1f ms\n", workload, run+1, o.runs, v.name, result.transactionsPerSecond, result.p95)
		}
	}
	for _, v := range variants {
		f.Add(v.name, "transactions/s", throughput[v.name]...)
	}
	for _, v := range variants {
		f.Add("p95 latency, "+v.name, "ms", latency[v.name]...)
	}
	shipped := figure.Summarize(throughput[variantShipped]).Median
	for _, name := range []string{variantRelayLog, variantAsync} {
		if other := figure.Summarize(throughput[name]).Median; other > 0 {
			f.Note("Cost of the shipped settings against %q: %s %% of throughput (by medians)", name, figure.Number(100*(1-shipped/other)))
		}
	}
	return nil
}
