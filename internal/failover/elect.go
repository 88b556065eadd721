package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// election is what the fenced instances tell in an epoch of fencing.
type election struct {
	// confirmed and missing are the recorded members that have, and have not, shown that they receive nothing any more.
	confirmed, missing []string
	// enough is true when no commit can be acknowledged any more without one that confirmed, nor was (INV-4).
	enough bool
	// union is everything that a confirmed member holds of the last primary's history.
	union gtid.Set
	// candidate is the instance to promote, once enough confirmed; nil: none. best is who would be if what confirmed had to be
	// enough, since a person accepts the loss of the rest.
	candidate, best *topology.Instance
	// unfit says of holders of the union why they cannot be primary.
	unfit []string
}

// planElection reads what was shown after the fence. It needs no phase of its own: what is chosen is recorded in a new
// epoch by compare and swap, and what a fenced instance holds cannot change before a command of that epoch.
func planElection(v *view) election {
	var e election
	if v.rec.Phase != fencing && v.rec.Phase != blocked || v.entry != nil {
		return e
	}
	for _, m := range v.recorded().Members {
		i := v.snap.Instance(m.Name)
		if !v.fenced(i) || identity(i) != m {
			e.missing = append(e.missing, m.Name)
			continue
		}
		e.confirmed = append(e.confirmed, m.Name)
		holds, _ := i.Holds()
		e.union = e.union.Union(v.ownHistory(holds))
	}
	e.enough = v.suffices(len(e.confirmed))
	var fit, left []*topology.Instance
	for k := range v.snap.Instances {
		i := &v.snap.Instances[k]
		if !v.fenced(i) {
			continue
		}
		if v.broken(i) == "" {
			left = append(left, i)
		}
		if holds, _ := i.Holds(); !holds.Contains(e.union) {
			continue
		}
		if why := v.unfit(i); why != "" {
			e.unfit = append(e.unfit, i.Name+": "+why)
			continue
		}
		fit = append(fit, i)
	}
	if len(fit) > 0 {
		e.best = slices.MinFunc(fit, v.preference)
	}
	if e.enough {
		e.candidate = e.best
	}
	if e.best == nil && len(left) > 0 {
		e.best = slices.MaxFunc(left, func(a, b *topology.Instance) int { return cmp.Compare(v.ownCount(a), v.ownCount(b)) })
	}
	return e
}

// fenced says whether an instance of ours has shown that it receives nothing in the record's epoch.
func (v *view) fenced(i *topology.Instance) bool {
	return v.fenceable(i) && i.Fenced(v.rec.Epoch) == topology.True
}

// stray is what of a set is not the last recorded primary's history: an errant statement, or what a former primary sent
// and nobody acknowledged.
func (v *view) stray(set gtid.Set) gtid.Set { return set.Subtract(v.ownHistory(set)) }

// ownCount is how many transactions of the last primary's history an instance holds.
func (v *view) ownCount(i *topology.Instance) uint64 {
	holds, _ := i.Holds()
	return v.ownHistory(holds).Count()
}

// unfit says why an instance cannot be primary; empty: it can.
func (v *view) unfit(i *topology.Instance) string {
	holds, _ := i.Holds()
	switch {
	case !i.Wanted && !isMember(v.recorded(), i.Name):
		return "it is not wanted"
	case !v.stray(holds).IsEmpty():
		return "it has transactions that no primary's history knows: " + bounded(v.stray(holds).String())
	}
	return v.broken(i)
}

// broken says why an instance cannot be opened whatever it holds; empty: it can.
func (v *view) broken(i *topology.Instance) string {
	repl := i.Server().Replication
	switch {
	case i.Pod.Terminating:
		return "its pod is being deleted"
	case repl != nil && repl.Applier == "OFF" && repl.ApplierErrno != 0:
		return fmt.Sprintf("its applier stopped with error %d: %s", repl.ApplierErrno, bounded(repl.ApplierError))
	}
	return ""
}

