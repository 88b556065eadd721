package failover

import (
	"fmt"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

const (
	// silenceGrace is how long an agent's stream must have been gone before its silence counts, beside the replicas' own
	// evidence: a stream that broke by itself is back by then.
	silenceGrace = 250 * time.Millisecond
	// recheckSoon is the pause before facts that ripen with time are looked at again.
	recheckSoon = 100 * time.Millisecond
	// heldPatience is how long a held primary waits for the agents of the others, which could make a failover possible.
	heldPatience = 3 * time.Second
	// capWindow is the time in which MaxFailovers are allowed.
	capWindow = 10 * time.Minute
	// capRecheck is how often it is looked whether the window of the cap is over, while a primary is lost.
	capRecheck = 10 * time.Second
	// defaultMaxFailovers in capWindow.
	defaultMaxFailovers = 5
)

// loss is what is known about the primary being lost to its clients.
type loss struct {
	// lost rests on live, positive evidence (INV-5).
	lost bool
	// silent is true when that evidence is a silence, which the manager's own network could have caused.
	silent bool
	// why in a line.
	why string
	// ripens is when a suspicion becomes a loss if nothing changes; 0: there is none.
	ripens time.Duration
}

// judgeLoss weighs the manager's view and the replicas' view of the primary. A primary whose commits wait for
// acknowledgement serves: that is never a reason.
func (v *view) judgeLoss() loss {
	p := v.primary
	switch {
	case v.rec.Primary == "":
		return loss{}
	case !p.Answers() && (p == nil || !p.Pod.Exists):
		return loss{lost: true, why: "its pod does not exist"}
	case !p.Answers() && !p.Pod.Running:
		return loss{lost: true, why: "its pod does not run"}
	case !p.Answers():
		return v.judgeSilence()
	case v.primaryDataLost():
		return loss{lost: true, why: "its data directory is not the one that was promoted"}
	case p.MySQLRuns() == topology.False:
		return loss{lost: true, why: "its mysqld does not run" + lastExit(p)}
	case p.Server() == nil:
		return v.judgeHang()
	}
	if p.Pod.Terminating && p.Writable() == topology.False {
		return loss{lost: true, why: "its pod is being deleted, and its writes have ended"}
	}
	if ahead, _ := v.aheadOfPrimary(); len(ahead) > 0 {
		return loss{lost: true, why: "it lacks transactions that " + list(ahead) + " received from it"}
	}
	return loss{}
}

// judgeSilence: the agent is not heard, and neither do the replicas hear their source. One replica that hears it is proof
// of its life.
func (v *view) judgeSilence() loss {
	if v.primary.SilentSince.IsZero() || !v.unheardByReplicas() {
		return loss{}
	}
	return v.ripe(v.primary.SilentSince, silenceGrace, loss{lost: true, silent: true, why: "its agent is silent, and no replica hears it"})
}

// judgeHang: mysqld runs and answers neither its agent nor its replicas.
func (v *view) judgeHang() loss {
	// That only logins hang is another state: sessions that were open before still answer then. The agent's clock may be
	// another one than the manager's: what counts is that the replicas gave up, which takes some seconds.
	if v.primary.Status.Process.UnresponsiveSince == nil || !v.unheardByReplicas() {
		return loss{}
	}
	return loss{lost: true, why: "its mysqld answers neither its agent nor its replicas"}
}

// primaryHung says whether the primary is lost since its mysqld hangs, which its agent can end.
func (v *view) primaryHung() bool {
	return v.loss.lost && v.primary.MySQLRuns() == topology.True && v.primary.Server() == nil && !v.primaryDataLost()
}

// ripe gives the loss once it has lasted long enough, and until then when that will be.
func (v *view) ripe(since time.Time, least time.Duration, l loss) loss {
	if lasted := v.now.Sub(since); lasted < least {
		return loss{ripens: least - lasted}
	}
	return l
}

// unheardByReplicas says whether some replica that answers has lost its source, and none hears it.
func (v *view) unheardByReplicas() bool {
	witnesses := 0
	for i := range v.snap.Instances {
		inst := &v.snap.Instances[i]
		if inst.Name == v.rec.Primary || !v.ours(inst) {
			continue
		}
		switch inst.HearsSource() {
		case topology.True:
			return false
		case topology.False:
			witnesses++
		}
	}
	return witnesses > 0
}

func lastExit(i *topology.Instance) string {
	if text := i.Status.Process.LastExit; text != "" && i.Status.Process.State != agentapi.ProcessRunning {
		return " (" + bounded(text) + ")"
	}
	return ""
}

// failoverPossible says whether a failover may be begun and could succeed by what is known: enough members could be fenced
// and one that could be primary is among those that answer.
func (v *view) failoverPossible() bool {
	if !v.rec.Routed || v.capped() && v.resumable() || v.loss.silent && v.snap.Suspect || v.snap.Spec.Failover.Manual {
		return false
	}
	reachable, union := 0, gtid.Set{}
	for _, m := range v.recorded().Members {
		if i := v.snap.Instance(m.Name); m.Name != v.rec.Primary && v.fenceable(i) && identity(i) == m {
			reachable++
			holds, _ := i.Holds()
			union = union.Union(v.ownHistory(holds))
		}
	}
	if !v.suffices(reachable) {
		return false
	}
	for k := range v.snap.Instances {
		i := &v.snap.Instances[k]
		if !v.fenceable(i) || v.unfit(i) != "" {
			continue
		}
		// What was heard of each is of another moment: who held everything then will hold no less of it when it is fenced.
		if holds, _ := i.Holds(); holds.Contains(union) {
			return true
		}
	}
	return false
}

// resumable says whether bringing the primary back in place could do at all.
func (v *view) resumable() bool {
	ahead, _ := v.aheadOfPrimary()
	return !v.primaryDataLost() && len(ahead) == 0
}

// suffices is INV-4: so many confirmations and the acknowledgements that a commit waits for must overlap.
func (v *view) suffices(confirmed int) bool {
	q := v.recorded()
	return q.RequiredAcks > 0 && confirmed+int(q.RequiredAcks) > len(q.Members)
}

// fenceable says whether an instance other than the primary answers with what it holds.
func (v *view) fenceable(i *topology.Instance) bool {
	return i != nil && i.Name != v.rec.Primary && v.ours(i) && i.HasData() == topology.True && i.Server() != nil
}

// capped says whether so many failovers were made of late that restarting in place is preferred: a query that crashes
// servers must not walk through the cluster.
func (v *view) capped() bool {
	most := int(v.snap.Spec.Failover.MaxFailovers)
	if most == 0 {
		most = defaultMaxFailovers
	}
	return v.recentFailovers() >= most
}

// recentFailovers counts the failovers within the window of the cap.
func (v *view) recentFailovers() int {
	recent := 0
	for _, e := range v.rec.History {
		if e.Cause == v1.CauseFailover && v.now.Sub(e.PromotedAt.Time) < capWindow {
			recent++
		}
	}
	return recent
}

// waitedEnough says whether a held primary is to be started in place: nobody's answer could still make a failover possible,
// or it did not come in time.
func (v *view) waitedEnough() bool {
	if v.capped() || v.snap.Spec.Failover.Manual || v.rec.Operation == nil || v.now.Sub(v.heldSince()) >= heldPatience {
		return true
	}
	for _, i := range v.wanted() {
		if i.Name != v.rec.Primary && i.Pod.MayRun() && !i.Answers() {
			return false
		}
	}
	return true
}

// heldSince is from when a held primary waits for others: where every node went down at once it comes back long after its
// loss was recorded, and the others about when it does.
func (v *view) heldSince() time.Time {
	since := v.rec.Operation.StartedAt.Time
	if p := v.primary; p.Answers() && p.ProcessSince.After(since) {
		since = p.ProcessSince
	}
	return since
}

// lossEvidence says why the primary is lost.
func (v *view) lossEvidence() string { return fmt.Sprintf("%s is lost: %s", v.rec.Primary, v.loss.why) }
