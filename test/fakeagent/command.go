package fakeagent

import (
	"fmt"
	"slices"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// Do carries out a command on an instance or refuses it with an *agentapi.Error, as internal/agent does.
func (w *World) Do(name string, cmd agentapi.Command) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instances[name]
	if i == nil || !i.podUp {
		return fmt.Errorf("instance %s: no such host", name)
	}
	if err := i.admit(cmd); err != nil {
		return err
	}
	if why := i.failNext[cmd.Type]; why != "" {
		delete(i.failNext, cmd.Type)
		return refuse(agentapi.ErrInternal, "%s", why)
	}
	err := w.carryOut(i, cmd)
	w.settle()
	w.change(i)
	return err
}

func (i *instance) admit(cmd agentapi.Command) error {
	switch {
	case i.ending:
		return refuse(agentapi.ErrBusy, "the agent is shutting down")
	case cmd.ClusterID == "" || cmd.Epoch < 1 || cmd.OperationID == "":
		return refuse(agentapi.ErrInvalid, "clusterID, epoch and operationID are needed")
	case i.clusterID != "" && i.clusterID != cmd.ClusterID:
		return refuse(agentapi.ErrWrongCluster, "this volume belongs to %s", i.clusterID)
	case cmd.Epoch < i.epoch:
		return refuse(agentapi.ErrStaleEpoch, "this instance knows epoch %d", i.epoch)
	case cmd.Epoch == i.epoch && i.primary != "" && cmd.Primary != nil && cmd.Primary.Instance != i.primary:
		return refuse(agentapi.ErrPrecondition, "the primary of epoch %d is %s", i.epoch, i.primary)
	case cmd.Quorum != nil && i.quorum != nil && cmd.Quorum.Generation < i.quorum.Generation && cmd.Type != agentapi.CommandFollow:
		return refuse(agentapi.ErrPrecondition, "quorum generation %d is known", i.quorum.Generation)
	case cmd.Quorum != nil && int(cmd.Quorum.RequiredAcks) > len(cmd.Quorum.Members):
		return refuse(agentapi.ErrInvalid, "quorum.requiredAcks: more than members")
	}
	return nil
}

// persist is what an agent fsyncs before it acts (INV-3).
func (i *instance) persist(cmd agentapi.Command, role agentapi.Role) {
	i.clusterID = cmd.ClusterID
	if cmd.Epoch > i.epoch {
		i.epoch, i.primary = cmd.Epoch, ""
	}
	if cmd.Primary != nil {
		i.primary = cmd.Primary.Instance
	}
	if cmd.Quorum != nil && (i.quorum == nil || cmd.Quorum.Generation >= i.quorum.Generation) {
		i.quorum = cmd.Quorum
	}
	if role != agentapi.RoleNone {
		i.role = role
	}
}

func (w *World) carryOut(i *instance, cmd agentapi.Command) error {
	switch cmd.Type {
	case agentapi.CommandInitialize, agentapi.CommandClone:
		return w.makeData(i, cmd)
	case agentapi.CommandFollow:
		return w.follow(i, cmd)
	case agentapi.CommandPromote:
		return w.promote(i, cmd)
	case agentapi.CommandSetQuorum:
		return w.setQuorum(i, cmd)
	default:
		return refuse(agentapi.ErrInvalid, "type: %q is not modelled", cmd.Type)
	}
}

func (w *World) makeData(i *instance, cmd agentapi.Command) error {
	if i.data == agentapi.DataReady {
		if cmd.Type == agentapi.CommandInitialize {
			return nil
		}
		return refuse(agentapi.ErrPrecondition, "data exists")
	}
	if i.data == agentapi.DataInitializing || i.data == agentapi.DataCloning {
		return nil
	}
	var donor *instance
	state, d := agentapi.DataInitializing, w.durations.Initialize
	if cmd.Type == agentapi.CommandClone {
		state, d = agentapi.DataCloning, w.durations.Clone
		if donor = w.instances[cmd.Donor.Instance]; donor == nil || !donor.up() {
			return refuse(agentapi.ErrPrecondition, "the donor does not answer")
		}
	}
	i.persist(cmd, agentapi.RoleNone)
	i.data = state
	i.operation = &agentapi.OperationStatus{ID: cmd.OperationID, Type: cmd.Type, Running: true}
	w.later(d, i, func() {
		i.operation = &agentapi.OperationStatus{ID: cmd.OperationID, Type: cmd.Type}
		if donor != nil && !donor.up() {
			i.data, i.dataErr = agentapi.DataFailed, "the donor went away"
			i.operation.Error = i.dataErr
			return
		}
		i.data, i.dataErr = agentapi.DataReady, ""
		i.uuid, i.incarnation, i.next = w.newUUID(), w.newUUID().String(), 0
		i.logged, i.executed, i.purged, i.received = gtid.Set{}, gtid.Set{}, gtid.Set{}, gtid.Set{}
		i.source, i.waiting = "", nil
		if donor != nil {
			i.executed, i.logged, i.purged = donor.executed, donor.executed, donor.executed
		}
		w.start(i)
	})
	return nil
}