// preference orders those that could be primary, the best first: one that stays, the lowest version (a newer primary ends
// the way back for the others), the least to apply, the order of the spec.
func (v *view) preference(a, b *topology.Instance) int {
	return cmp.Or(
		cmp.Compare(v.goes(a), v.goes(b)),
		compareVersions(a.Status.Process.Version, b.Status.Process.Version),
		cmp.Compare(a.Backlog(), b.Backlog()),
	)
}

// goes is 1 for an instance that is about to be restarted or removed.
func (v *view) goes(i *topology.Instance) int {
	if !i.Wanted || i.Name == v.snap.Spec.Restarting {
		return 1
	}
	return 0
}

func compareVersions(a, b string) int {
	x, errX := version.ParseGeneric(a)
	y, errY := version.ParseGeneric(b)
	switch {
	case errX != nil || errY != nil || x.EqualTo(y):
		return 0
	case x.LessThan(y):
		return -1
	default:
		return 1
	}
}

// membersLost says whether so many members lost their data, the primary's being gone too, that what is left can never show
// that it holds every acknowledged commit.
func (v *view) membersLost() bool {
	void := 0
	for _, m := range v.recorded().Members {
		if v.seatVoid(m) {
			void++
		}
	}
	q := v.recorded()
	return q.RequiredAcks > 0 && void >= int(q.RequiredAcks) && v.primaryDataGone()
}

// primaryDataGone says whether the data of the primary that was lost is gone, by live evidence.
func (v *view) primaryDataGone() bool {
	n := len(v.rec.History)
	if n == 0 || v.primary == nil {
		return false
	}
	e := v.rec.History[n-1]
	return v.seatVoid(v1.QuorumMember{Name: e.Instance, ServerUUID: e.ServerUUID, Incarnation: e.Incarnation})
}

// membersLostStand: so it was found, and nothing has come back that would do. A witness that fell silent refutes nothing.
func (v *view) membersLostStand() bool {
	return v.rec.Reason == v1.TopologyMembersLost && v.election.candidate == nil && (v.membersLost() || len(v.silent()) > 0)
}

// acceptanceLasts is how long an acceptance counts: one that was not needed must not answer for a later loss.
const acceptanceLasts = 10 * time.Minute

// lossAccepted says whether a person has said, of this loss, that going on is worth what may be lost.
func (v *view) lossAccepted() bool {
	a := v.snap.Spec.AcceptDataLoss
	return a != nil && (v.rec.AcceptedDataLoss == nil || v.rec.AcceptedDataLoss.ID != a.ID) && v.now.Sub(a.At.Time) < acceptanceLasts
}

// candidateLost: the instance that was chosen cannot be opened now. Whether it was is settled by fencing again: its seat
// stays in the quorum until others hold what it holds.
func (v *view) candidateLost() bool {
	if v.primary.Server() == nil || v.primaryDataLost() {
		return true
	}
	repl := v.primary.Status.Server.Replication
	return repl != nil && repl.Applier == "OFF" && repl.ApplierErrno != 0
}

// noCandidateStands: no holder of everything could be primary, and neither can one now, nor the former primary again.
func (v *view) noCandidateStands() bool {
	resumable := v.primary.Writable() == topology.True || v.primary.Server() != nil && v.holders() >= int(v.recorded().RequiredAcks)
	return v.rec.Reason == v1.TopologyNoCandidate && v.election.candidate == nil && !resumable
}

// recordFencing begins an epoch in which nobody is primary. What it is for is recorded before anybody is told (INV-6).
func recordFencing(v *view, d *Decision) {
	d.Record.Epoch = v.rec.Epoch + 1
	d.Record.Operation = v.operation(v1.OperationFailover, "", d.Record.Epoch)
	d.Evidence = append(d.Evidence, v.lossEvidence())
}

