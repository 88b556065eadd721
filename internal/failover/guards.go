package failover

import (
	"slices"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// Guard names a predicate over what is known. A name that begins with ! is the opposite.
type Guard string

// Guards. Those about evidence hold only on live, positive evidence (INV-5).
const (
	suspended        Guard = "suspended"
	recordEmpty      Guard = "record empty"
	foreignVolume    Guard = "foreign volume"
	keptData         Guard = "volumes hold data"
	adoptionReady    Guard = "every volume heard"
	adoptionUnclear  Guard = "volumes disagree on the primary"
	freshStart       Guard = "every volume heard is empty"
	agentsAhead      Guard = "agents know a higher epoch"
	primaryAnswers   Guard = "primary answers"
	primaryPodGone   Guard = "primary's pod gone"
	primaryNoData    Guard = "primary has no data"
	primaryMakesData Guard = "primary makes data"
	primaryDataLost  Guard = "primary's data lost"
	primaryRuns      Guard = "primary's mysqld answers"
	primaryHung      Guard = "primary's mysqld answers neither its agent nor its replicas"
	primaryDown      Guard = "primary's mysqld ended"
	primaryRecorded  Guard = "primary's data recorded"
	primaryWritable  Guard = "primary writable"
	primaryOpen      Guard = "primary open"
	primaryBehind    Guard = "a member holds what the primary lost"
	behindUnclear    Guard = "a member seems to hold what the primary lost"
	behindStands     Guard = "that a member held what the primary lost is not refuted"
	recordBehind     Guard = "that agents knew a higher epoch is not refuted"
	generationBehind Guard = "primary holds a newer quorum"
	membersHoldAll   Guard = "enough members hold all of the primary"
	quorumRecord     Guard = "quorum to record"
	quorumTell       Guard = "leaving members to tell"
	quorumAct        Guard = "quorum to set"
	quorumPassed     Guard = "quorum barrier passed" //nolint:gosec // No credential: it passed.
	quorumWaits      Guard = "quorum barrier waits"
	quorumSuffices   Guard = "next quorum has the wanted acks"
	routed           Guard = "routed"
	acksReached      Guard = "wanted acks in force"
	writesBlocked    Guard = "writes blocked"
	allServe         Guard = "all serve"
	bootstrapRuns    Guard = "bootstrap in progress"
	primaryLost      Guard = "primary lost"
	primaryHeld      Guard = "primary's mysqld held"
	failoverPossible Guard = "failover possible"
	waitedEnough     Guard = "nobody else to wait for"
	fencedEnough     Guard = "enough members fenced"
	candidateFound   Guard = "a fenced holder of everything can be primary"
	candidateLost    Guard = "new primary lost"
	fencingEpoch     Guard = "nobody was promoted in this epoch"

	membersLost      Guard = "too many members lost their data"
	membersLostStand Guard = "that too many members lost their data is not refuted"
	lossAccepted     Guard = "a person accepts the loss"
	bestFound        Guard = "a fenced member can be primary"
	toldEverybody    Guard = "every volume heard in this epoch"
	resumeStuck      Guard = "no member that lacks something of the primary could get it"
	acksLowered      Guard = "no more acks recorded than members that hold all of the primary"
	switchoverWanted Guard = "switchover wanted"
	switchoverAsked  Guard = "switchover asked for"
	switchoverFit    Guard = "a target is fit"
	targetHoldsAll   Guard = "target holds all of the drained primary"
	drainFailed      Guard = "target lost or time over"

	noCandidateStands Guard = "that no holder of everything can be primary is not refuted"
)

// not gives the opposite of a guard.
func not(g Guard) Guard { return "!" + g }

// guards holds the predicates by name.
var guards = map[Guard]func(*view) bool{
	suspended:        func(v *view) bool { return v.snap.Spec.Suspend },
	recordEmpty:      func(v *view) bool { return v.rec.Epoch == 0 },
	foreignVolume:    func(v *view) bool { return slices.ContainsFunc(v.wanted(), v.foreign) },
	keptData:         func(v *view) bool { return v.adopt.kept },
	adoptionReady:    func(v *view) bool { return v.adopt.ready() },
	adoptionUnclear:  func(v *view) bool { return v.adopt.ambiguous() },
	freshStart:       (*view).freshStart,
	agentsAhead:      func(v *view) bool { return v.rec.Epoch > 0 && v.adopt.highest > v.rec.Epoch },
	primaryAnswers:   func(v *view) bool { return v.primary.Answers() },
	primaryPodGone:   func(v *view) bool { return v.primary == nil || !v.primary.Pod.Exists },
	primaryNoData:    func(v *view) bool { return v.primary.NeedsData() == topology.True },
	primaryMakesData: func(v *view) bool { return v.primary.MakesData() == topology.True },
	primaryDataLost:  (*view).primaryDataLost,
	primaryRuns:      func(v *view) bool { return v.primary.Server() != nil },
	primaryHung:      (*view).primaryHung,
	primaryDown:      (*view).primaryDown,
	primaryRecorded:  func(v *view) bool { return v.entry != nil },
	primaryWritable:  func(v *view) bool { return v.primary.Writable() == topology.True },
	primaryOpen:      (*view).primaryOpen,
	primaryBehind:    func(v *view) bool { ahead, _ := v.aheadOfPrimary(); return len(ahead) > 0 },
	behindUnclear:    func(v *view) bool { _, unclear := v.aheadOfPrimary(); return len(unclear) > 0 },
	behindStands:     (*view).behindStands,
	recordBehind:     (*view).recordBehindStands,
	generationBehind: (*view).generationBehind,
	membersHoldAll:   func(v *view) bool { return v.holders() >= int(v.recorded().RequiredAcks) },
	quorumRecord:     func(v *view) bool { return v.quorum.kind == changeRecord },
	quorumTell:       func(v *view) bool { return v.quorum.kind == changeTell },
	quorumAct:        func(v *view) bool { return v.quorum.kind == changeAct },
	quorumPassed:     func(v *view) bool { return v.quorum.kind == changeBarrierPassed },
	quorumWaits:      func(v *view) bool { return v.quorum.kind == changeBarrierWaits },
	quorumSuffices:   func(v *view) bool { return v.quorum.next.RequiredAcks >= v.snap.Spec.Acks },
	routed:           func(v *view) bool { return v.rec.Routed },
	acksReached:      (*view).acksReached,
	writesBlocked:    func(v *view) bool { return v.blockedText() != "" },
	allServe:         (*view).allServe,
	bootstrapRuns:    (*view).bootstrapRuns,
	primaryLost:      func(v *view) bool { return v.loss.lost },
	primaryHeld:      func(v *view) bool { return v.primary.Held() == topology.True },
	failoverPossible: (*view).failoverPossible,
	waitedEnough:     (*view).waitedEnough,
	fencedEnough:     func(v *view) bool { return v.election.enough },
	candidateFound:   func(v *view) bool { return v.election.candidate != nil },
	candidateLost:    (*view).candidateLost,
	fencingEpoch:     func(v *view) bool { return v.rec.Epoch > 0 && v.rec.Routed && v.entry == nil },

	membersLost:      (*view).membersLost,
	membersLostStand: (*view).membersLostStand,
	lossAccepted:     (*view).lossAccepted,
	bestFound:        func(v *view) bool { return v.election.best != nil },
	toldEverybody:    func(v *view) bool { return v.adopt.told },
	resumeStuck:      (*view).resumeStuck,
	acksLowered:      func(v *view) bool { return int(v.recorded().RequiredAcks) <= v.holders() },
	switchoverWanted: func(v *view) bool { return v.switchover.why != "" },
	switchoverAsked:  func(v *view) bool { return v.switchover.asked },
	switchoverFit:    func(v *view) bool { return v.switchover.target != nil },
	targetHoldsAll:   (*view).targetHoldsAll,
	drainFailed:      (*view).drainFailed,

	noCandidateStands: (*view).noCandidateStands,
}

// freshStart: the first wanted instance is heard and no volume that could be heard holds data. Where the volumes may be
// kept ones every wanted instance must be heard; else it is enough that those whose pods run are.
func (v *view) freshStart() bool {
	wanted := v.wanted()
	if len(wanted) == 0 || !wanted[0].Answers() {
		return false
	}
	for _, i := range wanted {
		if !i.Answers() && (i.Pod.Running || !v.snap.FreshVolumes) {
			return false
		}
		if i.HasData() == topology.True {
			return false
		}
	}
	return true
}

// primaryDataLost: the primary's agent shows another data directory than the one that was promoted, or none.
func (v *view) primaryDataLost() bool {
	if v.entry == nil || !v.primary.Answers() {
		return false
	}
	data := v.primary.Status.Data
	switch data.State {
	case agentapi.DataUnknown:
		return false
	case agentapi.DataReady:
	default:
		return true
	}
	return data.ServerUUID != "" && data.ServerUUID != v.entry.ServerUUID ||
		data.Incarnation != "" && v.entry.Incarnation != "" && data.Incarnation != v.entry.Incarnation
}

// primaryDown: its pod does not exist, or its agent tells that mysqld does not run or runs read-only, which it does after
// every start.
func (v *view) primaryDown() bool {
	if v.primary == nil || !v.primary.Pod.Exists && !v.primary.Answers() {
		return true
	}
	return v.primary.MySQLRuns() == topology.False || v.primary.Writable() == topology.False
}

// primaryOpen: it is writable in its epoch and its agent was told so in this life.
func (v *view) primaryOpen() bool {
	if v.primary.Writable() != topology.True || v.primaryDataLost() {
		return false
	}
	st := v.primary.Status
	return st.Role == agentapi.RolePrimary && st.Confirmed && st.Epoch == v.rec.Epoch && v.ours(v.primary)
}

// generationBehind: the agent would keep its own, newer quorum instead of the recorded one.
func (v *view) generationBehind() bool {
	q, _ := v.inForce()
	r := v.opening()
	return q.Generation > r.Generation || q.Generation == r.Generation && q.Generation > 0 && !sameQuorum(q, r)
}

// ownHistory picks from a set what the last recorded primary must hold: what it committed itself, and what it held when it
// was opened. Whatever else a member received from a former primary nobody acknowledged. It is everything while it is not
// known who was primary.
func (v *view) ownHistory(set gtid.Set) gtid.Set {
	n := len(v.rec.History)
	if n == 0 {
		return set
	}
	uuid, err := gtid.ParseUUID(v.rec.History[n-1].ServerUUID)
	if err != nil {
		return set
	}
	out := set.Restrict(uuid)
	if promoted, err := gtid.Parse(v.rec.History[n-1].PromotedGTIDSet); err == nil {
		out = out.Union(set.Intersect(promoted))
	}
	return out
}

// aheadOfPrimary names the members that hold something of a recorded primary's that the present primary lacks, and those
// of which this cannot be said before the primary is sampled anew.
func (v *view) aheadOfPrimary() (ahead, unclear []string) {
	held, heldKnown := v.primary.Holds()
	for _, m := range v.recorded().Members {
		i := v.snap.Instance(m.Name)
		holds, known := i.Holds()
		if m.Name == v.rec.Primary || !v.ours(i) || known != topology.True || heldKnown != topology.True || held.Contains(v.ownHistory(holds)) {
			continue
		}
		switch {
		case topology.Ahead(i, v.primary, v.ownHistory) == topology.True:
			ahead = append(ahead, m.Name)
		case v.primary.Writable() == topology.False:
			unclear = append(unclear, m.Name)
		}
	}
	return ahead, unclear
}

// behindStands: the primary was found to lack what a member holds, and not every member has shown since that it holds no
// more than the primary. That the witness fell silent refutes nothing (INV-5); a member whose data is gone holds nothing.
func (v *view) behindStands() bool {
	if v.rec.Phase != blocked || v.rec.Reason != v1.TopologyPrimaryBehind {
		return false
	}
	for _, m := range v.recorded().Members {
		i := v.snap.Instance(m.Name)
		gone := i.HasData() == topology.False || i.HasData() == topology.True && identity(i) != m
		if m.Name != v.rec.Primary && !gone && (!v.ours(i) || topology.Ahead(i, v.primary, v.ownHistory) != topology.False) {
			return true
		}
	}
	return v.primary.Writable() != topology.False
}

// recordBehindStands: agents were found to know a higher epoch than the record, and not every wanted instance has answered
// since without that being so.
func (v *view) recordBehindStands() bool {
	return v.rec.Phase == blocked && v.rec.Reason == v1.TopologyRecordBehind && (v.adopt.highest > v.rec.Epoch || len(v.silent()) > 0)
}

// holders counts the seats of the quorum without which no promotion could leave out anything that the primary's binary log
// holds: of members that have received all of it, live and now; of the primary itself, which keeps its seat after a
// failover until a barrier has passed; and of members whose data is gone, which can confirm nothing any more.
func (v *view) holders() int {
	n := 0
	for _, m := range v.recorded().Members {
		if v.primary.Server() != nil && (v.memberHoldsPrimarys(m) == topology.True || v.seatVoid(m)) {
			n++
		}
	}
	return n
}

// resumeStuck says whether waiting for members to receive all of the closed primary is in vain: it has itself to apply what
// it received before it can send it, or each that lacks something cannot follow or is not to be told to any more.
func (v *view) resumeStuck() bool {
	if v.primary.Backlog() > 0 {
		return true
	}
	for _, m := range v.recorded().Members {
		if v.memberHoldsPrimarys(m) == topology.True || v.seatVoid(m) {
			continue
		}
		i := v.snap.Instance(m.Name)
		verdict := v.rejoins[m.Name].verdict
		if !i.Answers() || i.Wanted && verdict != rejoinBroken || !i.Wanted && verdict != rejoinRebuild && verdict != rejoinBroken {
			return false
		}
	}
	return true
}

// seatVoid says whether the life of the data that had the seat is over, by live evidence.
func (v *view) seatVoid(m v1.QuorumMember) bool {
	i := v.snap.Instance(m.Name)
	return i.HasData() == topology.False || i.HasData() == topology.True && v.ours(i) && identity(i) != m
}

// acksReached: the wanted number of acks is in the record and in force.
func (v *view) acksReached() bool {
	recorded := v.recorded()
	inForce, applied := v.inForce()
	return v.primaryOpen() && recorded.RequiredAcks >= v.snap.Spec.Acks && inForce.RequiredAcks >= v.snap.Spec.Acks && applied
}

// allServe: every wanted instance serves in its role and nothing else is to be removed.
func (v *view) allServe() bool {
	for i := range v.snap.Instances {
		inst := &v.snap.Instances[i]
		if !inst.Wanted {
			if isMember(v.recorded(), inst.Name) || inst.Name == v.rec.Primary {
				return false
			}
			continue
		}
		if inst.Name == v.rec.Primary {
			continue
		}
		if inst.Acknowledges(v.lineage) != topology.True || !isMember(v.recorded(), inst.Name) || v.rejoins[inst.Name].verdict == rejoinBroken {
			return false
		}
	}
	return v.primaryOpen()
}

func (v *view) bootstrapRuns() bool {
	return v.rec.Epoch > 0 && !v.rec.Routed && (v.entry == nil || v.rec.Operation != nil && v.rec.Operation.Type == "Bootstrap")
}

// holds evaluates a guard or its opposite.
func (g Guard) holds(v *view) bool {
	if len(g) > 0 && g[0] == '!' {
		return !guards[g[1:]](v)
	}
	return guards[g](v)
}

// purgedNothing says whether a replica can still begin at the primary's first transaction.
func purgedNothing(primary *topology.Instance) bool {
	server := primary.Server()
	return server != nil && server.GTIDPurged.Equal(gtid.Set{})
}
