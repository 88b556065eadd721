package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/topology"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
)

const (
	namespace, cluster, clusterID = "shop", "orders", "c1"
	// keptTrace is how many of the last lines a failure prints.
	keptTrace = 120
)

// Run is one schedule.
type Run struct {
	// Rows counts the rows of the table that were taken.
	Rows map[string]int
	// Steps taken.
	Steps int
	// Break falsifies what managers see before they decide, and BreakDecision what they decided, both given the record before,
	// until the faults end: so it is shown that a rule is needed.
	Break         func(v1.MySQLTopologyStatus, *topology.Snapshot)
	BreakDecision func(v1.MySQLTopologyStatus, *failover.Decision)
	// Overwrites makes managers win every race for the record, until the faults end.
	Overwrites bool

	rnd      *rand.Rand
	world    *fakeagent.World
	clock    time.Time
	spec     v1.MySQLTopologySpec
	record   v1.MySQLTopologyStatus
	version  int
	managers [2]*simManager
	commands []sent
	later    []func()
	up       map[string]bool
	cut      map[string]bool
	frozen   map[string]bool
	lagging  map[string]bool
	// voided and recordLost: both would be more than the operator can bear.
	voided, recordLost bool
	trace              []string
	checked            int
	asked              int
}

// sent is a command under way to one life of an agent: it ends with that life's connections.
type sent struct {
	failover.Action
	life time.Time
}

// simManager is a manager with the record that it last read.
type simManager struct {
	*Manager
	record  v1.MySQLTopologyStatus
	version int
	late    []agentapi.Status
	// deaf says which instances it hears nothing of, and reaches with no command.
	deaf map[string]bool
}

// New makes a schedule from a seed: the cluster's size, its wishes and everything that happens come from it.
func New(seed uint64) *Run {
	r := &Run{Rows: map[string]int{}, rnd: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), up: map[string]bool{}, cut: map[string]bool{}, frozen: map[string]bool{}, lagging: map[string]bool{},
		clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	size := 1 + r.rnd.IntN(4)
	r.spec = v1.MySQLTopologySpec{ClusterID: clusterID, Acks: int32(size / 2)}
	if size > 2 && r.rnd.IntN(3) == 0 {
		r.spec.Acks = int32(size - 1)
	}
	r.spec.Failover.MaxFailovers = 1000
	if r.rnd.IntN(8) == 0 {
		r.spec.Failover.MaxFailovers = 1
	}
	r.world = fakeagent.NewWorld(namespace, cluster,
		fakeagent.WithDurations(fakeagent.Durations{Initialize: 1, Clone: 1, Boot: 1, Apply: 1}),
		fakeagent.WithTime(func() time.Time { return r.clock }, func(_ time.Duration, f func()) { r.later = append(r.later, f) }))
	for i := range size {
		r.addInstance(fmt.Sprintf("%s-%d", cluster, i))
	}
	for i := range r.managers {
		r.managers[i] = r.newManager()
	}
	return r
}

// newManager has heard no agent yet; its cache of pods and the record is full before it decides.
func (r *Run) newManager() *simManager {
	m := &simManager{Manager: NewManager(namespace, cluster), record: *r.record.DeepCopy(), version: r.version, deaf: map[string]bool{}}
	for _, name := range r.names() {
		m.SeePod(name, r.up[name])
	}
	return m
}

func (r *Run) addInstance(name string) {
	r.spec.Instances = append(r.spec.Instances, name)
	r.world.Add(name)
	r.up[name] = true
}

// Violation is an invariant that did not hold; it carries the trace.
type Violation struct {
	What  string
	Trace []string
}

// Error prints the violation after the steps that led to it.
func (v *Violation) Error() string { return strings.Join(v.Trace, "\n") + "\nviolation: " + v.What }

