package failover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

const mysqlPort = naming.PortMySQL

// maxHistory is the number of epochs that the record keeps (the schema's limit).
const maxHistory = 100

// Step names what a row does: an edit of the record, or commands.
type Step string

const (
	stepRecordAdoption    Step = "record adoption"
	stepRecordBootstrap   Step = "record bootstrap"
	stepRecordPrimary     Step = "record primary's data"
	stepRecordGeneration  Step = "record generation"
	stepRecordQuorum      Step = "record quorum"
	stepRecordResume      Step = "record resume"
	stepRoute             Step = "record routed"
	stepCloseOperation    Step = "close operation"
	stepInitializePrimary Step = "initialize primary"
	stepInitializeOthers  Step = "initialize others"
	stepPromote           Step = "promote"
	stepTell              Step = "tell leaving members"
	stepSetQuorum         Step = "set quorum"
	stepReplicas          Step = "tend replicas"
	stepInform            Step = "inform replicas"
	stepAwaitProgress     Step = "await progress"
	stepSamplePrimary     Step = "sample primary"
	stepRecordFencing     Step = "record fencing"
	stepFence             Step = "fence"
	stepElect             Step = "record new primary"
	stepRollBack          Step = "record roll-back"
	stepStart             Step = "start held mysqld"
	stepRestart           Step = "restart hung mysqld"
	stepRecheck           Step = "look again soon"
	stepRecordDraining    Step = "record draining"
	stepRefuseSwitchover  Step = "refuse switchover"
	stepDrain             Step = "drain primary"
	stepSwap              Step = "record target as primary"
	stepCloseSwitchover   Step = "close switchover"
	stepLowerAcks         Step = "record fewer acks"
	stepBeginAdoption     Step = "record adoption's epoch"
	stepTellEverybody     Step = "tell everybody of the epoch"
	stepStartAdopted      Step = "start held mysqld of the one to adopt"
)

var steps = map[Step]func(*view, *Decision){
	stepRecordAdoption:    recordAdoption,
	stepRecordBootstrap:   recordBootstrap,
	stepRecordPrimary:     recordPrimary,
	stepRecordGeneration:  recordGeneration,
	stepRecordQuorum:      recordQuorum,
	stepRecordResume:      recordResume,
	stepRoute:             func(_ *view, d *Decision) { d.Record.Routed = true },
	stepCloseOperation:    func(_ *view, d *Decision) { d.Record.Operation = nil },
	stepInitializePrimary: initializePrimary,
	stepInitializeOthers:  initializeOthers,
	stepPromote:           promote,
	stepTell:              tellLeaving,
	stepSetQuorum:         setQuorum,
	stepReplicas:          tendReplicas,
	stepInform:            informReplicas,
	stepAwaitProgress:     awaitProgress,
	stepSamplePrimary:     func(v *view, d *Decision) { d.NeedsSampleOf = v.rec.Primary },
	stepRecordFencing:     recordFencing,
	stepFence:             fenceOthers,
	stepElect:             recordElection,
	stepRollBack:          recordRollBack,
	stepStart:             startHeld,
	stepRestart:           restartHung,
	stepRecordDraining:    recordDraining,
	stepRefuseSwitchover:  refuseSwitchover,
	stepDrain:             drain,
	stepSwap:              recordSwap,
	stepCloseSwitchover:   closeSwitchover,
	stepLowerAcks:         lowerAcks,
	stepBeginAdoption:     beginAdoption,
	stepTellEverybody:     fenceOthers,
	stepStartAdopted:      startAdopted,
	stepRecheck:           func(_ *view, d *Decision) { d.recheck(recheckSoon) },
}

// recordBootstrap writes down who will be first before anything is made (INV-6).
func recordBootstrap(v *view, d *Decision) {
	primary := v.snap.Spec.Instances[0]
	rec := &d.Record
	rec.Epoch = v.adopt.highest + 1
	rec.Primary = primary
	rec.Quorum = &v1.Quorum{Generation: 1}
	rec.Operation = v.operation(v1.OperationBootstrap, primary, rec.Epoch)
	d.Evidence = append(d.Evidence, "the record is empty and no volume that was heard holds data")
}

// recordPrimary writes down which data directory is about to be opened, and what it holds.
func recordPrimary(v *view, d *Decision) {
	data := v.primary.Status.Data
	q := v.recorded()
	for _, i := range v.wanted() {
		if i.Name != v.rec.Primary && !isMember(q, i.Name) && i.Answers() && v.bornTogether(i) && identity(i).ServerUUID != "" && identity(i).Incarnation != "" {
			q.Members = append(slices.Clone(q.Members), identity(i))
		}
	}
	if !sameQuorum(q, v.recorded()) {
		q.Generation++
		d.Record.Quorum = &q
	}
	d.Record.History = appendHistory(d.Record.History, v1.EpochRecord{
		Epoch: v.rec.Epoch, Instance: v.rec.Primary, ServerUUID: data.ServerUUID, Incarnation: data.Incarnation,
		PromotedGTIDSet: v.primary.Status.Server.GTIDExecuted.String(), PromotedAt: v.timestamp(),
	})
}

