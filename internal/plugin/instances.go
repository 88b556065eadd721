package plugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// buildInstances joins what status, record, pods and agents say, by instance name. An instance that only one of them
// knows is listed too: a forgotten pod is worth seeing.
func buildInstances(s Sources, report Report) []InstanceReport {
	byName := map[string]*InstanceReport{}
	get := func(name string) *InstanceReport {
		if byName[name] == nil {
			byName[name] = &InstanceReport{Name: name}
		}
		return byName[name]
	}
	for _, i := range s.Cluster.Status.Instances {
		r := get(i.Name)
		r.Role, r.State, r.Message = i.Role, i.State, i.Message
		r.Revision, r.Version, r.Node = i.Revision, i.Version, i.Node
	}
	if s.Topology != nil {
		joinRecord(s.Topology, get)
	}
	for i := range s.Pods {
		joinPod(&s.Pods[i], get)
	}
	for name, answer := range s.Agents {
		r := get(name)
		r.LiveError = answer.Reason
		if answer.Status != nil {
			r.Live = buildLive(answer.Status)
		}
	}
	out := make([]InstanceReport, 0, len(byName))
	for _, r := range byName {
		r.Member = slices.Contains(report.Topology.Members, r.Name)
		r.Outdated = r.Revision != "" && report.Cluster.TargetRevision != "" && r.Revision != report.Cluster.TargetRevision
		out = append(out, *r)
	}
	slices.SortFunc(out, byOrdinal(s.Cluster.Name))
	moveFirst(out, report.Topology.Primary)
	compareWithPrimary(out, s.Agents, report.Topology.Primary)
	return out
}

// joinRecord lets the record win over its mirror: it is newer.
func joinRecord(t *porpoisev1.MySQLTopology, get func(string) *InstanceReport) {
	for _, name := range t.Spec.Instances {
		get(name)
	}
	for _, i := range t.Status.Instances {
		r := get(i.Name)
		r.Role, r.State, r.Message = i.Role, i.State, i.Message
		if i.Version != "" {
			r.Version = i.Version
		}
	}
}

func joinPod(pod *corev1.Pod, get func(string) *InstanceReport) {
	name := pod.Labels[naming.LabelInstance]
	if name == "" {
		return
	}
	r := get(name)
	r.Pod, r.PodPhase, r.Node = pod.Name, string(pod.Status.Phase), pod.Spec.NodeName
	if pod.DeletionTimestamp != nil {
		r.PodPhase = "Terminating"
	}
	if revision := pod.Annotations[naming.AnnotationRevision]; revision != "" {
		r.Revision = revision
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			r.PodReady = c.Status == corev1.ConditionTrue
		}
	}
}

func moveFirst(list []InstanceReport, name string) {
	i := slices.IndexFunc(list, func(r InstanceReport) bool { return r.Name == name })
	if i > 0 {
		primary := list[i]
		copy(list[1:i+1], list[:i])
		list[0] = primary
	}
}

func buildLive(st *agentapi.Status) *LiveReport {
	out := &LiveReport{
		AgentVersion: st.AgentVersion,
		Process:      string(st.Process.State), Exits: st.Process.Exits, LastExit: st.Process.LastExit,
		Epoch:       st.Epoch,
		Held:        st.Process.State == agentapi.ProcessHeld,
		Fenced:      st.Server != nil && st.Server.FencedEpoch > 0 && st.Server.FencedEpoch == st.Epoch,
		CutTail:     st.Data.CutTail,
		Quarantined: st.Data.Quarantined,
	}
	if op := st.Operation; op != nil && op.Running {
		out.Operation = string(op.Type)
		if op.Progress != "" {
			out.Operation += ", " + op.Progress
		}
	}
	sv := st.Server
	if sv == nil {
		return out
	}
	out.Writable = new(!sv.SuperReadOnly && !sv.ReadOnly && !sv.OfflineMode)
	out.GTIDExecuted = new(sv.GTIDExecuted)
	if sv.SemiSync.SourceEnabled {
		out.WaitingCommits, out.SemiSyncReplicas = new(sv.SemiSync.WaitSessions), new(sv.SemiSync.Clients)
	}
	if r := sv.Replication; r != nil {
		out.Replication = &ReplicationReport{
			Source: r.SourceHost, Receiver: r.Receiver, Applier: r.Applier, LagSeconds: r.LagSeconds, Received: r.Received,
			ReceiverError: r.ReceiverError, ApplierError: r.ApplierError, SemiSync: r.SemiSyncActive,
		}
		if !r.LastHeard.IsZero() {
			out.Replication.LastHeard = new(r.LastHeard.UTC())
		}
		out.TransactionsUnapplied = new(r.Received.Subtract(sv.GTIDExecuted).Count())
	}
	return out
}

// compareWithPrimary fills in what needs the primary's set too. The agents were asked at nearly the same moment, not at
// the same one, so a replica may hold a commit that the primary had still waiting for its acknowledgement: what was
// first committed on the present primary is never called errant.
func compareWithPrimary(list []InstanceReport, agents map[string]AgentAnswer, primary string) {
	source := agents[primary].Status
	if source == nil || source.Server == nil {
		return
	}
	executed := source.Server.GTIDExecuted
	own, err := gtid.ParseUUID(source.Data.ServerUUID)
	knowsOwn := err == nil
	for i := range list {
		r := &list[i]
		if r.Name == primary || r.Live == nil || r.Live.GTIDExecuted == nil {
			continue
		}
		r.Live.TransactionsBehind = new(executed.Subtract(*r.Live.GTIDExecuted).Count())
		if !knowsOwn {
			continue
		}
		errant := r.Live.GTIDExecuted.Subtract(executed)
		errant = errant.Subtract(errant.Restrict(own))
		if !errant.IsEmpty() {
			r.Live.ErrantGTIDs = &errant
		}
	}
}
