package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/clip"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// report fills what people read: reason, message, instances, restartReady. Nothing in it moves with each commit.
func (v *view) report(row Row, d *Decision) {
	rec := &d.Record
	rec.ObservedGeneration = v.snap.Generation
	if v.urgent(row) {
		// What people read gives way: each write of the record costs time, and the next one tells.
		if row.Phase == row.Next {
			rec.Reason, rec.Message = v.rec.Reason, v.rec.Message
		} else {
			rec.Message = clip.Text(v.message(*rec), maxMessage)
		}
		d.Evidence = append(d.Evidence, v.primaryEvidence())
		return
	}
	rec.Instances = nil
	for i := range v.snap.Instances {
		inst := &v.snap.Instances[i]
		if inst.Wanted || isMember(v.recorded(), inst.Name) || inst.Name == v.rec.Primary {
			rec.Instances = append(rec.Instances, v.describe(inst, rec))
		}
	}
	if row.Reason != v1.TopologySuspended {
		rec.RestartReady = v.restartReady(*rec)
	}
	if row.Phase == stable && row.Next == stable && v.primaryOpen() {
		if text := v.blockedText(); text != "" && rec.Routed {
			rec.Reason = v1.TopologyWritesBlocked
		}
	}
	if rec.Phase == recovering && rec.Reason == v1.TopologyPrimaryStarting && v.loss.lost && v.capped() {
		rec.Reason = v1.TopologyFailoversCapped
		d.recheck(capRecheck)
	}
	if rec.Reason == v1.TopologyDegraded && v.allServe() {
		rec.Reason = v1.TopologyHealthy // A primary that was opened or resumed just now.
	}
	rec.Message = clip.Text(v.message(*rec), maxMessage)
	d.Readers = v.readers()
	if v.loss.ripens > 0 {
		d.recheck(v.loss.ripens)
	}
	d.Evidence = append(d.Evidence, v.primaryEvidence())
}

// urgentFor is how long a failover may take before what is read of it is kept up to date.
const urgentFor = 3 * time.Second

// urgent says whether writes are being brought back just now.
func (v *view) urgent(row Row) bool {
	if row.Next != fencing && row.Next != promoting && row.Next != draining {
		return false
	}
	return row.Phase != row.Next || v.rec.Operation != nil && v.now.Sub(v.rec.Operation.StartedAt.Time) < urgentFor
}

// describe gives an instance's line of the status.
func (v *view) describe(i *topology.Instance, rec *v1.MySQLTopologyStatus) v1.TopologyInstance {
	out := v1.TopologyInstance{Name: i.Name}
	for _, old := range v.rec.Instances {
		// What is known of the data outlives a silence of its agent.
		if old.Name == i.Name {
			out.ServerUUID, out.Version = old.ServerUUID, old.Version
		}
	}
	if i.Answers() {
		out.ServerUUID = bounded(i.Status.Data.ServerUUID)
		if i.Status.Process.Version != "" {
			out.Version = bounded(i.Status.Process.Version)
		}
	}
	switch {
	case i.Name == rec.Primary && v.entry != nil:
		out.Role = v1.RolePrimary
	case isMember(v.recorded(), i.Name) || i.Follows(v.lineage) == topology.True:
		out.Role = v1.RoleReplica
	}
	out.State, out.Message = v.state(i)
	return out
}

// state says in one word how an instance is, and why.
func (v *view) state(i *topology.Instance) (v1.InstanceState, string) {
	switch r := v.rejoins[i.Name]; {
	case r.verdict == rejoinBroken || r.verdict == rejoinRebuild:
		return v1.InstanceBroken, r.why
	case slices.Contains(v.quorum.unheard, i.Name):
		return v1.InstanceUnreachable, "its agent does not answer: it leaves the quorum once it does or its pod is gone, since it may still acknowledge"
	case !i.Answers() && !i.Pod.Exists:
		return v1.InstancePending, "its pod does not exist"
	case !i.Answers() && !i.Pod.Running:
		return v1.InstancePending, orElse(bounded(i.Pod.Message), "its pod does not run yet")
	case !i.Answers():
		return v1.InstanceUnreachable, "its agent does not answer"
	case v.stops(i):
		return v1.InstancePending, "its pod is being stopped"
	}
	if state, why, settled := v.stateOfData(i); settled {
		return state, why
	}
	if i.Name == v.rec.Primary {
		if v.primaryOpen() {
			return v1.InstanceRunning, ""
		}
		return v1.InstanceStarting, "it is not open yet"
	}
	return v.stateOfReplica(i)
}

// stateOfData covers everything up to a mysqld that answers.
func (v *view) stateOfData(i *topology.Instance) (state v1.InstanceState, why string, settled bool) {
	data, process := i.Status.Data, i.Status.Process
	switch {
	case i.Name == v.rec.Primary && v.primaryDataLost():
		return v1.InstanceBroken, "its data directory is not the one that was promoted", true
	case data.State == agentapi.DataInitializing:
		return v1.InstanceInitializing, "", true
	case data.State == agentapi.DataCloning:
		return v1.InstanceCloning, "", true
	case data.State == agentapi.DataUnknown:
		return v1.InstanceBroken, "its volume cannot be read: " + bounded(data.Error), true
	case data.State == agentapi.DataFailed:
		return v1.InstanceBroken, "making its data directory failed and is tried again: " + bounded(data.Error), true
	case data.State != agentapi.DataReady && v.initializes():
		return v1.InstanceInitializing, "its volume is empty", true
	case data.State != agentapi.DataReady:
		return v1.InstanceCloning, "its volume is empty; it waits for its turn to be cloned", true
	case process.State != agentapi.ProcessRunning && process.LastExit != "" && process.Exits > 0:
		return v1.InstanceStarting, "its mysqld ended: " + bounded(process.LastExit), true
	case process.State != agentapi.ProcessRunning:
		return v1.InstanceStarting, "", true
	case i.Status.Server == nil:
		return v1.InstanceUnreachable, "its mysqld runs and does not answer its agent", true
	}
	return "", "", false
}