// recordGeneration lifts the recorded quorum, unchanged, above the one that the primary holds: an act-first change was cut
// short, and the record is the cautious one of the two.
func recordGeneration(v *view, d *Decision) {
	q := withGeneration(v.recorded(), v.topGeneration()+1)
	d.Record.Quorum = &q
}

// lowerAcks records no more acknowledgements than there are seats that hold all of the primary, so that it can be opened
// though others cannot get what it holds. Until a barrier has passed no failover leaves it out (INV-4).
func lowerAcks(v *view, d *Decision) {
	q := withGeneration(v.recorded(), v.topGeneration()+1)
	q.RequiredAcks = min(q.RequiredAcks, int32(v.holders()))
	d.Record.Quorum = &q
}

func recordQuorum(v *view, d *Decision) {
	q := v.quorum.next
	d.Record.Quorum = &q
	if v.quorum.kind == changeBarrierPassed {
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s was sampled with quorum %s in force, and enough members hold all of it", v.rec.Primary, quorumText(q)))
	}
}

func recordResume(v *view, d *Decision) {
	if d.Record.Operation == nil || d.Record.Operation.Type != v1.OperationResume {
		d.Record.Operation = v.operation(v1.OperationResume, v.rec.Primary, v.rec.Epoch)
	}
	d.Evidence = append(d.Evidence, v.primaryEvidence())
}

func initializePrimary(v *view, d *Decision) {
	if v.ours(v.primary) || v.primary.Status.ClusterID == "" {
		v.command(d, v.primary, agentapi.Command{Type: agentapi.CommandInitialize}, "the new cluster's first data directory")
	}
}

// initializeOthers makes empty data directories at once, so that replicas of a brand-new cluster need no clone: they begin
// at the primary's first transaction. That holds only before clients were let in and while nothing was purged.
func initializeOthers(v *view, d *Decision) {
	for _, i := range v.wanted() {
		if i.Name != v.rec.Primary && v.rejoins[i.Name].verdict == rejoinMakeData && v.initializes() {
			v.command(d, i, agentapi.Command{Type: agentapi.CommandInitialize}, "the cluster is new: it will replicate from the first transaction")
		}
	}
}

// initializes says whether an empty replica is initialised rather than cloned.
func (v *view) initializes() bool {
	return !v.rec.Routed && v.rec.Operation != nil && v.rec.Operation.Type == v1.OperationBootstrap &&
		(v.primary.Server() == nil || purgedNothing(v.primary))
}

func promote(v *view, d *Decision) {
	q := v.opening()
	life := v.primary.Status.Process.StartedAt
	v.command(d, v.primary, agentapi.Command{Type: agentapi.CommandPromote, Quorum: toWire(q), ProcessStartedAt: life}, "open as primary with quorum "+quorumText(q))
}

// restartHung ends the mysqld that was seen to hang, no later one; it is then held like any former primary that ended badly.
func restartHung(v *view, d *Decision) {
	life := v.primary.Status.Process.StartedAt
	v.command(d, v.primary, agentapi.Command{Type: agentapi.CommandRestart, ProcessStartedAt: life}, v.loss.why+", and no other can take over now")
}

func setQuorum(v *view, d *Decision) {
	q := v.quorum.next
	v.command(d, v.primary, agentapi.Command{Type: agentapi.CommandSetQuorum, Quorum: toWire(q)}, "quorum "+quorumText(q))
}

// tellLeaving makes members that are to leave the quorum acknowledge no longer, before the primary is told.
func tellLeaving(v *view, d *Decision) {
	q := v.quorum.next
	for _, name := range v.quorum.telling {
		if i := v.snap.Instance(name); i.Answers() && i.Status.Role == agentapi.RolePrimary && i.Status.Epoch < v.rec.Epoch {
			v.command(d, i, agentapi.Command{Type: agentapi.CommandDemote}, "it is primary no longer")
			continue
		}
		v.command(d, v.snap.Instance(name), agentapi.Command{Type: agentapi.CommandSetQuorum, Quorum: toWire(q)}, "acknowledge no longer: it leaves for quorum "+quorumText(q))
	}
}