func (w *World) follow(i *instance, cmd agentapi.Command) error {
	switch {
	case !i.up():
		return refuse(agentapi.ErrPrecondition, "mysqld is %s", i.process)
	case cmd.Primary == nil || cmd.Primary.Instance == i.name:
		return refuse(agentapi.ErrInvalid, "primary: an instance cannot follow itself")
	case i.role == agentapi.RolePrimary && cmd.Epoch == i.epoch:
		return refuse(agentapi.ErrPrecondition, "this is the primary of epoch %d", i.epoch)
	}
	i.persist(cmd, agentapi.RoleReplica)
	i.readOnly = true
	i.semiReplica = i.lists(i)
	if i.source != cmd.Primary.Instance {
		i.executed, i.logged = i.executed.Union(i.received), i.logged.Union(i.received)
		i.received, i.source = gtid.Set{}, cmd.Primary.Instance
	}
	i.receiver, i.applier, i.receiverErrno = "CONNECTING", "ON", 0
	i.confirmed = true
	return nil
}

func (w *World) promote(i *instance, cmd agentapi.Command) error {
	if !i.up() {
		return refuse(agentapi.ErrPrecondition, "mysqld is %s", i.process)
	}
	switch {
	case cmd.Quorum == nil:
		return refuse(agentapi.ErrInvalid, "quorum: needed")
	case cmd.ProcessStartedAt != nil && !cmd.ProcessStartedAt.Equal(i.startedAt):
		return refuse(agentapi.ErrPrecondition, "processStartedAt: another mysqld runs")
	}
	i.persist(cmd, agentapi.RolePrimary)
	i.executed, i.logged = i.executed.Union(i.received), i.logged.Union(i.received)
	i.received, i.source, i.receiver, i.applier = gtid.Set{}, "", "OFF", "OFF"
	i.apply(*cmd.Quorum)
	if i.readOnly {
		// What a crash made visible without an acknowledgement is read by clients from now on: it counts as told to them.
		w.acked = append(w.acked, Commit{GTID: i.executed})
	}
	i.readOnly, i.confirmed = false, true
	if i.next == 0 {
		w.write(i, 3) // The accounts.
	}
	return nil
}

func (w *World) setQuorum(i *instance, cmd agentapi.Command) error {
	switch {
	case cmd.Quorum == nil:
		return refuse(agentapi.ErrInvalid, "quorum: needed")
	case i.role != agentapi.RolePrimary && !i.up():
		i.persist(cmd, agentapi.RoleNone) // It boots without replication, and follows by what is stored.
		return nil
	case !i.up():
		return refuse(agentapi.ErrPrecondition, "mysqld is %s", i.process)
	case i.role == agentapi.RolePrimary && cmd.Quorum.RequiredAcks == 0 && len(i.waiting) > 0:
		return refuse(agentapi.ErrPrecondition, "commits wait for acknowledgement")
	}
	i.persist(cmd, agentapi.RoleNone)
	if i.halfDone {
		i.halfDone = false
		return refuse(agentapi.ErrInternal, "stored, but not carried out")
	}
	if i.role == agentapi.RolePrimary {
		// It stands on the volume, and in the status, before it is in force.
		quorum, pid := *cmd.Quorum, i.pid
		w.later(w.durations.Apply, i, func() {
			if i.pid == pid && i.up() && !i.readOnly && i.appliedQuorum <= quorum.Generation {
				i.apply(quorum)
			}
		})
		return nil
	}
	i.semiReplica = i.lists(i)
	return nil
}

// apply puts a quorum in force in mysqld.
func (i *instance) apply(q agentapi.Quorum) {
	i.semiSource, i.semiCount, i.semiReplica, i.appliedQuorum = q.RequiredAcks > 0, int(q.RequiredAcks), false, q.Generation
}

func refuse(code agentapi.ErrorCode, format string, args ...any) error {
	return &agentapi.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

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
		ClusterID: i.clusterID, Epoch: i.epoch, Role: i.role, Primary: i.primary, Quorum: i.quorum, Confirmed: i.confirmed,
		Data:    agentapi.DataStatus{State: i.data, Error: i.dataErr},
		Process: agentapi.ProcessStatus{State: i.process, Exits: i.exits, LastExit: i.lastExit, Version: "9.7.4"},
	}
	if i.data == agentapi.DataReady {
		st.Data.Incarnation, st.Data.ServerUUID = i.incarnation, i.uuid.String()
	}
	if i.operation != nil {
		op := *i.operation
		st.Operation = &op
	}
	if !i.startedAt.IsZero() {
		started := i.startedAt
		st.Process.StartedAt, st.Process.PID = &started, i.pid
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
	if i.source == "" {
		return out
	}
	lag := 0.0
	out.Replication = &agentapi.ReplicationStatus{
		SourceHost: i.source, Receiver: i.receiver, Applier: i.applier, Received: i.received, LastHeard: w.now(),
		LagSeconds: &lag, ReceiverErrno: i.receiverErrno, SemiSyncActive: i.semiReplica && i.receiver == "ON",
	}
	if s := w.instances[i.source]; s != nil && i.receiver == "ON" {
		out.Replication.SourceUUID = s.uuid.String()
	}
	return out
}

