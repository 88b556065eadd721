package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// key names the cluster of agenttest.
var key = types.NamespacedName{Namespace: "test", Name: "db"}

// Step is something that a lane did.
type Step struct {
	At   time.Time
	Lane string
	// Kind is "decided", "recorded", "lost the race", "awaits", "command" or "command failed".
	Kind string
	// Row of the decision.
	Row string
	// Epoch of the record, or of the command.
	Epoch int64
	// Instance and Command of a command.
	Instance, Command string
	// Text for people.
	Text string
}

func (s Step) String() string {
	return fmt.Sprintf("%s %s %s %s epoch %d %s %s %s", s.At.UTC().Format("15:04:05.000"), s.Lane, s.Kind, s.Row, s.Epoch, s.Instance, s.Command, s.Text)
}

// Lane is a manager's topology lane. It keeps the order of controllers/topology/steps.go: load, sample, observe, decide, record,
// act, wait.
type Lane struct {
	name     string
	world    *World
	ctx      context.Context
	cancel   context.CancelFunc
	pool     *agentclient.Pool
	executor *executor
	wake     chan struct{}
	waits    atomic.Bool
	awaiting awaiting
	running  sync.WaitGroup
	lastRow  string
	told     time.Time
}

// startLane starts one.
func startLane(w *World, name string) *Lane {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Lane{name: name, world: w, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1)}
	l.pool = agentclient.NewPool(ctx, func(_ types.NamespacedName, kind agentclient.Kind) {
		if kind == agentclient.Event || l.waits.Load() {
			l.trigger()
		}
	})
	l.executor = newExecutor(l)
	l.pool.Ensure(key, w.credentials, w.targets())
	forgetStore := w.Store.watch(l.trigger)
	forgetPods := w.watchPods(l.trigger)
	l.running.Go(func() {
		defer forgetStore()
		defer forgetPods()
		l.run()
	})
	l.trigger()
	return l
}

// Kill ends the lane wherever it is: in the middle of a write or of a command.
func (l *Lane) Kill() {
	l.cancel()
	l.running.Wait()
	l.pool.Forget(key)
}

// trigger asks for a pass; what was asked for already is joined.
func (l *Lane) trigger() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Lane) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		after := l.pass()
		if after <= 0 {
			after = time.Hour
		}
		timer.Reset(after)
	}
}

// pass decides once and returns when to look again; 0: when something happens.
func (l *Lane) pass() time.Duration {
	rec, version := l.world.Store.Load()
	l.sample()
	d := failover.Plan(l.snapshot(), rec, time.Now())
	if d.Row != l.lastRow {
		l.lastRow = d.Row
		l.note(Step{Kind: "decided", Row: d.Row, Epoch: rec.Epoch, Text: d.Record.Message})
	}
	recorded := false
	if !equality.Semantic.DeepEqual(rec, d.Record) {
		if err := l.world.Store.Update(l.ctx, version, d.Record); err != nil {
			if errors.Is(err, errConflict) {
				l.trigger()
			}
			l.note(Step{Kind: "lost the race", Row: d.Row, Epoch: d.Record.Epoch, Text: err.Error()})
			return 100 * time.Millisecond
		}
		recorded = true
		l.note(Step{Kind: "recorded", Row: d.Row, Epoch: d.Record.Epoch, Text: fmt.Sprintf("%s/%s %s %q", d.Record.Phase, d.Record.Reason, d.Record.Message, d.Evidence)})
	}
	after := d.RecheckAfter
	for _, a := range d.Actions {
		after = sooner(after, l.executor.start(a))
	}
	if recorded {
		l.trigger()
		return after
	}
	awaited := d.WaitsForProgress
	if name := d.NeedsSampleOf; name != "" {
		awaited = []string{name}
	}
	l.waits.Store(len(awaited) > 0)
	l.tellAwaited(awaited)
	return sooner(after, l.awaiting.await(d.Row, awaited))
}

// tellAwaited notes now and then what is missing where a decision waits for sets of transactions.
func (l *Lane) tellAwaited(names []string) {
	if len(names) < 2 || time.Since(l.told) < time.Second {
		return
	}
	l.told = time.Now()
	heard := l.pool.Observe(key)
	source := heard[names[0]].Status
	if source == nil || source.Server == nil {
		return
	}
	for _, name := range names[1:] {
		st := heard[name].Status
		if st == nil || st.Server == nil || st.Server.Replication == nil {
			continue
		}
		executed, received := st.Server.GTIDExecuted, st.Server.Replication.Received
		l.note(Step{Kind: "awaits", Row: l.lastRow, Instance: name, Text: fmt.Sprintf("of what %s executed it lacks %d, %d are received and not applied",
			names[0], source.Server.GTIDExecuted.Subtract(executed.Union(received)).Count(), received.Subtract(executed).Count())})
	}
}

// sooner is the smaller of two times of which 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// sampleTimeout as in controllers/topology.
const sampleTimeout = time.Second

// sample asks for fresh documents of whom the last decision waits for, the primary's first.
func (l *Lane) sample() {
	due := l.awaiting.due(time.Now())
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, sampleTimeout)
	defer cancel()
	// An agent that does not answer shows as such in the snapshot.
	_ = l.pool.Sample(ctx, key, due[0])
	var wg sync.WaitGroup
	for _, name := range due[1:] {
		wg.Go(func() { _ = l.pool.Sample(ctx, key, name) })
	}
	wg.Wait()
}

// snapshot puts together what the lane knows.
func (l *Lane) snapshot() topology.Snapshot {
	s := topology.Snapshot{Namespace: key.Namespace, Cluster: key.Name, Generation: 1, Spec: l.world.Spec, Suspect: l.pool.Suspect(), FreshVolumes: true}
	heard := l.pool.Observe(key)
	for _, i := range l.world.Cluster.Instances {
		name := i.Config.Instance
		o := heard[name]
		s.Instances = append(s.Instances, topology.Instance{
			Name: name, Host: i.Host, Wanted: true, Pod: l.world.pod(name), Status: o.Status, SilentSince: o.SilentSince,
			SampledAfter: o.SampledAfter, HeldSince: o.HeldSince, ExecutedSince: o.ExecutedSince, ProcessSince: o.ProcessSince,
		})
	}
	return s
}

func (l *Lane) note(s Step) {
	s.At, s.Lane = time.Now(), l.name
	l.world.note(s)
}

// awaiting is what controllers/topology remembers of what a decision waits for.
type awaiting struct {
	names    []string
	row      string
	attempts int
	sampled  time.Time
}

// slowSample and samplePauses as in controllers/topology.
const slowSample = time.Second

var samplePauses = []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}

// await remembers and returns when to look again; 0: at the next document.
func (a *awaiting) await(row string, names []string) time.Duration {
	if len(names) == 0 {
		*a = awaiting{sampled: a.sampled}
		return 0
	}
	if a.row != row {
		a.attempts = 0
	}
	a.names, a.row = names, row
	if a.attempts >= len(samplePauses) {
		return slowSample
	}
	return samplePauses[a.attempts]
}

// due returns whom to sample now.
func (a *awaiting) due(now time.Time) []string {
	least := samplePauses[0] / 2
	if a.attempts >= len(samplePauses) {
		least = slowSample / 2
	}
	if len(a.names) == 0 || now.Sub(a.sampled) < least {
		return nil
	}
	a.attempts++
	a.sampled = now
	return a.names
}
