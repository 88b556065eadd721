package fakeagent

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// Durations of what takes time; zero values are immediate.
type Durations struct {
	Initialize, Clone, Boot, Apply time.Duration
}

// World is the instances of one cluster. Its methods are safe for concurrent use.
type World struct {
	namespace, cluster string
	durations          Durations
	after              func(time.Duration, func())
	now                func() time.Time

	mu        sync.Mutex
	instances map[string]*instance
	made      int
	acked     []Commit
	lost      []string
	topEpoch  int64
	top       *instance // opened in topEpoch, the highest
	flaw      Flaw
	rate      float64
	loaded    time.Time
	changed   map[string]chan struct{}
}

// Commit is one that its client was told is committed.
type Commit struct {
	// GTID of the transaction, as a set of one.
	GTID gtid.Set
	// By are the incarnations that acknowledged it.
	By []string
}

// Option changes a new World.
type Option func(*World)

// WithDurations makes things take time.
func WithDurations(d Durations) Option { return func(w *World) { w.durations = d } }

// WithTime injects the clock and how things are done later.
func WithTime(now func() time.Time, after func(time.Duration, func())) Option {
	return func(w *World) { w.now, w.after = now, after }
}

// NewWorld makes a cluster without instances.
func NewWorld(namespace, cluster string, options ...Option) *World {
	w := &World{
		namespace: namespace, cluster: cluster, now: time.Now,
		after:     func(d time.Duration, f func()) { time.AfterFunc(d, f) },
		instances: map[string]*instance{}, changed: map[string]chan struct{}{},
	}
	for _, o := range options {
		o(w)
	}
	w.loaded = w.now()
	return w
}

// Add makes an instance with an empty volume, its pod running.
func (w *World) Add(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances[name] = &instance{name: name, data: agentapi.DataEmpty, podUp: true, agentStart: w.now(), process: agentapi.ProcessStopped}
	w.changed[name] = make(chan struct{})
}

// instance is one pod with its volume.
type instance struct {
	name string

	// On the volume.
	clusterID    string
	epoch        int64
	role         agentapi.Role
	primary      string
	primaryEpoch int64
	quorum       *agentapi.Quorum
	fenced       bool // epoch is one of fencing: it receives nothing in it
	wasPrimary   bool // what its binary log holds beyond acknowledgement was not looked at
	data         agentapi.DataState
	dataErr      string
	incarnation  string
	uuid         gtid.UUID
	next         int64
	// logged is what its binary log holds of its own commits and of what it applied; executed is what is visible.
	logged, executed, purged, received gtid.Set
	source                             string

	// Of the life of mysqld.
	process       agentapi.ProcessState
	startedAt     time.Time
	pid           int
	readOnly      bool
	semiSource    bool
	semiCount     int
	semiReplica   bool
	appliedQuorum int64
	receiver      string
	applier       string
	receiverErrno int
	waiting       []*waiting

	// Of the life of the agent.
	podUp      bool
	agentStart time.Time
	sequence   uint64
	confirmed  bool
	exits      int
	lastExit   string
	operation  *agentapi.OperationStatus

	// Faults.
	cutOff   bool // its replication connections do not come through
	frozen   bool // it receives nothing
	silent   bool // its agent does not answer
	ending   bool // its agent was told to end: it takes no commands any more
	failNext map[agentapi.CommandType]string
	hung     time.Time // since when mysqld answers nobody; zero: it does
	lagging  bool      // it applies nothing of what it receives
	halfDone bool      // the next quorum is stored, and reported, but not carried out
}

// waiting is a commit that waits for acknowledgements.
type waiting struct {
	gtid gtid.Set
	by   []string
}

// newUUID makes a UUID that is the same in each run.
func (w *World) newUUID() gtid.UUID {
	w.made++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", w.namespace, w.cluster, w.made))
	var id gtid.UUID
	copy(id[:], sum[:16])
	return id
}

// change wakes an instance's streams.
func (w *World) change(i *instance) {
	close(w.changed[i.name])
	w.changed[i.name] = make(chan struct{})
}

// later does something with the world locked, after a while, if the instance's pod is still the same one.
func (w *World) later(d time.Duration, i *instance, f func()) {
	life := i.agentStart
	run := func() {
		if i.podUp && i.agentStart.Equal(life) {
			f()
			w.settle()
			w.change(i)
		}
	}
	if d == 0 {
		run()
		return
	}
	w.after(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		run()
	})
}

// start boots mysqld on an instance's data, unless a manager must say how first: whoever might have been replaced by a
// member of its quorum shows nothing that nobody acknowledged.
func (w *World) start(i *instance) {
	if i.wasPrimary && i.quorum != nil && len(i.quorum.Members) > 0 {
		i.process = agentapi.ProcessHeld
		return
	}
	w.boot(i)
}

