package fakeagent

import (
	"fmt"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Status returns a document of this moment.
func (w *World) Status(name string) (agentapi.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instances[name]
	if i == nil || !i.podUp {
		return agentapi.Status{}, fmt.Errorf("instance %s: no such host", name)
	}
	w.load()
	return w.document(i), nil
}

func (w *World) document(i *instance) agentapi.Status {
	i.sequence++
	st := agentapi.Status{
		APIVersion: agentapi.Version, AgentVersion: "fake", Instance: i.name, AgentStart: i.agentStart, Sequence: i.sequence,
		ClusterID: i.clusterID, Epoch: i.epoch, Role: i.role, Primary: i.primary, PrimaryEpoch: i.primaryEpoch, Quorum: i.quorum, Confirmed: i.confirmed,
		Data:    agentapi.DataStatus{State: i.data, Error: i.dataErr},
		Process: agentapi.ProcessStatus{State: i.process, Exits: i.exits, LastExit: i.lastExit, Version: "9.7.4"},
	}
	if i.data == agentapi.DataReady {
		st.Data.Incarnation, st.Data.ServerUUID, st.Data.WasPrimary = i.incarnation, i.uuid.String(), i.wasPrimary
	}
	if i.operation != nil {
		op := *i.operation
		st.Operation = &op
	}
	if !i.startedAt.IsZero() {
		started := i.startedAt
		st.Process.StartedAt, st.Process.PID = &started, i.pid
	}
	if i.process == agentapi.ProcessRunning && !i.hung.IsZero() {
		since := i.hung
		st.Process.UnresponsiveSince = &since
	}
	if i.up() {
		st.Server = w.server(i)
	}
	return st
}

func (w *World) server(i *instance) *agentapi.ServerStatus {
	clients := 0
	for _, r := range w.instances {
		if r.source == i.name && r.receiver == "ON" && r.semiReplica && r.up() {
			clients++
		}
	}
	out := &agentapi.ServerStatus{
		SuperReadOnly: i.readOnly, ReadOnly: i.readOnly, GTIDExecuted: i.executed, GTIDPurged: i.purged,
		SemiSync:        agentapi.SemiSyncStatus{SourceEnabled: i.semiSource, WaitForReplicaCount: max(i.semiCount, 1), Clients: clients, WaitSessions: len(i.waiting)},
		AccountsApplied: !i.readOnly, AppliedQuorum: i.appliedQuorum,
	}
	for _, c := range i.waiting {
		out.GTIDOwned = out.GTIDOwned.Union(c.gtid)
	}
	if i.fenced {
		out.FencedEpoch = i.epoch
	}
	if i.source == "" {
		return out
	}
	lag := 0.0
	out.Replication = &agentapi.ReplicationStatus{
		SourceHost: naming.Host(w.cluster, w.namespace, i.source), Receiver: i.receiver, Applier: i.applier, Received: i.received, LastHeard: w.now(),
		LagSeconds: &lag, ReceiverErrno: i.receiverErrno, SemiSyncActive: i.semiReplica && i.receiver == "ON",
	}
	if s := w.instances[i.source]; s != nil && i.receiver == "ON" {
		out.Replication.SourceUUID = s.uuid.String()
	}
	return out
}
