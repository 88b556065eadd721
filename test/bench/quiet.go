package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/porpoise-dev/porpoise/test/bench/internal/figure"
)

// quietOptions of `bench quiet`.
type quietOptions struct {
	runs, writers int
	duration      time.Duration
}

func (o *quietOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.runs, "runs", 5, "windows to measure")
	f.DurationVar(&o.duration, "duration", time.Minute, "length of a window")
	f.IntVar(&o.writers, "writers", 4, "connections that write through the read-write Service")
}

func (*quietOptions) quick() map[string]string {
	return map[string]string{"runs": "1", "duration": "5s"}
}

func (o *quietOptions) check() error {
	return errors.Join(between("runs", o.runs, 1, 1000), between("writers", o.writers, 1, 64), lasting("duration", o.duration))
}

const (
	// stillFor is how long the operator must not have written before the first window.
	stillFor = 10 * time.Second
	// stillWithin bounds the wait for that.
	stillWithin = 2 * time.Minute
	// leastCommits per second: below, it was no load.
	leastCommits = 5
)

// measure watches one cluster of three instances under write load, in which nothing else happens.
func (o *quietOptions) measure(ctx context.Context, k *kubernetes) error {
	writes := k.figure("quiet", fmt.Sprintf("Writes to the API server in %s under write load, one cluster of three instances", o.duration))
	writes.Target = "0, apart from the Leases of the two lanes, which do not depend on the number of clusters"
	manager := k.figure("manager-real", "The manager with one real cluster under write load")
	if err := k.remove(ctx); err != nil {
		return err
	}
	if err := k.env.Client.Create(ctx, clusterOf(benchNamespace, benchCluster, 3)); err != nil {
		return fmt.Errorf("create MySQLCluster %s: %w", benchCluster, err)
	}
	if err := k.env.WaitReady(ctx, benchNamespace, benchCluster, readyTimeout); err != nil {
		return err
	}
	s, remove, err := newScraper(ctx, k.env)
	if err != nil {
		return err
	}
	defer remove()
	load, err := startLoad(ctx, k.env, o.writers)
	if err != nil {
		return err
	}
	defer load.stop()
	if err := k.waitStill(ctx, s); err != nil {
		return err
	}
	for run := range o.runs {
		if err := o.window(ctx, k, s, load, run+1, writes, manager); err != nil {
			return err
		}
	}
	if n := load.failed.Load(); n > 0 {
		writes.Note("%d writes of the load failed; the last: %v", n, load.why())
	}
	manager.Note("Windows of %s; memory at the end of each, CPU on average over it; %d writers through bench-rw", o.duration, o.writers)
	return errors.Join(k.keepFigure(writes), k.keepFigure(manager))
}

// waitStill waits until the operator has nothing left to do of the creation.
func (k *kubernetes) waitStill(ctx context.Context, s *scraper) error {
	last, since := map[string]float64{}, time.Now()
	return k.env.WaitFor(ctx, "Operator: wait until it has nothing left to do", stillWithin, func(ctx context.Context) (bool, string, error) {
		managers, err := s.managers(ctx)
		if err != nil {
			return false, "", err
		}
		samples, err := s.all(ctx, managers)
		if err != nil {
			return false, "", err
		}
		now := map[string]float64{}
		for _, one := range samples {
			for name, n := range one.writes {
				now[name] += n
			}
		}
		if !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		// Looking costs the managers something: not more often than needed.
		return time.Since(since) >= stillFor, fmt.Sprintf("no write for %.0f s", time.Since(since).Seconds()), pause(ctx, time.Second)
	})
}

// window measures once.
func (o *quietOptions) window(ctx context.Context, k *kubernetes, s *scraper, load *writeLoad, run int, writes, manager *figure.Figure) error {
	step := k.env.Timeline.Begin("Window %d of %d: %s under write load", run, o.runs, o.duration)
	managers, err := s.managers(ctx)
	if err != nil {
		return step.Fail(err)
	}
	before, err := s.all(ctx, managers)
	if err != nil {
		return step.Fail(err)
	}
	acked, began := load.acked.Load(), time.Now()
	if err := pause(ctx, o.duration); err != nil {
		return step.Fail(err)
	}
	ended := time.Now()
	commits := float64(load.acked.Load()-acked) / ended.Sub(began).Seconds()
	if commits < leastCommits {
		return step.Fail(fmt.Errorf("only %.1f commits a second: that is no load; the last error: %w", commits, cmp.Or(load.why(), errors.New("none"))))
	}
	after, err := s.all(ctx, managers)
	if err != nil {
		return step.Fail(err)
	}
	counted := map[string]int{}
	for _, role := range slices.Sorted(maps.Keys(managers)) {
		for name, n := range after[role].writesSince(before[role]) {
			counted[name] += n
		}
		manager.Put("Resident memory, "+role, "MiB", after[role].residentMiB)
		manager.Put("Go heap in use, "+role, "MiB", after[role].heapMiB)
		manager.Put("CPU, "+role, "millicores", after[role].millicores(before[role]))
		manager.Put("Goroutines, "+role, "", after[role].goroutines)
	}
	writes.Put("By the operator, as its metric porpoise_api_writes_total counts", "writes", float64(sum(counted)))
	if len(counted) > 0 {
		writes.Note("Run %d, by the metric: %s", run, listing(counted))
	}
	if err := o.audit(ctx, k, writes, run, began, ended); err != nil {
		return step.Fail(err)
	}
	writes.Put("Commits of the load, acknowledged", "1/s", commits)
	step.Done("%d writes by the operator, %.0f commits/s", sum(counted), commits)
	return nil
}

// audit counts what the API server noted. Only the local cluster lets its log be read.
func (o *quietOptions) audit(ctx context.Context, k *kubernetes, f *figure.Figure, run int, began, ended time.Time) error {
	if k.env.Local == nil {
		if run == 1 {
			f.Note("The audit log was not read: it is not the local cluster")
		}
		return nil
	}
	logs := filepath.Join(cmp.Or(os.Getenv("PORPOISE_STATE"), "/var/lib/porpoise-cluster"), k.env.Local.Name(), "logs")
	var c *auditCount
	// Leases are renewed all the time, so that soon something newer shows that the window is complete.
	err := k.env.WaitFor(ctx, "Audit log: wait until it covers the window", 30*time.Second, func(context.Context) (bool, string, error) {
		var err error
		if c, err = countAudit(logs, began, ended); err != nil {
			return false, "", err
		}
		return c.last.After(ended.Add(time.Second)), "its last event is of " + c.last.Format(time.RFC3339), nil
	})
	if err != nil {
		return err
	}
	f.Put("By the operator, as the API server's audit log counts", "writes", float64(sum(c.operator)))
	f.Put("By anybody else to objects of the cluster's namespace (audit log)", "writes", float64(sum(c.others)))
	f.Put("Apart: the operator's renewals of its Leases (audit log)", "writes", float64(c.leases))
	if c.reviews > 0 {
		f.Put("Apart: reviews of the token by which this measurement reads metrics", "writes", float64(c.reviews))
	}
	if len(c.operator) > 0 {
		f.Note("Run %d, by the audit log: %s", run, listing(c.operator))
	}
	if len(c.others) > 0 {
		f.Note("Run %d, by others: %s", run, listing(c.others))
	}
	return nil
}