// Crash kills an instance's mysqld; its agent starts it again, read-only.
func (w *World) Crash(name string) {
	w.with(name, func(i *instance) {
		if i.process == agentapi.ProcessRunning {
			i.end(agentapi.ProcessCrashed, "signal: killed")
			i.exits++
			w.start(i)
		}
	})
}

// BeginStop is what a replica shows between the order to end and its end: replication stops first.
func (w *World) BeginStop(name string) {
	w.with(name, func(i *instance) {
		i.ending = true
		i.receiver, i.applier = "OFF", "OFF"
	})
}

// StopPod ends an instance's pod at once. Its volume stays.
func (w *World) StopPod(name string) {
	w.with(name, func(i *instance) {
		i.end(agentapi.ProcessStopped, "")
		i.podUp, i.confirmed, i.ending = false, false, false
		if i.data == agentapi.DataInitializing || i.data == agentapi.DataCloning {
			i.data = agentapi.DataEmpty
		}
	})
}

// StartPod gives an instance a new pod on its volume.
func (w *World) StartPod(name string) {
	w.with(name, func(i *instance) {
		if i.podUp {
			return
		}
		w.made++
		i.podUp, i.agentStart, i.sequence, i.exits, i.lastExit, i.operation = true, w.now().Add(time.Duration(w.made)), 0, 0, "", nil
		if i.data == agentapi.DataReady {
			w.start(i)
		}
	})
}

// LoseVolume empties an instance's volume, whose pod must be stopped.
func (w *World) LoseVolume(name string) {
	w.with(name, func(i *instance) {
		*i = instance{name: i.name, data: agentapi.DataEmpty, process: agentapi.ProcessStopped, agentStart: i.agentStart}
	})
}

// Write commits one transaction on an instance if it is writable.
func (w *World) Write(name string) {
	w.with(name, func(i *instance) { w.write(i, 1) })
}

// WriteErrant commits a transaction of an instance's own on it, read-only or not.
func (w *World) WriteErrant(name string) {
	w.with(name, func(i *instance) {
		i.next++
		set := gtid.MustParse(fmt.Sprintf("%s:%d", i.uuid, i.next))
		i.executed, i.logged = i.executed.Union(set), i.logged.Union(set)
	})
}

// Purge drops an instance's binary logs.
func (w *World) Purge(name string) { w.with(name, func(i *instance) { i.purged = i.executed }) }

// CutOff stops or lets through an instance's replication connections, in both directions.
func (w *World) CutOff(name string, cut bool) { w.with(name, func(i *instance) { i.cutOff = cut }) }

// Silence stops or lets through the answers of an instance's agent.
func (w *World) Silence(name string, silent bool) {
	w.with(name, func(i *instance) { i.silent = silent })
}

// Freeze stops or lets go on an instance's receiving, its connection staying up.
func (w *World) Freeze(name string, frozen bool) {
	w.with(name, func(i *instance) { i.frozen = frozen })
}

// FailNext makes the next command of a type fail on an instance.
func (w *World) FailNext(name string, t agentapi.CommandType, why string) {
	w.with(name, func(i *instance) {
		if i.failNext == nil {
			i.failNext = map[agentapi.CommandType]string{}
		}
		i.failNext[t] = why
	})
}

// HalfDone makes the next SetQuorum on an instance fail once the quorum is stored and before it is carried out.
func (w *World) HalfDone(name string) { w.with(name, func(i *instance) { i.halfDone = true }) }

// Life tells lives of an instance's agent apart: a command that was sent to an earlier one does not reach a later one.
func (w *World) Life(name string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := w.instances[name]; i != nil && i.podUp {
		return i.agentStart
	}
	return time.Time{}
}

// SetWriteRate makes the primary take that many commits a second.
func (w *World) SetWriteRate(perSecond float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate, w.loaded = perSecond, w.now()
}

// Holds returns what an instance's volume holds, executed or received, whether or not anything runs on it; exists is false
// when its data is of another incarnation.
func (w *World) Holds(name, incarnation string) (holds gtid.Set, exists bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instances[name]
	if i == nil || i.data != agentapi.DataReady || i.incarnation != incarnation {
		return gtid.Set{}, false
	}
	return i.executed.Union(i.received).Union(i.logged), true
}

// Sent returns how many documents an instance gave away in this life of its agent.
func (w *World) Sent(name string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[name].sequence
}

// Acknowledged returns all commits that clients were told of.
func (w *World) Acknowledged() []Commit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.acked)
}

func (w *World) with(name string, f func(*instance)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instances[name]
	if i == nil {
		panic("fakeagent: no instance " + name)
	}
	f(i)
	w.settle()
	w.change(i)
}