// tendReplicas gives every other instance what it needs next: data, a source, or nothing.
func tendReplicas(v *view, d *Decision) {
	cloning := false
	for i := range v.snap.Instances {
		inst := &v.snap.Instances[i]
		cloning = cloning || inst.Answers() && inst.Status.Data.State == agentapi.DataCloning
	}
	for _, i := range v.wanted() {
		if i.Name == v.rec.Primary {
			continue
		}
		switch v.rejoins[i.Name].verdict {
		case rejoinMakeData:
			if v.initializes() {
				v.command(d, i, agentapi.Command{Type: agentapi.CommandInitialize}, "the cluster is new: it will replicate from the first transaction")
				continue
			}
			cloning = v.clone(d, i, cloning) || cloning
		case rejoinRebuild:
			cloning = v.clone(d, i, cloning) || cloning
		case rejoinFollow:
			q := v.recorded()
			if slices.Contains(v.quorum.leaving, i.Name) {
				q = v.quorum.target // So that it does not begin to acknowledge again.
			}
			v.follow(d, i, q, "follow "+v.rec.Primary)
		case rejoinSample:
			d.NeedsSampleOf = v.rec.Primary
		case rejoinServing:
			v.admit(d, i)
		}
	}
	v.tendUnwanted(d)
	if len(v.quorum.joining) > 0 {
		awaitProgress(v, d)
	}
}

// clone gives an instance a copy of a member's data, one at a time: each takes its donor's disk and network from the
// clients. It says whether it began one.
func (v *view) clone(d *Decision, i *topology.Instance, busy bool) bool {
	donor := v.donor(i)
	if d.Record.Phase == recovering && v.rejoins[i.Name].verdict == rejoinRebuild && v.primary.Server() != nil {
		donor = v.primary // A member that cannot follow could keep it closed for ever.
	} else if d.Record.Phase != stable && d.Record.Phase != bootstrapping {
		return false
	}
	if busy || donor == nil {
		return false
	}
	c := agentapi.Command{Type: agentapi.CommandClone, Donor: peer(donor)}
	why := "it is empty: clone from " + donor.Name
	if r := v.rejoins[i.Name]; r.verdict == rejoinRebuild {
		c.Type, why = agentapi.CommandRebuild, r.why+": clone from "+donor.Name
		if !r.errant.IsEmpty() {
			c.Quarantine = &r.errant
		}
	}
	v.command(d, i, c, why)
	return true
}

// tendUnwanted keeps those in their role that are scaled in: one with a seat may be needed until it has left the quorum, and
// one without must not acknowledge.
func (v *view) tendUnwanted(d *Decision) {
	for i := range v.snap.Instances {
		inst := &v.snap.Instances[i]
		if inst.Wanted || inst.Name == v.rec.Primary {
			continue
		}
		switch verdict := v.rejoins[inst.Name].verdict; {
		case verdict == rejoinServing:
			v.admit(d, inst)
		case verdict == rejoinFollow && slices.Contains(v.recorded().Members, identity(inst)) && !slices.Contains(v.quorum.leaving, inst.Name):
			v.follow(d, inst, v.recorded(), "follow "+v.rec.Primary+" until it has left the quorum")
		}
	}
}

// follow commands an instance to follow the primary. A former primary is told what the primary held when it was opened: what
// it holds beyond that nobody acknowledged.
func (v *view) follow(d *Decision, i *topology.Instance, q v1.Quorum, why string) {
	c := agentapi.Command{Type: agentapi.CommandFollow, Quorum: toWire(q)}
	if i.Status.Data.WasPrimary && v.entry != nil && v.entry.ServerUUID != i.Status.Data.ServerUUID {
		if g, err := gtid.Parse(v.entry.PromotedGTIDSet); err == nil {
			c.PromotedGTIDSet = &g
		}
	}
	v.command(d, i, c, why)
}

// admit makes a replica acknowledge exactly if it has a seat by the record: an agent stores what it is told before it
// carries it out, and may fail in between.
func (v *view) admit(d *Decision, i *topology.Instance) {
	q := v.recorded()
	member := slices.Contains(q.Members, identity(i))
	switch {
	case slices.Contains(v.quorum.leaving, i.Name) || v.commanded(d, i.Name):
	case member && (!v.lists(i) || !v.obeys(i, true)):
		v.command(d, i, agentapi.Command{Type: agentapi.CommandSetQuorum, Quorum: toWire(q)}, "acknowledge: it is a member of quorum "+quorumText(q))
	case !member && !v.obeys(i, false):
		v.command(d, i, agentapi.Command{Type: agentapi.CommandSetQuorum, Quorum: toWire(q)}, "acknowledge no longer: it is no member of quorum "+quorumText(q))
	}
}

// lists says whether the quorum that the instance stores has the instance itself as a member.
func (v *view) lists(i *topology.Instance) bool {
	return i.Status.Quorum != nil && slices.Contains(fromWire(*i.Status.Quorum).Members, identity(i))
}

