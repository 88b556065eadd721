package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/test/bench/internal/figure"
	"github.com/porpoise-dev/porpoise/test/env"
)

// fleetOptions of `bench fleet`.
type fleetOptions struct {
	clusters, instances, runs, parallel int
	duration                            time.Duration
	writeRate                           float64
}

func (o *fleetOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.clusters, "clusters", 200, "clusters on fake agents")
	f.IntVar(&o.instances, "instances", 3, "instances of each cluster")
	f.IntVar(&o.runs, "runs", 5, "windows to measure")
	f.DurationVar(&o.duration, "duration", time.Minute, "length of a window")
	f.IntVar(&o.parallel, "parallel", 20, "clusters that are in creation at a time")
	f.Float64Var(&o.writeRate, "write-rate", 10, "commits a second in each cluster: GTID sets change with every status document")
}

func (*fleetOptions) quick() map[string]string {
	return map[string]string{"clusters": "5", "runs": "1", "duration": "5s"}
}

func (o *fleetOptions) check() error {
	var rate error
	if o.writeRate < 0 || o.writeRate > 100_000 {
		rate = fmt.Errorf("--write-rate: %g; allowed is 0 to 100000", o.writeRate)
	}
	return errors.Join(between("clusters", o.clusters, 1, 10_000), between("instances", o.instances, 1, 10), between("runs", o.runs, 1, 1000),
		between("parallel", o.parallel, 1, 10_000), lasting("duration", o.duration), rate)
}

