package failover

import (
	"slices"
	"strings"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// adoption is what the volumes tell when they know more than the record: it was lost, or an older one was restored.
type adoption struct {
	// kept is true when some instance's volume holds complete data of this cluster.
	kept bool
	// highest epoch that an agent of this cluster knows.
	highest int64
	// waits names the instances that must still be heard, or whose mysqld must still start.
	waits []string
	// candidates are the instances that agents name as primary of the highest epoch that had one.
	candidates []string
	named      int64
	// told is true when every agent that was heard knows the record's epoch: no command of an earlier one reaches it.
	told bool
	// quorum is the pessimistic union of what agents of the highest epoch hold, and of the record.
	quorum v1.Quorum
}

// planAdoption reads the volumes.
func planAdoption(v *view) adoption {
	var a adoption
	for k := range v.snap.Instances {
		i := &v.snap.Instances[k]
		if !v.ours(i) {
			continue
		}
		a.kept = a.kept || i.HasData() == topology.True
		a.highest = max(a.highest, i.Status.Epoch)
	}
	if !a.kept {
		return a
	}
	a.told = true
	a.quorum = v.recorded()
	for k := range v.snap.Instances {
		i := &v.snap.Instances[k]
		switch {
		case !i.Wanted && !i.Answers() && !i.Pod.MayRun():
		case !i.Answers() || i.MakesData() == topology.True:
			a.waits = append(a.waits, i.Name)
		case v.ours(i):
			a.told = a.told && (i.HasData() != topology.True || i.Status.Epoch == v.rec.Epoch)
			a.add(i)
		}
	}
	slices.Sort(a.candidates)
	a.candidates = slices.Compact(a.candidates)
	if len(a.candidates) == 1 && !slices.Contains(a.waits, a.candidates[0]) {
		// What it executed is recorded with the new epoch, so its mysqld must have come up.
		if p := v.snap.Instance(a.candidates[0]); !p.Answers() || p.HasData() == topology.True && p.Server() == nil {
			a.waits = append(a.waits, a.candidates[0])
		}
	}
	return a
}

// add joins what one agent knows: the primary by the highest epoch that had one, the quorum by those of the highest epoch.
func (a *adoption) add(i *topology.Instance) {
	st := i.Status
	if st.Primary != "" && st.PrimaryEpoch >= a.named {
		if st.PrimaryEpoch > a.named {
			a.named, a.candidates = st.PrimaryEpoch, nil
		}
		a.candidates = append(a.candidates, st.Primary)
	}
	if st.Quorum == nil || st.Epoch < a.highest {
		return
	}
	q := fromWire(*i.Status.Quorum)
	if a.quorum.Generation == 0 {
		a.quorum = q
		return
	}
	newer := max(a.quorum.Generation, q.Generation)
	if q.Generation > a.quorum.Generation {
		// Seats keep the holder of the newer quorum: the older one was replaced after a barrier.
		a.quorum = withGeneration(pessimistic(q, a.quorum), newer)
		return
	}
	a.quorum = withGeneration(pessimistic(a.quorum, q), newer)
}

// ready says whether the record can be made anew: every wanted instance was heard and they agree.
func (a adoption) ready() bool { return a.kept && len(a.waits) == 0 && len(a.candidates) == 1 }

// ambiguous says whether all were heard and they do not agree on one primary.
func (a adoption) ambiguous() bool { return a.kept && len(a.waits) == 0 && len(a.candidates) != 1 }

// adoptionGap is how far the epoch of a record that is made anew lies above all that is known: the lost record may have been
// ahead of every agent, and commands of its last epochs may still be under way.
const adoptionGap = 1000

// beginAdoption records an epoch in which nobody is primary, far above all that is known.
func beginAdoption(v *view, d *Decision) {
	d.Record.Epoch = max(v.rec.Epoch, v.adopt.highest) + adoptionGap
	d.Record.Routed = false
	d.Record.Operation = v.operation(v1.OperationAdopt, "", d.Record.Epoch)
	d.Evidence = append(d.Evidence, "agents know epoch "+itoa(v.adopt.highest)+", the record "+itoa(v.rec.Epoch))
}

// recordAdoption makes the record anew from the volumes, in an epoch above all that is known (INV-3).
func recordAdoption(v *view, d *Decision) {
	a := v.adopt
	name := a.candidates[0]
	p := v.snap.Instance(name)
	rec := &d.Record
	rec.Epoch = max(rec.Epoch, a.highest) + 1
	rec.Primary = name
	rec.Routed = false
	quorum := withGeneration(a.quorum, a.quorum.Generation+1)
	rec.Quorum = &quorum
	rec.Operation = v.operation(v1.OperationResume, name, rec.Epoch)
	d.Evidence = append(d.Evidence, "every wanted instance answered; agents of epoch "+itoa(a.highest)+" name "+name+" as primary")
	if p == nil || p.HasData() != topology.True {
		// The instance that was primary has no data: nothing may be concluded, and Recovering will say so.
		rec.History = appendHistory(rec.History, v1.EpochRecord{Epoch: rec.Epoch, Instance: name, ServerUUID: "unknown", PromotedAt: v.timestamp()})
		return
	}
	holds, _ := p.Holds()
	rec.History = appendHistory(rec.History, v1.EpochRecord{
		Epoch: rec.Epoch, Instance: name, ServerUUID: p.Status.Data.ServerUUID, Incarnation: p.Status.Data.Incarnation,
		PromotedGTIDSet: holds.String(), PromotedAt: v.timestamp(),
	})
}

// startAdopted lets mysqld of the one that is to be adopted start, read-only, when nothing else is waited for: what it
// executed is to be recorded. It is told in its own epoch, since there is no record yet of a later one.
func startAdopted(v *view, d *Decision) {
	a := v.adopt
	if len(a.candidates) != 1 || len(a.waits) != 1 || a.waits[0] != a.candidates[0] {
		return
	}
	if p := v.snap.Instance(a.candidates[0]); p.Held() == topology.True {
		c := agentapi.Command{Type: agentapi.CommandStart, ClusterID: v.snap.Spec.ClusterID, Epoch: p.Status.Epoch}
		c.OperationID = operationID(p, c)
		d.Actions = append(d.Actions, Action{Instance: p.Name, Command: c, Why: "what it executed is to be recorded"})
	}
}

// list joins names for a message.
func list(names []string) string { return strings.Join(names, ", ") }
