package agent

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// promote opens the instance as the primary of the command's epoch. What it returns is to be done afterwards, within the same
// turn: it takes longer than the opening, and nothing waits for it.
func (a *Agent) promote(ctx context.Context, cmd agentapi.Command) (afterwards func(), err error) {
	st := a.state.get()
	if err := a.checkPromote(st, cmd); err != nil {
		return nil, err
	}
	s, err := a.serving()
	if err != nil {
		return nil, err
	}
	if cmd.ProcessStartedAt != nil && !cmd.ProcessStartedAt.Equal(s.child.started) {
		// It was decided before a crash: what the binary log holds without an acknowledgement was not looked at (INV-1).
		return nil, refuse(agentapi.ErrPrecondition, "processStartedAt: %s; this mysqld was started at %s",
			cmd.ProcessStartedAt.Format(time.RFC3339Nano), s.child.started.Format(time.RFC3339Nano))
	}
	if a.isOpen(s, st, cmd) {
		a.setConfirmed(true)
		return nil, nil
	}
	laps := newLaps()
	channel, err := s.server.Channel(ctx)
	if err != nil {
		return nil, err
	}
	laps.mark("channel")
	if channel != nil {
		if err := a.drain(ctx, s, channel); err != nil {
			return nil, err
		}
		laps.mark("apply")
	}
	self := &agentapi.Peer{Instance: a.cfg.Instance, Host: a.cfg.ReportHost, Port: a.cfg.Port, ServerUUID: a.hub.peek().Data.ServerUUID}
	err = a.persist(cmd, func(s *state) {
		s.Role, s.Primary, s.PrimaryEpoch = agentapi.RolePrimary, self, s.Epoch
		s.Fenced, s.WasPrimary, s.Settled = 0, true, false
		if cmd.Epoch != st.Epoch {
			s.AccountsHash = "" // what was applied in between, another primary knows
		}
	})
	if err != nil {
		return nil, err
	}
	laps.mark("persist")
	if channel != nil {
		afterwards = func() { a.forgetChannel(s) }
	}
	if err := a.open(ctx, s, *cmd.Quorum, laps); err != nil {
		return afterwards, err
	}
	a.setConfirmed(true)
	return afterwards, nil
}

// checkPromote compares a Promote with the state.
func (a *Agent) checkPromote(st state, cmd agentapi.Command) error {
	switch {
	case cmd.Primary != nil && cmd.Primary.Instance != a.cfg.Instance:
		return refuse(agentapi.ErrInvalid, "primary: %s; this instance is %s", cmd.Primary.Instance, a.cfg.Instance)
	case cmd.Epoch == st.Epoch && st.Role != agentapi.RolePrimary && st.primaryNow() != nil && st.Primary.Instance != a.cfg.Instance:
		return refuse(agentapi.ErrPrecondition, "the primary of epoch %d is %s: a change needs a new epoch", st.Epoch, st.Primary.Instance)
	case st.Quorum != nil && cmd.Quorum.Generation < st.Quorum.Generation:
		return refuse(agentapi.ErrPrecondition, "quorum.generation: %d is older than the known one, %d", cmd.Quorum.Generation, st.Quorum.Generation)
	}
	return checkFence(st, cmd)
}

// isOpen says whether all that the command wants is so already.
func (a *Agent) isOpen(s *session, st state, cmd agentapi.Command) bool {
	server := a.hub.peek().Server
	return s.open.Load() && st.Role == agentapi.RolePrimary && cmd.Epoch == st.Epoch && s.appliedQuorum.Load() == cmd.Quorum.Generation &&
		st.Quorum != nil && reflect.DeepEqual(*st.Quorum, *cmd.Quorum) && server != nil && !server.ReadOnly && !server.OfflineMode
}

// open makes mysqld writable, in the order that lets no commit be acknowledged by less than the quorum. The applier may still
// run: it has nothing left to apply.
func (a *Agent) open(ctx context.Context, s *session, quorum agentapi.Quorum, laps *laps) error {
	if err := s.server.SetReplicaSemiSync(ctx, false); err != nil {
		return err
	}
	laps.mark("replicaSemiSync")
	if err := a.applyQuorum(ctx, s, quorum); err != nil {
		return err
	}
	laps.mark("quorum")
	if err := s.server.SetDurable(ctx); err != nil {
		return err
	}
	laps.mark("durable")
	// Before the first write, so that none is taken for an earlier one.
	s.open.Store(true)
	if err := s.server.SetWritable(ctx); err != nil {
		return err
	}
	laps.mark("writable")
	a.log.Info("Open for writes", append([]any{"requiredAcks", quorum.RequiredAcks, "generation", quorum.Generation}, laps.values()...)...)
	return nil
}