// measure runs an API server, the manager as a process, and everything else that clusters consist of as a model.
func (o *fleetOptions) measure(ctx context.Context, b *bench) (err error) {
	f := b.figure("manager-fleet", fmt.Sprintf("The manager with %d clusters of %d instances on fake agents", o.clusters, o.instances))
	timeline := env.NewTimeline(os.Stderr)
	waiter := &env.Env{Timeline: timeline} // Only its WaitFor is used, which needs no cluster.
	api, err := startControlPlane(ctx, timeline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()
	m, err := startManager(ctx, b.out, api, timeline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	w, err := startFleetWorld(ctx, api, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()

	began := time.Now()
	if err := o.create(ctx, waiter, api, w, m); err != nil {
		return m.explain(err)
	}
	f.Add(fmt.Sprintf("Time until all are Ready, %d at a time", o.parallel), "s", time.Since(began).Seconds())
	if err := o.waitStill(ctx, waiter, m); err != nil {
		return m.explain(err)
	}
	for run := range o.runs {
		if err := o.window(ctx, timeline, w, m, run+1, f); err != nil {
			return m.explain(err)
		}
	}
	elections, err := m.elections()
	if err != nil {
		return err
	}
	f.Add("Elections won since the start; 2: no Lease was lost", "", float64(elections))
	f.Note("One manager, which leads both lanes, as a process with GOMEMLIMIT=512MiB as in its Deployment; each agent sends its status at least every 500 ms over a stream of its own (TLS), %g commits a second in each cluster; windows of %s after everything is still; the API server, etcd and the agents share the machine's CPU, but only the manager's is counted", o.writeRate, o.duration)
	return b.keepFigure(f)
}

// stalledAfter is how long no cluster may become Ready while some are in creation.
const stalledAfter = 3 * time.Minute

// create makes the clusters, some at a time, and waits until all are Ready.
func (o *fleetOptions) create(ctx context.Context, waiter *env.Env, api *controlPlane, w *fleetWorld, m *managerProcess) error {
	made, most, since := 0, 0, time.Now()
	return waiter.WaitFor(ctx, fmt.Sprintf("Fleet: make %d clusters", o.clusters), time.Hour, func(ctx context.Context) (bool, string, error) {
		if err := m.alive(); err != nil {
			return false, "", err
		}
		if err := w.err(); err != nil {
			return false, "", fmt.Errorf("%w: %w", env.ErrGiveUp, err)
		}
		ready, err := w.ready(ctx)
		if err != nil {
			return false, "", err
		}
		if ready > most {
			most, since = ready, time.Now()
		}
		if time.Since(since) > stalledAfter {
			return false, "", fmt.Errorf("%w: no cluster became Ready for %s, %d of %d are: %w", env.ErrGiveUp, stalledAfter, ready, made, m.lastError())
		}
		for made < o.clusters && made-ready < o.parallel {
			if err := api.client.Create(ctx, clusterOf(fleetNamespace, fleetCluster(made), o.instances)); err != nil {
				return false, "", fmt.Errorf("create MySQLCluster %s: %w", fleetCluster(made), err)
			}
			made++
		}
		return ready == o.clusters, fmt.Sprintf("%d made, %d Ready", made, ready), nil
	})
}

// ready counts the clusters that are, as the cache shows.
func (w *fleetWorld) ready(ctx context.Context) (int, error) {
	list := &porpoisev1.MySQLClusterList{}
	if err := w.cached.List(ctx, list); err != nil {
		return 0, fmt.Errorf("list the fleet's clusters: %w", err)
	}
	n := 0
	for i := range list.Items {
		if env.AllReady(&list.Items[i]) {
			n++
		}
	}
	return n, nil
}

func (o *fleetOptions) waitStill(ctx context.Context, waiter *env.Env, m *managerProcess) error {
	last, since := -1.0, time.Now()
	return waiter.WaitFor(ctx, "Manager: wait until it has nothing left to do", 10*time.Minute, func(ctx context.Context) (bool, string, error) {
		s, err := m.sample(ctx)
		if err != nil {
			return false, "", err
		}
		now := 0.0
		for _, n := range s.writes {
			now += n
		}
		if now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= stillFor, fmt.Sprintf("no write for %.0f s", time.Since(since).Seconds()), pause(ctx, time.Second)
	})
}

func (o *fleetOptions) window(ctx context.Context, t *env.Timeline, w *fleetWorld, m *managerProcess, run int, f *figure.Figure) error {
	step := t.Begin("Window %d of %d: %s", run, o.runs, o.duration)
	before, err := m.sample(ctx)
	if err != nil {
		return step.Fail(err)
	}
	sent := w.sent()
	if err := pause(ctx, o.duration); err != nil {
		return step.Fail(err)
	}
	after, err := m.sample(ctx)
	if err != nil {
		return step.Fail(err)
	}
	seconds := after.at.Sub(before.at).Seconds()
	counted := after.writesSince(before)
	f.Put("Resident memory", "MiB", after.residentMiB)
	f.Put("Go heap in use", "MiB", after.heapMiB)
	f.Put("CPU", "millicores", after.millicores(before))
	f.Put("Goroutines", "", after.goroutines)
	f.Put("Status documents from agents", "1/s", float64(w.sent()-sent)/seconds)
	f.Put("Writes to the API server, Leases apart", "writes/min", float64(sum(counted))*60/seconds)
	f.Put("Renewals of Leases", "writes/min", (after.leases-before.leases)*60/seconds)
	if len(counted) > 0 {
		f.Note("Run %d wrote: %s", run, listing(counted))
	}
	step.Done("%.0f MiB resident, %.0f millicores", after.residentMiB, after.millicores(before))
	return w.err()
}

// Names in the fleet.
const fleetNamespace = "fleet"

func fleetCluster(n int) string { return fmt.Sprintf("db-%d", n) }

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// sample reads the manager's metrics.
func (m *managerProcess) sample(ctx context.Context) (*sample, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return scrape(ctx, &http.Client{Timeout: 10 * time.Second}, "http://"+m.metrics+"/metrics", "")
}

// elections counts the Leases that the manager took, by its log. On a machine without enough processor time it loses them.
func (m *managerProcess) elections() (int, error) {
	text, err := os.ReadFile(m.log)
	if err != nil {
		return 0, fmt.Errorf("read the manager's log: %w", err)
	}
	return bytes.Count(text, []byte("uccessfully acquired lease")), nil
}

// explain adds where the manager's log is.
func (m *managerProcess) explain(err error) error {
	path, pathErr := filepath.Abs(m.log)
	if pathErr != nil {
		path = m.log
	}
	return fmt.Errorf("%w\n  the manager's log: %s", err, path)
}