// boot makes mysqld run: read-only, without replication, everything in its binary log visible.
func (w *World) boot(i *instance) {
	i.process = agentapi.ProcessStarting
	w.later(w.durations.Boot, i, func() {
		if i.process != agentapi.ProcessStarting || i.data != agentapi.DataReady {
			return
		}
		w.made++
		i.process, i.startedAt, i.pid = agentapi.ProcessRunning, w.now(), 1000+w.made
		i.executed = i.executed.Union(i.logged)
		if w.flaw == ForgetsReceived {
			i.received = i.received.Intersect(i.executed)
		}
		i.readOnly, i.semiSource, i.semiCount, i.semiReplica, i.appliedQuorum = true, false, 0, false, 0
		i.receiver, i.applier, i.receiverErrno = "OFF", "OFF", 0
	})
}

// end stops mysqld at once. What waited for an acknowledgement was not told to its client.
func (i *instance) end(state agentapi.ProcessState, why string) {
	i.process, i.lastExit, i.waiting, i.hung = state, why, nil, time.Time{}
	i.receiver, i.applier = "OFF", "OFF"
}

// settle moves everything that replication moves, until nothing moves.
func (w *World) settle() {
	for _, name := range w.names() {
		w.replicate(w.instances[name])
	}
	for _, name := range w.names() {
		w.release(w.instances[name])
	}
}

func (w *World) names() []string {
	names := make([]string, 0, len(w.instances))
	for name := range w.instances {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// replicate lets one replica receive, acknowledge and apply.
func (w *World) replicate(r *instance) {
	if !r.up() || r.source == "" || r.receiver == "OFF" {
		return
	}
	s := w.instances[r.source]
	switch {
	case s == nil || !s.up() || r.cutOff || s.cutOff:
		r.receiver = "CONNECTING"
	case !s.purged.Subtract(r.executed.Union(r.received)).IsEmpty():
		r.receiver, r.receiverErrno = "OFF", 13114
	default:
		r.receiver = "ON"
		if !r.frozen {
			r.received = r.received.Union(s.logged)
		}
		// The primary ends dump threads with semi-sync of others than its members, but they reconnect at once and acknowledge
		// until it notices: so here they always do. Whom the record no longer counts must have been told.
		for _, c := range s.waiting {
			if r.semiReplica && r.received.Contains(c.gtid) && !slices.Contains(c.by, r.incarnation) {
				c.by = append(c.by, r.incarnation)
			}
		}
	}
	if r.applier == "ON" && !r.lagging {
		r.executed = r.executed.Union(r.received)
		r.logged = r.logged.Union(r.received)
	}
}

// release makes commits visible, in order, that have enough acknowledgements.
func (w *World) release(s *instance) {
	for len(s.waiting) > 0 && s.up() {
		c := s.waiting[0]
		if s.semiSource && len(c.by) < s.semiCount && w.flaw != Degrades {
			return
		}
		s.executed = s.executed.Union(c.gtid)
		s.waiting = s.waiting[1:]
		w.tell(s, Commit{GTID: c.gtid, By: c.by})
	}
}

func (i *instance) up() bool {
	return i.podUp && i.process == agentapi.ProcessRunning && i.data == agentapi.DataReady && i.hung.IsZero()
}

// lists says whether the instance's stored quorum has the other one as a member.
func (i *instance) lists(other *instance) bool {
	return i.quorum != nil && slices.Contains(i.quorum.Members, agentapi.Member{
		Name: other.name, ServerUUID: other.uuid.String(), Incarnation: other.incarnation,
	})
}

// write commits n transactions on an instance, if it is writable.
func (w *World) write(i *instance, n int64) {
	if n <= 0 || !i.up() || i.readOnly {
		return
	}
	set := gtid.MustParse(fmt.Sprintf("%s:%d-%d", i.uuid, i.next+1, i.next+n))
	i.next += n
	i.logged = i.logged.Union(set)
	if i.semiSource {
		i.waiting = append(i.waiting, &waiting{gtid: set})
	} else {
		i.executed = i.executed.Union(set)
		w.tell(i, Commit{GTID: set})
	}
}

// load does the writes that the rate asks for since the last time.
func (w *World) load() {
	now := w.now()
	n := int64(now.Sub(w.loaded).Seconds() * w.rate)
	if w.rate == 0 || n > 0 {
		w.loaded = now
	}
	if n == 0 {
		return
	}
	for _, name := range w.names() {
		i := w.instances[name]
		if len(i.waiting) < 64 { // Clients that wait do not write.
			w.write(i, n)
		}
	}
	w.settle()
}