// fenceOthers tells everybody but the lost primary to receive nothing more. The primary itself is demoted as far as it
// answers: nothing rests on that (INV-2).
func fenceOthers(v *view, d *Decision) {
	for k := range v.snap.Instances {
		i := &v.snap.Instances[k]
		switch {
		case !v.ours(i) || i.HasData() != topology.True:
		case i.Status.Role == agentapi.RolePrimary && i.Status.Epoch < v.rec.Epoch:
			v.command(d, i, agentapi.Command{Type: agentapi.CommandDemote}, "it is primary no longer")
		case i.Held() == topology.True && (v.lossAccepted() || i.Name != v.rec.Primary && slices.Contains(v.recorded().Members, identity(i))):
			v.command(d, i, agentapi.Command{Type: agentapi.CommandStart}, "what it holds is needed to go on")
		case (i.Name != v.rec.Primary || v.rec.Phase == adopting) && i.Fenced(v.rec.Epoch) != topology.True && (i.Status.Epoch < v.rec.Epoch || i.Server() != nil):
			v.command(d, i, agentapi.Command{Type: agentapi.CommandFence}, "receive nothing more from "+orElse(v.rec.Primary, "anybody"))
		}
	}
}

// recordPrimaryOf makes an instance primary of a new epoch. The quorum keeps all its seats, the new primary's included, until
// a barrier has shown that enough others hold what it inherited: only then could they do without it. Until then no more
// acknowledgements are recorded than there are seats that hold all that clients will see once it is open (INV-4).
func (v *view) recordPrimaryOf(d *Decision, i *topology.Instance, cause v1.PromotionCause) {
	holds, _ := i.Holds()
	rec := &d.Record
	rec.Epoch = v.rec.Epoch + 1
	rec.Primary = i.Name
	quorum := withGeneration(v.recorded(), v.topGeneration()+1)
	if !isMember(quorum, i.Name) {
		quorum.Members = sortMembers(append(slices.Clone(quorum.Members), identity(i)))
	}
	holders := int32(0)
	for _, m := range quorum.Members {
		if seat := v.snap.Instance(m.Name); v.ours(seat) && seat.HasData() == topology.True && identity(seat) == m {
			if held, known := seat.Holds(); known == topology.True && held.Contains(holds) {
				holders++
			}
		}
	}
	quorum.RequiredAcks = min(quorum.RequiredAcks, holders)
	rec.Quorum = &quorum
	if rec.Operation != nil {
		rec.Operation.Target = i.Name
	}
	rec.History = appendHistory(rec.History, v1.EpochRecord{
		Epoch: rec.Epoch, Instance: i.Name, ServerUUID: i.Status.Data.ServerUUID, Incarnation: i.Status.Data.Incarnation,
		PromotedGTIDSet: holds.String(), PromotedAt: v.timestamp(), Cause: cause,
	})
}

// recordElection makes the candidate primary.
func recordElection(v *view, d *Decision) {
	c := v.election.candidate
	if c == nil {
		c = v.election.best
		accepted := *v.snap.Spec.AcceptDataLoss
		d.Record.AcceptedDataLoss = &accepted
		d.Evidence = append(d.Evidence, fmt.Sprintf("%s accepted the loss of what only %s may hold", accepted.By, orElse(list(v.election.missing), "others")))
	}
	v.recordPrimaryOf(d, c, v1.CauseFailover)
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s confirmed that they receive nothing; %d of %d with %s per commit leave no acknowledged commit out; %s holds all of it",
		list(v.election.confirmed), len(v.election.confirmed), len(v.recorded().Members), plural(int(v.recorded().RequiredAcks), "acknowledgement"), c.Name))
}

// recordRollBack gives the former primary its role again, in an epoch of its own (INV-8): the record says so, and it is
// opened once INV-1 allows.
func recordRollBack(v *view, d *Decision) {
	rec := &d.Record
	rec.Epoch = v.rec.Epoch + 1
	rec.Operation = v.operation(v1.OperationResume, v.rec.Primary, rec.Epoch)
	n := len(v.rec.History)
	if n == 0 {
		return
	}
	entry := v.rec.History[n-1]
	entry.Epoch, entry.PromotedAt, entry.Cause = rec.Epoch, v.timestamp(), ""
	rec.History = appendHistory(rec.History, entry)
	d.Evidence = append(d.Evidence, v.primaryEvidence())
}

// startHeld lets mysqld of the primary start as it is: nobody takes its place.
func startHeld(v *view, d *Decision) {
	v.command(d, v.primary, agentapi.Command{Type: agentapi.CommandStart}, "it stays primary: start in place")
}
