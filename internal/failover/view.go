package failover

import (
	"slices"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// view is one moment's facts with what is derived from them once. Guards read it, steps read it and fill the decision.
type view struct {
	snap topology.Snapshot
	rec  v1.MySQLTopologyStatus
	now  time.Time

	// primary is the recorded primary; nil: none recorded, or nothing known of it.
	primary *topology.Instance
	// entry is the history's entry of the recorded epoch; nil: not promoted yet.
	entry   *v1.EpochRecord
	lineage topology.Lineage

	quorum  quorumChange
	adopt   adoption
	rejoins map[string]rejoin

	loss     loss
	election election

	switchover switchover
}

// newView derives the facts that guards share.
func newView(snap topology.Snapshot, rec v1.MySQLTopologyStatus, now time.Time) *view {
	v := &view{snap: complete(snap, rec), rec: rec, now: now, rejoins: map[string]rejoin{}}
	if rec.Primary != "" {
		v.primary = v.snap.Instance(rec.Primary)
	}
	if n := len(rec.History); n > 0 && rec.History[n-1].Epoch == rec.Epoch {
		v.entry = &v.rec.History[n-1]
	}
	v.lineage = topology.Lineage{Epoch: rec.Epoch, Primary: rec.Primary, ServerUUID: v.primaryUUID()}
	if v.primary != nil {
		v.lineage.Host = v.primary.Host
	}
	v.adopt = planAdoption(v)
	for i := range v.snap.Instances {
		inst := &v.snap.Instances[i]
		v.rejoins[inst.Name] = v.checkRejoin(inst)
	}
	v.quorum = planQuorum(v)
	v.loss = v.judgeLoss()
	v.election = planElection(v)
	v.switchover = planSwitchover(v)
	return v
}

// complete gives every instance that the spec or the record names a place in the snapshot; of an added one nothing is
// known but that no pod of it was seen.
func complete(snap topology.Snapshot, rec v1.MySQLTopologyStatus) topology.Snapshot {
	names := slices.Clone(snap.Spec.Instances)
	if rec.Primary != "" {
		names = append(names, rec.Primary)
	}
	if rec.Quorum != nil {
		for _, m := range rec.Quorum.Members {
			names = append(names, m.Name)
		}
	}
	snap.Instances = slices.Clone(snap.Instances)
	for _, name := range names {
		if snap.Instance(name) == nil {
			snap.Instances = append(snap.Instances, topology.Instance{
				Name: name, Wanted: slices.Contains(snap.Spec.Instances, name),
				Host: naming.Host(snap.Cluster, snap.Namespace, name),
			})
		}
	}
	return snap
}

// primaryUUID returns the server UUID of the primary by the record, else by its agent; zero: unknown.
func (v *view) primaryUUID() gtid.UUID {
	text := ""
	switch {
	case v.entry != nil:
		text = v.entry.ServerUUID
	case v.primary.Answers():
		text = v.primary.Status.Data.ServerUUID
	}
	uuid, err := gtid.ParseUUID(text)
	if err != nil {
		return gtid.UUID{}
	}
	return uuid
}

// wanted returns the wanted instances in order.
func (v *view) wanted() []*topology.Instance {
	var out []*topology.Instance
	for i := range v.snap.Instances {
		if v.snap.Instances[i].Wanted {
			out = append(out, &v.snap.Instances[i])
		}
	}
	return out
}

// ours says whether the instance's volume belongs to this cluster.
func (v *view) ours(i *topology.Instance) bool {
	return i.Answers() && i.Status.ClusterID == v.snap.Spec.ClusterID
}

// foreign says whether the instance's volume holds data that this cluster may not touch.
func (v *view) foreign(i *topology.Instance) bool {
	if !i.Answers() {
		return false
	}
	id := i.Status.ClusterID
	return id != "" && id != v.snap.Spec.ClusterID || id == "" && i.HasData() == topology.True
}

// recorded returns the recorded quorum; never nil.
func (v *view) recorded() v1.Quorum {
	if v.rec.Quorum == nil {
		return v1.Quorum{}
	}
	return *v.rec.Quorum
}

// inForce returns the quorum that the primary's agent holds, and whether mysqld's settings are those: the agent stores and
// reports a quorum before it applies it, and may fail in between. Everything in a document that says applied was sampled
// while that quorum was in force.
func (v *view) inForce() (q v1.Quorum, applied bool) {
	if !v.primary.Answers() || v.primary.Status.Quorum == nil {
		return v1.Quorum{}, false
	}
	q = fromWire(*v.primary.Status.Quorum)
	server := v.primary.Server()
	if server == nil {
		return q, false
	}
	semi := server.SemiSync
	return q, server.AppliedQuorum == q.Generation && semi.SourceEnabled == (q.RequiredAcks > 0) &&
		(q.RequiredAcks == 0 || semi.WaitForReplicaCount == int(q.RequiredAcks))
}

// peer describes an instance to another one.
func peer(i *topology.Instance) *agentapi.Peer {
	p := &agentapi.Peer{Instance: i.Name, Host: i.Host, Port: mysqlPort}
	if i.Answers() {
		p.ServerUUID = i.Status.Data.ServerUUID
	}
	return p
}

func fromWire(q agentapi.Quorum) v1.Quorum {
	out := v1.Quorum{Generation: q.Generation, RequiredAcks: q.RequiredAcks}
	for _, m := range q.Members {
		out.Members = append(out.Members, v1.QuorumMember(m))
	}
	return out
}

func toWire(q v1.Quorum) *agentapi.Quorum {
	out := &agentapi.Quorum{Generation: q.Generation, RequiredAcks: q.RequiredAcks}
	for _, m := range q.Members {
		out.Members = append(out.Members, agentapi.Member(m))
	}
	return out
}
