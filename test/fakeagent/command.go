package fakeagent

import (
	"fmt"

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
	case cmd.Epoch == i.epoch && i.primaryEpoch == i.epoch && i.primary != "" && cmd.Primary != nil && cmd.Primary.Instance != i.primary:
		return refuse(agentapi.ErrPrecondition, "the primary of epoch %d is %s", i.epoch, i.primary)
	case cmd.Quorum != nil && i.quorum != nil && cmd.Quorum.Generation < i.quorum.Generation && cmd.Type != agentapi.CommandFollow:
		return refuse(agentapi.ErrPrecondition, "quorum generation %d is known", i.quorum.Generation)
	case cmd.Epoch > i.epoch && i.role == agentapi.RolePrimary && cmd.Type != agentapi.CommandPromote &&
		cmd.Type != agentapi.CommandFollow && cmd.Type != agentapi.CommandDemote && cmd.Type != agentapi.CommandStart && cmd.Type != agentapi.CommandRebuild:
		return refuse(agentapi.ErrPrecondition, "this was the primary of epoch %d: it must be told its role first", i.epoch)
	case cmd.Epoch == i.epoch && i.fenced && (cmd.Type == agentapi.CommandFollow || cmd.Type == agentapi.CommandPromote):
		return refuse(agentapi.ErrPrecondition, "epoch %d is one of fencing", i.epoch)
	case cmd.Quorum != nil && int(cmd.Quorum.RequiredAcks) > len(cmd.Quorum.Members):
		return refuse(agentapi.ErrInvalid, "quorum.requiredAcks: more than members")
	}
	return nil
}

// persist is what an agent fsyncs before it acts (INV-3).
func (i *instance) persist(cmd agentapi.Command, role agentapi.Role) {
	i.clusterID = cmd.ClusterID
	if cmd.Epoch > i.epoch {
		i.epoch, i.fenced = cmd.Epoch, false
	}
	if cmd.Primary != nil {
		i.primary, i.primaryEpoch = cmd.Primary.Instance, cmd.Epoch
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
	case agentapi.CommandInitialize, agentapi.CommandClone, agentapi.CommandRebuild:
		return w.makeData(i, cmd)
	case agentapi.CommandFollow:
		return w.follow(i, cmd)
	case agentapi.CommandPromote:
		return w.promote(i, cmd)
	case agentapi.CommandSetQuorum:
		return w.setQuorum(i, cmd)
	case agentapi.CommandFence:
		return w.fence(i, cmd)
	case agentapi.CommandDemote:
		return w.demote(i, cmd)
	case agentapi.CommandRestart:
		return w.restart(i, cmd)
	case agentapi.CommandStart:
		if cmd.Epoch > i.epoch {
			i.role, i.confirmed = agentapi.RoleNone, false
		}
		i.persist(cmd, agentapi.RoleNone)
		if i.process == agentapi.ProcessHeld {
			w.boot(i)
		}
		return nil
	default:
		return refuse(agentapi.ErrInvalid, "type: %q is not modelled", cmd.Type)
	}
}

func (w *World) makeData(i *instance, cmd agentapi.Command) error {
	if cmd.Type == agentapi.CommandRebuild && i.role == agentapi.RolePrimary && cmd.Epoch == i.epoch {
		return refuse(agentapi.ErrPrecondition, "this is the primary of epoch %d", i.epoch)
	}
	if i.data == agentapi.DataReady && cmd.Type == agentapi.CommandRebuild && i.operation != nil && i.operation.ID == cmd.OperationID {
		return nil
	}
	if i.data == agentapi.DataReady && cmd.Type != agentapi.CommandRebuild {
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
	if cmd.Type != agentapi.CommandInitialize {
		state, d = agentapi.DataCloning, w.durations.Clone
		if donor = w.instances[cmd.Donor.Instance]; donor == nil || !donor.up() {
			return refuse(agentapi.ErrPrecondition, "the donor does not answer")
		}
	}
	i.persist(cmd, agentapi.RoleNone)
	i.end(agentapi.ProcessStopped, "")
	i.data, i.role = state, agentapi.RoleNone
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
		i.source, i.waiting, i.wasPrimary = "", nil, false
		if donor != nil {
			i.executed, i.logged, i.purged = donor.executed, donor.executed, donor.executed
		}
		w.start(i)
	})
	return nil
}

