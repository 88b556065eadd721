package failover

import (
	"slices"
	"strings"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// changeKind says what the next step of a quorum change is.
type changeKind int

const (
	// changeRecord: quorumChange.next is to be recorded before anything is done.
	changeRecord changeKind = iota + 1 // 0: record, agent and wish agree
	// changeTell: members that quorumChange.next is without are to be told, and to show that they no longer acknowledge.
	changeTell
	// changeAct: the primary is to be given quorumChange.next.
	changeAct
	// changeBarrierPassed: quorumChange.next is in force and may be recorded.
	changeBarrierPassed
	// changeBarrierWaits: quorumChange.next is in force; its barrier has not passed.
	changeBarrierWaits
)

// quorumChange is the next step from the recorded quorum to the wished one.
type quorumChange struct {
	kind changeKind
	next v1.Quorum
	// leaving are the members that the wished quorum, target, is without; telling those that may still acknowledge.
	leaving, telling []string
	target           v1.Quorum
	// joining follow and are not caught up yet; stuck would leave the quorum and cannot, since too few others live; unheard
	// cannot either, since they cannot be told and may acknowledge.
	joining, stuck, unheard []string
	// lacking are the members that the barrier waits for.
	lacking []string
}

// planQuorum compares what is recorded, in force and wished, and gives the next step. Only an open primary's quorum is
// changed.
func planQuorum(v *view) quorumChange {
	if v.rec.Quorum == nil || !v.primaryOpen() {
		return quorumChange{}
	}
	recorded := v.recorded()
	inForce, applied := v.inForce()
	wish, change := v.wish(recorded)
	top := v.topGeneration()
	change.target = withGeneration(wish, v.proposal(wish, top))

	if cautious := pessimistic(recorded, wish); !sameQuorum(cautious, recorded) {
		change.kind, change.next = changeRecord, withGeneration(cautious, top+1)
		return change
	}
	settled := sameQuorum(inForce, wish) && applied
	if sameQuorum(recorded, wish) {
		switch {
		case top > recorded.Generation || inForce.Generation == recorded.Generation && !sameQuorum(inForce, wish):
			// An act-first change was given up or its record lost its race: what is wished is as cautious as both. The new
			// generation is above all that was told to anybody, so that it is accepted.
			change.kind, change.next = changeRecord, withGeneration(recorded, top+1)
		case !settled || inForce.Generation != recorded.Generation:
			change.kind, change.next = changeAct, recorded
		}
		return change
	}
	if v.contradicted(recorded, wish) {
		change.kind, change.next = changeRecord, withGeneration(recorded, top+1)
		return change
	}
	change.next = change.target
	change.telling = v.mayAcknowledge(recorded, change.target)
	switch {
	case len(change.telling) > 0:
		change.kind = changeTell
	case !settled || inForce.Generation != change.target.Generation:
		change.kind = changeAct
	default:
		change.kind = changeBarrierWaits
		if change.lacking = v.barrierLacks(inForce); len(change.lacking) == 0 {
			change.kind = changeBarrierPassed
		}
	}
	return change
}

// topGeneration is the highest generation of a quorum that anybody is known to have been told.
func (v *view) topGeneration() int64 {
	top := v.recorded().Generation
	for i := range v.snap.Instances {
		if inst := &v.snap.Instances[i]; v.ours(inst) && inst.Status.Quorum != nil {
			top = max(top, inst.Status.Quorum.Generation)
		}
	}
	return top
}

// contradicted says whether a member that is to stay was told, by an act-first change that was given up, a newer quorum
// without itself: it would not acknowledge by the recorded one, and the primary could wait for it for ever.
func (v *view) contradicted(recorded, wish v1.Quorum) bool {
	return slices.ContainsFunc(wish.Members, func(m v1.QuorumMember) bool {
		i := v.snap.Instance(m.Name)
		return slices.Contains(recorded.Members, m) && m.Name != v.rec.Primary && v.ours(i) && i.HasData() == topology.True && identity(i) == m &&
			i.Status.Quorum != nil && i.Status.Quorum.Generation > recorded.Generation && !v.lists(i)
	})
}

// proposal is the generation of an act-first change: a new one, or that which was told already.
func (v *view) proposal(wish v1.Quorum, top int64) int64 {
	for i := range v.snap.Instances {
		inst := &v.snap.Instances[i]
		if top > v.recorded().Generation && v.ours(inst) && inst.Status.Quorum != nil && inst.Status.Quorum.Generation == top &&
			sameQuorum(fromWire(*inst.Status.Quorum), wish) {
			return top
		}
	}
	return top + 1
}

// mayAcknowledge names the recorded members that the target is without and that have not shown that they acknowledge no
// longer. The primary counts the acknowledgement of whoever is connected with semi-sync: that it ends the stream of a
// stranger, which reconnects at once, is not enough for INV-4.
func (v *view) mayAcknowledge(recorded, target v1.Quorum) []string {
	var out []string
	for _, m := range recorded.Members {
		if !slices.Contains(target.Members, m) && v.silenced(m, target.Generation) != topology.True {
			out = append(out, m.Name)
		}
	}
	return out
}

// silenced says whether a member acknowledges nothing and, having stored a quorum without itself of a generation above all
// recorded ones, will not begin to by a command that is still under way.
func (v *view) silenced(m v1.QuorumMember, generation int64) topology.Fact {
	i := v.snap.Instance(m.Name)
	switch {
	case m.Name == v.rec.Primary:
		return topology.True
	case !i.Answers():
		// Only its pod's absence says something, and that but for one that nobody is to follow with again.
		return topology.FactOf(true).Unless(i.Pod.MayRun() || i.Wanted)
	case i.HasData() == topology.Unknown:
		return topology.Unknown
	case i.HasData() == topology.False || identity(i) != m:
		return topology.True // The life of the data that had the seat is over.
	case i.Status.Quorum == nil || i.Status.Quorum.Generation < generation || v.lists(i):
		return topology.False
	case i.MySQLRuns() == topology.False:
		return topology.FactOf(i.Status.Process.State != agentapi.ProcessStopping)
	case i.Server() == nil:
		return topology.Unknown
	}
	repl := i.Status.Server.Replication
	return topology.FactOf(repl == nil || !repl.SemiSyncActive)
}

// canBeTold says whether a member can be made to acknowledge no longer, or need not be.
func (v *view) canBeTold(name string) bool {
	i := v.snap.Instance(name)
	switch {
	case name == v.rec.Primary:
		return true
	case !i.Answers():
		return !i.Pod.MayRun() && !i.Wanted
	default:
		return i.HasData() != topology.Unknown
	}
}

// wish computes the quorum that present evidence allows to go to.
func (v *view) wish(recorded v1.Quorum) (v1.Quorum, quorumChange) {
	var change quorumChange
	var members []v1.QuorumMember
	seats := map[string]bool{}
	for _, m := range recorded.Members {
		members = append(members, v.presentIdentity(m))
		seats[m.Name] = true
	}
	for _, i := range v.wanted() {
		if seats[i.Name] || i.Name == v.rec.Primary || i.Name == v.snap.Spec.Restarting {
			continue
		}
		switch v.admissible(i) {
		case topology.True:
			members = append(members, identity(i))
		case topology.False:
			if i.Follows(v.lineage) == topology.True {
				change.joining = append(change.joining, i.Name)
			}
		}
	}
	acks := v.snap.Spec.Acks
	if acks > recorded.RequiredAcks && v.countLive(members, "") < int(acks) {
		acks = recorded.RequiredAcks
	}
	if inForce, _ := v.inForce(); acks == 0 && inForce.RequiredAcks > 0 && v.primary.Status.Server.SemiSync.WaitSessions > 0 {
		acks = inForce.RequiredAcks // To wait for none would release what waits as if it were acknowledged.
	}
	for _, m := range slices.Clone(members) {
		if !v.leaves(m.Name) {
			continue
		}
		if v.countLive(members, m.Name) < int(acks) {
			change.stuck = append(change.stuck, m.Name)
			continue
		}
		if !v.canBeTold(m.Name) {
			change.unheard = append(change.unheard, m.Name)
			continue
		}
		change.leaving = append(change.leaving, m.Name)
		members = slices.DeleteFunc(members, func(o v1.QuorumMember) bool { return o.Name == m.Name })
	}
	return v1.Quorum{RequiredAcks: acks, Members: sortMembers(members)}, change
}

// leaves says whether a member is to leave the quorum: it is no longer wanted, is to be restarted, or is the primary.
func (v *view) leaves(name string) bool {
	return name == v.rec.Primary || name == v.snap.Spec.Restarting || !slices.Contains(v.snap.Spec.Instances, name)
}

// presentIdentity gives the seat of a rebuilt member to its new incarnation, once that is admissible.
func (v *view) presentIdentity(m v1.QuorumMember) v1.QuorumMember {
	i := v.snap.Instance(m.Name)
	if i == nil || i.HasData() != topology.True || identity(i) == m || v.leaves(m.Name) || v.admissible(i) != topology.True {
		return m
	}
	return identity(i)
}

// admissible says whether the instance may become a member: it follows, is not errant and has received everything that
// the primary had executed.
func (v *view) admissible(i *topology.Instance) topology.Fact {
	switch {
	case !i.Answers():
		return topology.Unknown
	case v.foreign(i):
		return topology.False
	}
	id := identity(i)
	if id.ServerUUID == "" || id.Incarnation == "" {
		return topology.Unknown
	}
	if v.bornTogether(i) {
		return topology.True
	}
	if i.Follows(v.lineage) != topology.True {
		return topology.False
	}
	if _, errant := topology.Errant(i, v.primary, v.lineage.ServerUUID); errant != topology.False {
		return topology.Unknown
	}
	return topology.CaughtUp(i, v.primary)
}

// bornTogether: while a new cluster is being made an instance that was initialised with it may have a seat before it
// follows. A seat more in the record is always the cautious side, and it spares a reconnect: it follows with semi-sync from
// the start. Commits wait for it only once it acknowledges (wish).
func (v *view) bornTogether(i *topology.Instance) bool {
	return v.initializes() && v.ours(i) && i.HasData() == topology.True && v.recorded().RequiredAcks == 0
}

// countLive counts the members, except one, that acknowledge the primary's commits now, in their recorded incarnation.
func (v *view) countLive(members []v1.QuorumMember, except string) int {
	n := 0
	for _, m := range members {
		i := v.snap.Instance(m.Name)
		if m.Name == except || m.Name == v.rec.Primary || i == nil || i.HasData() != topology.True || identity(i) != m {
			continue
		}
		if i.Acknowledges(v.lineage) == topology.True {
			n++
		}
	}
	return n
}

// barrierLacks returns the members still waited for before a quorum in force may be recorded; nil: passed.
func (v *view) barrierLacks(q v1.Quorum) []string {
	holders, lacking := 0, []string(nil)
	for _, m := range q.Members {
		if v.memberHoldsPrimarys(m) == topology.True {
			holders++
		} else {
			lacking = append(lacking, m.Name)
		}
	}
	if holders >= int(q.RequiredAcks) {
		return nil
	}
	return lacking
}

// memberHoldsPrimarys says whether a member, in the given incarnation, has received all that the primary executed.
func (v *view) memberHoldsPrimarys(m v1.QuorumMember) topology.Fact {
	i := v.snap.Instance(m.Name)
	if i == nil || i.HasData() == topology.Unknown {
		return topology.Unknown
	}
	if i.HasData() == topology.False || identity(i) != m {
		return topology.False
	}
	return topology.CaughtUp(i, v.primary)
}

// pessimistic joins the recorded quorum with a wished one: all seats, the lower number of acks. A seat that both have
// keeps the recorded holder.
func pessimistic(recorded, wish v1.Quorum) v1.Quorum {
	out := v1.Quorum{RequiredAcks: min(recorded.RequiredAcks, wish.RequiredAcks), Members: slices.Clone(recorded.Members)}
	for _, m := range wish.Members {
		if !isMember(recorded, m.Name) {
			out.Members = append(out.Members, m)
		}
	}
	out.Members = sortMembers(out.Members)
	return out
}

// sortMembers sorts by name, in place.
func sortMembers(members []v1.QuorumMember) []v1.QuorumMember {
	slices.SortFunc(members, func(a, b v1.QuorumMember) int { return strings.Compare(a.Name, b.Name) })
	return members
}

// opening is the quorum that the primary is opened with. A new one waits for the wanted acknowledgements from its first
// commit, though fewer may be recorded until a barrier: raising is done first.
func (v *view) opening() v1.Quorum {
	q := v.recorded()
	if (v.rec.Phase == promoting || v.rec.Phase == recovering) && v.snap.Spec.Acks > q.RequiredAcks && int(v.snap.Spec.Acks) <= len(q.Members) {
		q.RequiredAcks = v.snap.Spec.Acks
		q.Generation++
	}
	return q
}

// identity is the member that an answering instance would be.
func identity(i *topology.Instance) v1.QuorumMember {
	return v1.QuorumMember{Name: i.Name, ServerUUID: i.Status.Data.ServerUUID, Incarnation: i.Status.Data.Incarnation}
}

func isMember(q v1.Quorum, name string) bool {
	return slices.ContainsFunc(q.Members, func(m v1.QuorumMember) bool { return m.Name == name })
}

// sameQuorum compares acks and members, not generations.
func sameQuorum(a, b v1.Quorum) bool {
	if a.RequiredAcks != b.RequiredAcks || len(a.Members) != len(b.Members) {
		return false
	}
	for _, m := range a.Members {
		if !slices.Contains(b.Members, m) {
			return false
		}
	}
	return true
}

func withGeneration(q v1.Quorum, generation int64) v1.Quorum {
	q.Generation = generation
	return q
}
