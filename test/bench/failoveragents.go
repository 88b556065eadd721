package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/test/bench/internal/figure"
	"github.com/porpoise-dev/porpoise/test/chaos"
)

// crashOptions of `bench failover-agents`.
type crashOptions struct {
	runs    int
	writers []int
	write   time.Duration
}

func (o *crashOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.runs, "runs", 300, "failovers to measure with each number of writers")
	f.IntSliceVar(&o.writers, "writers", []int{0, 8}, "numbers of writers before the crash; 0: one that begins with the crash")
	f.DurationVar(&o.write, "record-write", 5*time.Millisecond, "what a write of the record takes, as the API server's")
}

func (*crashOptions) quick() map[string]string { return map[string]string{"runs": "2"} }

func (o *crashOptions) check() error {
	errs := []error{between("runs", o.runs, 1, 10_000)}
	for _, n := range o.writers {
		errs = append(errs, between("writers", n, 0, 32))
	}
	if o.write < 0 || o.write > time.Second {
		errs = append(errs, fmt.Errorf("--record-write: %s; allowed is 0s to 1s", o.write))
	}
	return errors.Join(errs...)
}

// crashStages are what one failover is made of, in their order. The last may begin before the one before it ends: routing
// does not wait for the answer to Promote.
var crashStages = []string{
	"detect: mysqld is killed, its agent reports, it is decided that the primary is lost", "record the fence",
	"fence: the members confirm, one is elected", "record the new primary", "promote: apply, open, answer", "first acknowledged write",
}

// crashTimes are the moments of one failover.
type crashTimes struct {
	killed, lost, fenced, elected, promoted, opened, acked time.Time
	// failovers is how often it was decided that the primary is lost.
	failovers int
}

// stages in milliseconds; they add up to the whole.
func (t crashTimes) stages() []float64 {
	var out []float64
	last := t.killed
	for _, at := range []time.Time{t.lost, t.fenced, t.elected, t.promoted, t.opened, t.acked} {
		at = minTime(maxTime(at, last), t.acked)
		out = append(out, milliseconds(at.Sub(last)))
		last = at
	}
	return out
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// crashWatch takes the moments from what the lane tells.
type crashWatch struct {
	mu    sync.Mutex
	times crashTimes
}

func (c *crashWatch) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = crashTimes{}
}

func (c *crashWatch) see(s chaos.Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := func(at *time.Time) {
		if at.IsZero() {
			*at = s.At
		}
	}
	switch {
	case s.Kind == "decided" && strings.HasSuffix(s.Row, "/fail-over"):
		c.times.failovers++
		first(&c.times.lost)
	case s.Kind == "recorded" && strings.HasSuffix(s.Row, "/fail-over"):
		first(&c.times.fenced)
	case s.Kind == "decided" && s.Row == "Fencing/elect":
		first(&c.times.elected)
	case s.Kind == "recorded" && s.Row == "Fencing/elect":
		first(&c.times.promoted)
	case s.Kind == "command" && s.Command == string(agentapi.CommandPromote):
		first(&c.times.opened)
	}
}

// measure kills the primary's mysqld again and again, on agents and mysqlds without Kubernetes.
func (o *crashOptions) measure(ctx context.Context, b *bench) error {
	if err := ensureMysqld(ctx); err != nil {
		return err
	}
	var figures []*figure.Figure
	for _, writers := range o.writers {
		f := b.figure(fmt.Sprintf("failover-agents-%d", writers),
			fmt.Sprintf("kill -9 of the primary's mysqld to the first acknowledged write, agents and mysqlds alone, %d writers", writers))
		f.Target = "median at most 0.5 s, 99th percentile at most 1 s, at most twice the scripted floor"
		err := withHarness(func(h *harness) error { return o.crashes(ctx, h, writers, f) })
		if err != nil {
			return fmt.Errorf("%d writers: %w", writers, err)
		}
		f.Note("Three agents, each a process, with real mysqlds on loopback addresses; the manager's decisions and streams are the real ones, its record is a compare and swap in memory of %s a write; no Kubernetes, no Service: a client connects to whom the record names", o.write)
		figures = append(figures, f)
	}
	for _, f := range figures {
		if err := b.keepFigure(f); err != nil {
			return err
		}
	}
	return nil
}