// forgetBound bounds forgetChannel: a receiver that is connecting ends within 2 s, the coordinator is killed.
const forgetBound = 20 * time.Second

// forgetChannel ends the applier of a new primary and deletes the channel with its relay logs, all of which is applied. It is
// no part of the opening, since it takes 20 to 50 ms. Where the relay log ends within a transaction the applier holds that one's
// locks until then.
func (a *Agent) forgetChannel(s *session) {
	ctx, cancel := context.WithTimeout(a.commands, forgetBound)
	defer cancel()
	started := time.Now()
	err := s.server.StopReceiver(ctx)
	if err == nil {
		err = s.server.StopApplier(ctx, true)
	}
	if err == nil {
		err = s.server.ResetReplica(ctx)
	}
	if err != nil {
		a.log.Info("Forgetting the former source failed; a later Promote or Follow does it", "reason", err.Error())
		return
	}
	a.log.Info("Forgot the former source", "took", time.Since(started).Round(time.Microsecond).String())
	a.poll()
}

// applyQuorum sets how many acknowledgements commits wait for, and ends streams to others than the members.
// To wait for none is refused while commits wait, since it would release them as if acknowledged.
func (a *Agent) applyQuorum(ctx context.Context, s *session, quorum agentapi.Quorum) error {
	if quorum.RequiredAcks == 0 {
		waiting, err := s.server.WaitSessions(ctx)
		if err != nil {
			return err
		}
		if waiting > 0 {
			return refuse(agentapi.ErrPrecondition, "%d commits wait for acknowledgement: switching semi-sync off would tell their clients OK", waiting)
		}
		if err := s.server.SetSourceAcks(ctx, 0); err != nil {
			return err
		}
		s.appliedQuorum.Store(quorum.Generation)
		return nil
	}
	// Foreign streams end first and again afterwards: what comes in between acknowledges under the former count. Only then is
	// the quorum in force, and the barrier counts.
	if _, err := s.server.EndForeignDumps(ctx, memberUUIDs(&quorum)); err != nil {
		return err
	}
	if err := s.server.SetSourceAcks(ctx, quorum.RequiredAcks); err != nil {
		return err
	}
	if _, err := s.server.EndForeignDumps(ctx, memberUUIDs(&quorum)); err != nil {
		return err
	}
	s.appliedQuorum.Store(quorum.Generation)
	return nil
}

// setQuorum stores the quorum; a primary waits by it, a replica acknowledges by it.
func (a *Agent) setQuorum(ctx context.Context, cmd agentapi.Command) error {
	st := a.state.get()
	if st.Quorum != nil && cmd.Quorum.Generation < st.Quorum.Generation {
		return refuse(agentapi.ErrPrecondition, "quorum.generation: %d is older than the known one, %d", cmd.Quorum.Generation, st.Quorum.Generation)
	}
	if st.Role != agentapi.RolePrimary {
		return a.setReplicaQuorum(ctx, cmd)
	}
	s, err := a.serving()
	if err != nil {
		return err
	}
	if err := a.persist(cmd, nil); err != nil {
		return err
	}
	if err := a.applyQuorum(ctx, s, *cmd.Quorum); err != nil {
		return fmt.Errorf("apply the quorum: %w", err)
	}
	return nil
}

// setReplicaQuorum stores the quorum first: a mysqld that does not run, or has no role yet, acknowledges nothing, and will
// follow by what is stored.
func (a *Agent) setReplicaQuorum(ctx context.Context, cmd agentapi.Command) error {
	if st := a.state.get(); st.Data != agentapi.DataReady {
		return refuse(agentapi.ErrPrecondition, "the data directory is %s", st.Data)
	}
	if err := a.persist(cmd, nil); err != nil {
		return err
	}
	if a.state.get().Role == agentapi.RoleNone {
		return nil
	}
	s, err := a.serving()
	if err != nil {
		switch a.hub.peek().Process.State {
		case agentapi.ProcessStopped, agentapi.ProcessStarting, agentapi.ProcessCrashed, agentapi.ProcessHeld:
			return nil
		default:
			return err
		}
	}
	return a.syncReplicaSemiSync(ctx, s, true)
}