func (v *view) stateOfReplica(i *topology.Instance) (v1.InstanceState, string) {
	member := isMember(v.recorded(), i.Name)
	switch {
	case i.Follows(v.lineage) != topology.True:
		if text := i.ReplicationError(); text != "" && v.hasRole(i) {
			return v1.InstanceBroken, "its " + bounded(text)
		}
		return v1.InstanceJoining, "it does not follow " + orElse(v.rec.Primary, "a primary") + " yet"
	case i.Connected(v.lineage) != topology.True:
		return v1.InstanceJoining, "its receiver is not connected to " + v.rec.Primary
	case member && !v.leaves(i.Name) && i.Acknowledges(v.lineage) != topology.True:
		return v1.InstanceJoining, "it follows and does not acknowledge yet"
	case member && slices.Contains(v.quorum.stuck, i.Name):
		return v1.InstanceLeaving, fmt.Sprintf("its acknowledgement is needed: too few others follow for %d", v.snap.Spec.Acks)
	case member && v.leaves(i.Name):
		return v1.InstanceLeaving, "it is leaving the quorum"
	case member || i.Name == v.snap.Spec.Restarting || !i.Wanted:
		return v1.InstanceRunning, ""
	default:
		return v1.InstanceJoining, "it follows and is not a member yet"
	}
}

// blockedText says why no commit can be acknowledged; empty: nothing shows that. Members that do not answer may well be
// connected to the primary: then its own count of semi-sync replicas decides.
func (v *view) blockedText() string {
	need := int(v.recorded().RequiredAcks)
	if need == 0 || !v.primaryOpen() {
		return ""
	}
	live, unknown := 0, 0
	var missing []string
	for _, m := range v.recorded().Members {
		if m.Name == v.rec.Primary {
			continue
		}
		i := v.snap.Instance(m.Name)
		switch i.Acknowledges(v.lineage) {
		case topology.True:
			live++
			continue
		case topology.Unknown:
			unknown++
		}
		state, _ := v.state(i)
		missing = append(missing, m.Name+" ("+string(state)+")")
	}
	if live >= need || live+unknown >= need && v.primary.Status.Server.SemiSync.Clients >= need {
		return ""
	}
	return fmt.Sprintf("commits on %s wait for %s from %s", v.rec.Primary, plural(need, "acknowledgement"), orElse(list(missing), "members that do not exist"))
}

// restartReady decides the handshake with the cluster lane. Once given it stays until spec.restarting changes.
func (v *view) restartReady(next v1.MySQLTopologyStatus) string {
	x := v.snap.Spec.Restarting
	if x == "" || v.rec.RestartReady == x {
		return x
	}
	if next.Phase != stable || v.rec.Phase != stable || !v.primaryOpen() {
		return ""
	}
	acks := int(v.recorded().RequiredAcks)
	if x == v.rec.Primary {
		if v.switchover.target != nil {
			return "" // Another one takes over first.
		}
		if v.countLive(v.recorded().Members, x) >= acks {
			return x
		}
		return ""
	}
	if next.Quorum == nil || !isMember(*next.Quorum, x) {
		return x
	}
	if slices.Contains(v.quorum.leaving, x) {
		return ""
	}
	others := 0
	for _, i := range v.wanted() {
		if i.Name != x && i.Name != v.rec.Primary {
			others++
		}
	}
	i := v.snap.Instance(x)
	if others < acks || i.Acknowledges(v.lineage) == topology.False || !i.Answers() && v.countLive(v.recorded().Members, x) >= acks {
		// Nobody could take its seat, or it acknowledges nothing now, or it cannot be told to leave and is not needed: it
		// restarts as a member, which keeps its seat safe.
		return x
	}
	return ""
}

// readers are the instances that the read-only Service should lead to.
func (v *view) readers() []string {
	var out []string
	for _, i := range v.wanted() {
		if i.Name != v.rec.Primary && v.rejoins[i.Name].verdict == rejoinServing {
			out = append(out, i.Name)
		}
	}
	if len(out) == 0 && v.primaryOpen() {
		out = []string{v.rec.Primary}
	}
	return out
}

// primaryEvidence says in a line what is known of the primary.
func (v *view) primaryEvidence() string {
	name := orElse(v.rec.Primary, "no primary recorded")
	switch {
	case v.primary == nil:
		return name
	case !v.primary.Answers() && !v.primary.Pod.Exists:
		return name + ": its pod does not exist"
	case !v.primary.Answers():
		return name + ": its agent does not answer"
	}
	p := v.primary.Status.Process
	return strings.TrimSpace(fmt.Sprintf("%s: mysqld %s, writable %s, ends %d %s", name, p.State, v.primary.Writable(), p.Exits, bounded(p.LastExit)))
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