// obeys says whether the instance acknowledges, or does not, as it should. Of one that is not connected it cannot be said:
// how it will acknowledge shows once it is.
func (v *view) obeys(i *topology.Instance, acknowledges bool) bool {
	return i.Connected(v.lineage) != topology.True || (i.Acknowledges(v.lineage) == topology.True) == acknowledges
}

// donor chooses whom to clone from: a caught-up replica, which waits for no acknowledgement, else the open primary.
func (v *view) donor(recipient *topology.Instance) *topology.Instance {
	for _, i := range v.wanted() {
		if i != recipient && i.Name != v.snap.Spec.Restarting && v.rejoins[i.Name].verdict == rejoinServing &&
			i.Acknowledges(v.lineage) == topology.True && topology.CaughtUp(i, v.primary) == topology.True {
			return i
		}
	}
	if v.primaryOpen() {
		return v.primary
	}
	return nil
}

// informReplicas stores the recorded quorum with the replicas, so that the volumes can tell it if the record is lost. What
// is about to end is told when it is back.
func informReplicas(v *view, d *Decision) {
	for _, i := range v.wanted() {
		if i.Pod.Terminating || v.commanded(d, i.Name) || v.rejoins[i.Name].verdict != rejoinServing || i.Status.Quorum != nil && i.Status.Quorum.Generation >= v.recorded().Generation {
			continue
		}
		v.command(d, i, agentapi.Command{Type: agentapi.CommandSetQuorum, Quorum: toWire(v.recorded())}, "store quorum "+quorumText(v.recorded()))
	}
}

func (v *view) commanded(d *Decision, name string) bool {
	return slices.ContainsFunc(d.Actions, func(a Action) bool { return a.Instance == name })
}

// awaitProgress says whose sets of transactions matter now.
func awaitProgress(v *view, d *Decision) {
	names := []string{v.rec.Primary}
	for _, i := range v.wanted() {
		if i.Name != v.rec.Primary && i.Server() != nil {
			names = append(names, i.Name)
		}
	}
	d.WaitsForProgress = names
}

// command adds a command for an instance that answers.
func (v *view) command(d *Decision, i *topology.Instance, c agentapi.Command, why string) {
	if !i.Answers() {
		return
	}
	c.ClusterID = v.snap.Spec.ClusterID
	c.Epoch = d.Record.Epoch
	if c.Type != agentapi.CommandFence && c.Type != agentapi.CommandDemote {
		c.Primary = peer(v.primary)
	}
	c.OperationID = operationID(i, c)
	d.Actions = append(d.Actions, Action{Instance: i.Name, Command: c, Why: why})
}

// operationID names one intention: the same from the same facts, so that a repeated command is recognised; another one
// after mysqld or the agent started again, or a long command ended badly, so that it is really tried again.
func operationID(i *topology.Instance, c agentapi.Command) string {
	st := i.Status
	generation := int64(0)
	if c.Quorum != nil {
		generation = c.Quorum.Generation
	}
	started := st.AgentStart
	if st.Process.StartedAt != nil {
		started = *st.Process.StartedAt
	}
	id := fmt.Sprintf("%s-e%d-g%d-%s", strings.ToLower(string(c.Type)), c.Epoch, generation, strconv.FormatInt(started.UnixMilli(), 36))
	if st.Operation == nil || st.Operation.Type != c.Type || st.Operation.Running || st.Operation.Error == "" {
		return id
	}
	attempt := 1
	if rest, ok := strings.CutPrefix(st.Operation.ID, id+"-r"); ok {
		if n, err := strconv.Atoi(rest); err == nil && n > 0 && n < 1_000_000 {
			attempt = n + 1
		}
	}
	return fmt.Sprintf("%s-r%d", id, attempt)
}

// operation makes the record's operation. Its id is derived, not random: this package has no source of chance.
func (v *view) operation(t v1.OperationType, target string, epoch int64) *v1.TopologyOperation {
	id := fmt.Sprintf("%s-%d-%s", strings.ToLower(string(t)), epoch, strconv.FormatInt(v.now.UnixNano(), 36))
	return &v1.TopologyOperation{ID: id, Type: t, Target: target, StartedAt: v.timestamp()}
}

// timestamp is now at the resolution in which the API server keeps times.
func (v *view) timestamp() metav1.Time { return metav1.NewTime(v.now).Rfc3339Copy() }

func appendHistory(history []v1.EpochRecord, e v1.EpochRecord) []v1.EpochRecord {
	out := append(append([]v1.EpochRecord(nil), history...), e)
	if len(out) > maxHistory {
		out = out[len(out)-maxHistory:]
	}
	return out
}

func quorumText(q v1.Quorum) string {
	names := make([]string, 0, len(q.Members))
	for _, m := range q.Members {
		names = append(names, m.Name)
	}
	return fmt.Sprintf("{generation %d, acks %d, members [%s]}", q.Generation, q.RequiredAcks, list(names))
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
