package failover

import (
	"fmt"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/clip"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// rejoinVerdict says what is to be done about one instance other than the primary.
type rejoinVerdict int

const (
	// The zero verdict is to wait: nothing now.
	_ rejoinVerdict = iota
	// rejoinServing: it follows.
	rejoinServing
	// rejoinMakeData: it is empty and is to be given data.
	rejoinMakeData
	// rejoinFollow: it may follow.
	rejoinFollow
	// rejoinSample: the primary must be sampled anew before more can be said.
	rejoinSample
	// rejoinRebuild: its data is of no use and is to be replaced by a copy of a member's; what it alone has is saved first.
	rejoinRebuild
	// rejoinBroken: a person must look; why says at what.
	rejoinBroken
)

// rejoin is the verdict for one instance.
type rejoin struct {
	verdict rejoinVerdict
	why     string
	// errant is what a rebuild saves.
	errant gtid.Set
}

const (
	// maxText bounds a text from outside, as a set of transactions, in a message.
	maxText = 160
	// maxMessage bounds the whole message.
	maxMessage = 2048
)

// checkRejoin judges one instance. What cannot follow, by live evidence (INV-5), is rebuilt once what it alone has is saved
// (INV-9), unless a person is to look first.
func (v *view) checkRejoin(i *topology.Instance) rejoin {
	switch {
	case !i.Answers() || i.Name == v.rec.Primary:
		return rejoin{}
	case v.foreign(i):
		return rejoin{verdict: rejoinBroken, why: foreignText(i)}
	case i.NeedsData() == topology.True:
		return rejoin{verdict: rejoinMakeData, why: i.Status.Data.Error}
	case i.Held() == topology.True && (v.primaryOpen() || v.rec.Phase == recovering && v.primary.Server() != nil):
		return rejoin{verdict: rejoinFollow} // A former primary: what it holds beyond the present one is cut off first.
	case v.primary == nil || i.Server() == nil || v.primary.Server() == nil:
		return rejoin{}
	}
	follows := i.Follows(v.lineage) == topology.True
	errant, isErrant := topology.Errant(i, v.primary, v.lineage.ServerUUID)
	switch {
	case isErrant == topology.True:
		return v.rebuild(errant, "it executed transactions that the primary never had: "+bounded(errant.String()))
	case isErrant == topology.Unknown:
		return rejoin{verdict: rejoinSample}
	case follows:
		return rejoin{verdict: rejoinServing}
	}
	if missing, purged := topology.Purged(i, v.primary); purged == topology.True {
		return v.rebuild(gtid.Set{}, "it needs transactions that the primary has purged from its binary logs: "+bounded(missing.String()))
	}
	if repl := i.Status.Server.Replication; v.hasRole(i) && repl != nil && repl.Applier == "OFF" && repl.ApplierErrno != 0 {
		return rejoin{verdict: rejoinBroken, why: fmt.Sprintf("its applier stopped with error %d: %s", repl.ApplierErrno, bounded(repl.ApplierError))}
	}
	if server := v.primary.Server(); !v.rec.Routed && v.primaryOpen() && !server.AccountsApplied && server.AccountsError == "" {
		return rejoin{} // Its account does not exist for a moment yet: a refused login would cost it a second.
	}
	if v.stops(i) {
		return rejoin{} // Its agent takes no commands any more.
	}
	return rejoin{verdict: rejoinFollow}
}

// rebuild is the verdict on data that is of no use.
func (v *view) rebuild(errant gtid.Set, why string) rejoin {
	if v.snap.Spec.Failover.HoldErrant && !errant.IsEmpty() {
		return rejoin{verdict: rejoinBroken, why: why + "; held for a person, since spec.failover.errantTransactions is Hold"}
	}
	return rejoin{rejoinRebuild, why, errant}
}

// stops says whether a replica is on its way out: its pod is being deleted, which Kubernetes never takes back, and it has
// ceased to follow the primary that it was told to follow. One that has yet to hear of this primary is told all the same:
// on a node that lost its kubelet a pod being deleted may live on.
func (v *view) stops(i *topology.Instance) bool {
	return i.Pod.Terminating && i.Answers() && i.Name != v.rec.Primary && v.hasRole(i) && i.Follows(v.lineage) != topology.True
}

// hasRole says whether the instance was told to follow the present primary in this life of its agent.
func (v *view) hasRole(i *topology.Instance) bool {
	st := i.Status
	return st.Confirmed && st.Role == agentapi.RoleReplica && st.Epoch == v.rec.Epoch && st.Primary == v.rec.Primary
}

func foreignText(i *topology.Instance) string {
	if i.Status.ClusterID == "" {
		return "its volume holds data that no cluster id claims"
	}
	return "its volume belongs to cluster id " + bounded(i.Status.ClusterID)
}

// bounded makes of a text that came from outside one that a status can bear.
func bounded(s string) string { return clip.Text(s, maxText) }