// crashes measures with one number of writers on a cluster of its own.
func (o *crashOptions) crashes(ctx context.Context, h *harness, writers int, f *figure.Figure) error {
	w, err := chaos.New(h, chaos.Options{Instances: 3, WriteDelay: o.write})
	if err != nil {
		return err
	}
	watch := &crashWatch{}
	w.Watch(watch.see)
	w.StartLane()
	var ids atomic.Int64
	totals, parts, lost, odd := []float64{}, make([][]float64, len(crashStages)), 0, 0
	for run := range o.runs {
		times, err := o.crash(ctx, w, watch, writers, run, &ids)
		var gone *chaos.LostError
		if errors.As(err, &gone) {
			lost += gone.Count
		}
		if err != nil {
			return fmt.Errorf("failover %d of %d, %d acknowledged writes lost: %w", run+1, o.runs, lost, err)
		}
		if times.failovers != 1 {
			odd++
		}
		totals = append(totals, milliseconds(times.acked.Sub(times.killed)))
		for i, ms := range times.stages() {
			parts[i] = append(parts[i], ms)
		}
		fmt.Fprintf(os.Stderr, "%d writers, failover %d of %d: %.0f ms %.0f\n", writers, run+1, o.runs, totals[run], times.stages())
	}
	f.Add("Without an acknowledged write", "ms", totals...)
	f.Add("… 99th percentile", "ms", figure.Percentile(totals, 99))
	for i, stage := range crashStages {
		f.Add("… "+stage, "ms", parts[i]...)
	}
	f.Add("Acknowledged writes lost", "", float64(lost))
	if odd > 0 {
		f.Note("%d of %d crashes led to none or to several failovers; they are counted", odd, o.runs)
	}
	return nil
}

// crash measures one failover and checks that every acknowledged write of it is there.
func (o *crashOptions) crash(ctx context.Context, w *chaos.World, watch *crashWatch, writers, run int, ids *atomic.Int64) (crashTimes, error) {
	if err := w.AwaitHealthy(ctx); err != nil {
		return crashTimes{}, err
	}
	options := chaos.WriterOptions{Writers: max(writers, 1), Dial: writerDial, IO: writerIO}
	if writers == 0 {
		options.Idle = true
	}
	ws, err := w.StartWriters(ctx, fmt.Sprintf("bench_%d", run), ids, options)
	if err != nil {
		return crashTimes{}, err
	}
	defer ws.Stop()
	if writers > 0 {
		if _, err := ws.FirstAfter(ctx, time.Now().Add(writersRun)); err != nil {
			return crashTimes{}, err
		}
	}
	rec, _ := w.Store.Load()
	if rec.Phase != porpoisev1.TopologyStable {
		return crashTimes{}, fmt.Errorf("the record is in phase %s: the last crash is not over", rec.Phase)
	}
	watch.begin()
	killed := time.Now()
	if !chaos.KillMysqld(w.Instance(rec.Primary)) {
		return crashTimes{}, fmt.Errorf("no mysqld of %s was found", rec.Primary)
	}
	ws.Go()
	first, err := ws.FirstAfter(ctx, killed)
	if err != nil {
		return crashTimes{}, err
	}
	ws.Stop() // Else the former primary would catch up for as long as it is slower than they are.
	if err := w.AwaitHealthy(ctx); err != nil {
		return crashTimes{}, err
	}
	watch.mu.Lock()
	times := watch.times
	watch.mu.Unlock()
	times.killed, times.acked = killed, first.Acked
	return times, ws.CheckAndDrop(ctx)
}

// writersRun is how long writers write before the crash.
const writersRun = 300 * time.Millisecond