func (w *World) follow(i *instance, cmd agentapi.Command) error {
	if i.process == agentapi.ProcessHeld && cmd.Primary != nil && cmd.Primary.Instance != i.name {
		i.persist(cmd, agentapi.RoleReplica)
		if g := cmd.PromotedGTIDSet; g != nil {
			w.cut(i, *g)
		}
		w.boot(i)
		return nil
	}
	switch {
	case !i.up():
		return refuse(agentapi.ErrPrecondition, "mysqld is %s", i.process)
	case cmd.Primary == nil || cmd.Primary.Instance == i.name:
		return refuse(agentapi.ErrInvalid, "primary: an instance cannot follow itself")
	case i.role == agentapi.RolePrimary && cmd.Epoch == i.epoch:
		return refuse(agentapi.ErrPrecondition, "this is the primary of epoch %d", i.epoch)
	}
	i.persist(cmd, agentapi.RoleReplica)
	if !i.closes(w) {
		return refuse(agentapi.ErrInternal, "mysqld was killed, since commits wait for acknowledgement")
	}
	if g := cmd.PromotedGTIDSet; g == nil || i.executed.Subtract(*g).IsEmpty() {
		i.wasPrimary = false
	}
	i.semiReplica = i.lists(i)
	i.source = cmd.Primary.Instance // What was received and not applied stays in the relay log.
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
	if i.lagging && !i.executed.Contains(i.received) {
		return refuse(agentapi.ErrPrecondition, "transactions are received and not applied yet")
	}
	i.persist(cmd, agentapi.RolePrimary)
	i.wasPrimary = true
	i.executed, i.logged = i.executed.Union(i.received), i.logged.Union(i.received)
	i.received, i.source, i.receiver, i.applier = gtid.Set{}, "", "OFF", "OFF"
	i.apply(*cmd.Quorum)
	if w.flaw == OpensAlone && i.readOnly {
		i.semiSource = false
	}
	if i.readOnly {
		// What a crash made visible without an acknowledgement is read by clients from now on: it counts as told to them.
		w.acked = append(w.acked, Commit{GTID: i.executed})
		w.opened(i)
	}
	i.readOnly, i.confirmed = false, true
	if i.next == 0 {
		w.write(i, 3) // The accounts.
	}
	return nil
}

// restart ends mysqld, by force where it hangs or commits wait, and starts it again.
func (w *World) restart(i *instance, cmd agentapi.Command) error {
	switch {
	case i.process != agentapi.ProcessRunning:
		return refuse(agentapi.ErrPrecondition, "mysqld is %s", i.process)
	case cmd.ProcessStartedAt != nil && !cmd.ProcessStartedAt.Equal(i.startedAt):
		return refuse(agentapi.ErrPrecondition, "processStartedAt: another mysqld runs")
	}
	i.persist(cmd, agentapi.RoleNone)
	i.end(agentapi.ProcessStopped, "")
	w.start(i)
	return nil
}

// fence makes an instance receive, and so acknowledge, nothing more.
func (w *World) fence(i *instance, cmd agentapi.Command) error {
	if i.role == agentapi.RolePrimary {
		return refuse(agentapi.ErrPrecondition, "the primary is to be demoted")
	}
	i.persist(cmd, agentapi.RoleNone)
	if !i.hung.IsZero() {
		return refuse(agentapi.ErrInternal, "mysqld does not answer")
	}
	i.fenced, i.receiver = true, "OFF"
	return nil
}

// demote takes the role away; a primary whose commits wait for acknowledgement can only be killed.
func (w *World) demote(i *instance, cmd agentapi.Command) error {
	i.persist(cmd, agentapi.RoleNone)
	i.role, i.confirmed = agentapi.RoleNone, false
	switch {
	case !i.hung.IsZero():
		i.end(agentapi.ProcessCrashed, "signal: killed")
		w.start(i)
	case i.up():
		i.closes(w)
	}
	return nil
}

// closes makes mysqld read-only, or kills it where commits wait; it says whether mysqld runs on.
func (i *instance) closes(w *World) bool {
	if len(i.waiting) > 0 {
		i.end(agentapi.ProcessCrashed, "signal: killed")
		w.start(i)
		return false
	}
	i.readOnly, i.semiSource, i.semiCount = true, false, 0
	return true
}

// cut takes away what the binary log of a former primary holds beyond the set, as long as it was not made visible. It then
// has another server UUID: numbers that were cut off may be held by a replica somewhere, and must not be given again.
func (w *World) cut(i *instance, g gtid.Set) {
	if !i.executed.Subtract(g).IsEmpty() || g.Contains(i.logged) {
		return
	}
	i.logged = i.logged.Intersect(g)
	i.uuid, i.next = w.newUUID(), 1
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