// Do runs steps under faults, then heals everything and requires the cluster to settle (INV-7). Most schedules begin on a
// cluster that has settled: a change of members under faults is then seldom cut short by an unfinished bootstrap.
func (r *Run) Do(steps int) error {
	if r.rnd.IntN(4) != 0 {
		if err := r.calm(); err != nil {
			return err
		}
	}
	for range steps {
		r.Steps++
		r.clock = r.clock.Add(time.Duration(1+r.rnd.IntN(20)) * time.Millisecond)
		if err := r.step(); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	return r.heal()
}

func (r *Run) note(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
	if len(r.trace) > keptTrace {
		r.trace = r.trace[len(r.trace)-keptTrace:]
	}
}

// Trace is the last that happened.
func (r *Run) Trace() []string { return r.trace }

func (r *Run) violation(format string, args ...any) error {
	return &Violation{What: fmt.Sprintf(format, args...), Trace: r.trace}
}

// step lets one thing happen.
func (r *Run) step() error {
	m := r.managers[r.rnd.IntN(len(r.managers))]
	switch n := r.rnd.IntN(100); {
	case n < 30:
		r.document(m, r.anyInstance(), r.rnd.IntN(4) == 0)
	case n < 55:
		return r.decide(m)
	case n < 72:
		r.deliver()
	case n < 78:
		r.endOne()
	case n < 86:
		if p := r.record.Primary; p != "" {
			r.world.Write(p)
		}
	case n < 90:
		m.record, m.version = *r.record.DeepCopy(), r.version
	default:
		r.fault(m)
	}
	return nil
}

func (r *Run) anyInstance() string {
	names := r.names()
	return names[r.rnd.IntN(len(names))]
}

// names are all instances that ever were, sorted: a map's order would make a seed another schedule each time.
func (r *Run) names() []string { return slices.Sorted(maps.Keys(r.up)) }

// document brings a manager an instance's document: at once, or much later and perhaps after newer ones.
func (r *Run) document(m *simManager, name string, late bool) {
	m.SeePod(name, r.up[name])
	if m.deaf[name] {
		m.Lose(name, r.clock)
		return
	}
	if len(m.late) > 0 && r.rnd.IntN(2) == 0 {
		st := m.late[0]
		m.late = m.late[1:]
		m.Hear(st, time.Time{}, r.clock)
	}
	asked := r.clock
	st, err := r.world.Status(name)
	if err != nil {
		m.Lose(name, r.clock)
		return
	}
	if late {
		m.late = append(m.late, st)
		return
	}
	r.clock = r.clock.Add(time.Microsecond)
	if r.rnd.IntN(2) == 0 {
		asked = time.Time{}
	}
	m.Hear(st, asked, r.clock)
}

// decide plans on the manager's record, which may be old, and records by compare and swap before it acts (INV-6).
func (r *Run) decide(m *simManager) error {
	if q := m.record.Quorum; q != nil {
		for _, member := range q.Members {
			if !r.up[member.Name] || !m.pods[member.Name].Exists {
				m.SeePod(member.Name, r.up[member.Name]) // The lane asks the API server itself before it believes that one is gone.
			}
		}
	}
	snapshot := m.Snapshot(r.spec)
	if r.Break != nil {
		r.Break(m.record, &snapshot)
	}
	d := failover.Plan(snapshot, m.record, r.clock)
	if r.BreakDecision != nil {
		r.BreakDecision(m.record, &d)
	}
	r.Rows[d.Row]++
	if !equality.Semantic.DeepEqual(d.Record, m.record) {
		if m.version != r.version && !r.Overwrites {
			r.note("%s: lost the race", d.Row)
			m.record, m.version = *r.record.DeepCopy(), r.version
			return nil
		}
		if err := r.checkRecord(d.Record); err != nil {
			return err
		}
		r.version++
		if err := r.store(d.Record); err != nil {
			return err
		}
		m.record, m.version = *r.record.DeepCopy(), r.version
		r.note("%s: recorded %s/%s epoch %d routed %t %s", d.Row, d.Record.Phase, d.Record.Reason, d.Record.Epoch, d.Record.Routed, textOf(d.Record.Quorum))
	}
	for _, a := range d.Actions {
		r.note("%s: %s to %s (%s)", d.Row, a.Command.Type, a.Instance, a.Why)
		if m.deaf[a.Instance] {
			continue
		}
		r.commands = append(r.commands, sent{a, r.world.Life(a.Instance)})
	}
	return nil
}

// Spoil makes the model of MySQL and its agents break a rule until the faults end.
func (r *Run) Spoil(f fakeagent.Flaw) { r.world.Spoil(f) }

// store keeps a record as the API server does: what is read back must be what was written.
func (r *Run) store(next v1.MySQLTopologyStatus) error {
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	var back v1.MySQLTopologyStatus
	if err := json.Unmarshal(data, &back); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(back, next) {
		return r.violation("the record read back differs from the one that was written:\n%s\n%+v", data, next)
	}
	r.record = back
	return nil
}

// checkRecord compares a new record with the one before.
func (r *Run) checkRecord(next v1.MySQLTopologyStatus) error {
	old := r.record
	switch {
	case next.Epoch < old.Epoch:
		return r.violation("the epoch falls from %d to %d (INV-3)", old.Epoch, next.Epoch)
	case old.Quorum != nil && (next.Quorum == nil || next.Quorum.Generation < old.Quorum.Generation):
		return r.violation("the quorum's generation falls from %s to %s", textOf(old.Quorum), textOf(next.Quorum))
	case !old.Routed && next.Routed && next.Quorum.RequiredAcks < r.spec.Acks:
		return r.violation("clients are let in with %d acks of %d", next.Quorum.RequiredAcks, r.spec.Acks)
	case old.Epoch > 0 && next.Primary != old.Primary && next.Epoch == old.Epoch:
		return r.violation("the primary changes from %s to %s within epoch %d", old.Primary, next.Primary, next.Epoch)
	}
	return nil
}

// deliver carries one command to its instance, in any order, perhaps twice or never.
func (r *Run) deliver() {
	if len(r.commands) == 0 {
		return
	}
	i := r.rnd.IntN(len(r.commands))
	a := r.commands[i]
	if r.rnd.IntN(8) != 0 {
		r.commands = slices.Delete(r.commands, i, i+1)
	}
	if r.rnd.IntN(10) == 0 {
		r.note("lost: %s to %s", a.Command.Type, a.Instance)
		return
	}
	r.carry(a)
}

// carry brings a command to its instance, if the agent that it was sent to still lives.
func (r *Run) carry(a sent) {
	if !r.world.Life(a.Instance).Equal(a.life) {
		r.note("ended with its connection: %s to %s", a.Command.Type, a.Instance)
		return
	}
	err := r.world.Do(a.Instance, a.Command)
	r.note("delivered: %s to %s %s: %v", a.Command.Type, a.Instance, wireText(a.Command.Quorum), err)
}

// endOne ends one of the things that take time.
func (r *Run) endOne() {
	if len(r.later) == 0 {
		return
	}
	i := r.rnd.IntN(len(r.later))
	f := r.later[i]
	r.later = slices.Delete(r.later, i, i+1)
	f()
}

// check holds the invariant that INV-1 and INV-4 rest on: whatever was acknowledged to a client, no set of members that
// would suffice for a promotion lacks it. |C| + W > N must hold for the record, so at most N - W members may lack it.
func (r *Run) check() error {
	if lost := r.world.Lost(); len(lost) > 0 {
		return r.violation("%s", lost[0])
	}
	q := r.record.Quorum
	if q == nil || q.RequiredAcks == 0 || !r.record.Routed {
		return nil
	}
	acked := gtid.Set{}
	for _, c := range r.world.Acknowledged() {
		acked = acked.Union(c.GTID)
	}
	lack := 0
	for _, m := range q.Members {
		holds, exists := r.world.Holds(m.Name, m.Incarnation)
		if exists && !holds.Contains(acked) {
			lack++
		}
	}
	r.checked++
	if n := len(q.Members); lack > n-int(q.RequiredAcks) {
		return r.violation("%d of %d members lack an acknowledged commit; by the record (%s) at most %d may (INV-4)", lack, n, textOf(q), n-int(q.RequiredAcks))
	}
	return nil
}

// heal ends all faults and lets one manager work undisturbed.
func (r *Run) heal() error {
	r.note("all faults end")
	r.Break, r.BreakDecision, r.Overwrites = nil, nil, false
	r.world.Heed()
	for _, name := range r.names() {
		r.cut[name] = false
		r.world.CutOff(name, false)
		r.frozen[name], r.lagging[name] = false, false
		r.world.Freeze(name, false)
		r.world.Lag(name, false)
		r.world.Hang(name, false)
		if !r.up[name] {
			r.world.StartPod(name)
			r.up[name] = true
		}
	}
	r.commands = nil
	r.spec.Restarting, r.spec.Suspend = "", false
	return r.calm()
}

// calm lets one manager work undisturbed until the cluster has settled.
func (r *Run) calm() error {
	m := r.newManager()
	for round := range 300 {
		if round%20 == 19 {
			r.clock = r.clock.Add(3 * time.Second) // Bounds in time pass, too.
		}
		for len(r.later) > 0 {
			r.endOne()
		}
		for _, name := range append(r.names(), r.record.Primary) {
			if name == "" {
				continue
			}
			r.clock = r.clock.Add(time.Millisecond)
			m.SeePod(name, true)
			if st, err := r.world.Status(name); err == nil {
				m.Hear(st, r.clock, r.clock)
			}
		}
		if err := r.decide(m); err != nil {
			return err
		}
		for len(r.commands) > 0 {
			a := r.commands[0]
			r.commands = r.commands[1:]
			r.carry(a)
		}
		if err := r.check(); err != nil {
			return err
		}
		if slices.Contains(beyondRepair, r.record.Reason) && r.spec.AcceptDataLoss == nil {
			if !r.voided {
				return r.violation("members are taken for lost though no volume was")
			}
			r.note("a person accepts the loss")
			r.spec.AcceptDataLoss = &v1.DataLossAcceptance{ID: "1", By: "a person", At: metav1.NewTime(r.clock.Truncate(time.Second))}
			r.world.Forgive()
		}
		if r.settled(m) {
			return nil
		}
	}
	return r.violation("it does not settle while there are no faults (INV-7): %s/%s: %s %+v", r.record.Phase, r.record.Reason, r.record.Message, r.record.Instances)
}

// beyondRepair are the reasons for which a person is asked to accept a loss: a volume was lost at the wrong moment.
var beyondRepair = []string{v1.TopologyMembersLost, v1.TopologyPrimaryDataLost, v1.TopologyNoCandidate}

// settled: a primary, all wanted instances members, wanted acks in the record.
func (r *Run) settled(m *simManager) bool {
	s := r.record
	snapshot := m.Snapshot(r.spec)
	return s.Phase == v1.TopologyStable && s.Routed && s.Reason == v1.TopologyHealthy && s.Quorum.RequiredAcks == r.spec.Acks &&
		len(s.Quorum.Members) == len(r.spec.Instances)-1 && snapshot.Instance(s.Primary).Writable() == topology.True
}

func wireText(q *agentapi.Quorum) string {
	if q == nil {
		return ""
	}
	out := v1.Quorum{Generation: q.Generation, RequiredAcks: q.RequiredAcks}
	for _, m := range q.Members {
		out.Members = append(out.Members, v1.QuorumMember(m))
	}
	return textOf(&out)
}

func textOf(q *v1.Quorum) string {
	if q == nil {
		return "no quorum"
	}
	names := make([]string, 0, len(q.Members))
	for _, m := range q.Members {
		names = append(names, m.Name)
	}
	return fmt.Sprintf("{g%d W%d %v}", q.Generation, q.RequiredAcks, names)
}
