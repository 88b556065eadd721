package agent

import (
	"context"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/mysql"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// follow makes the instance a replica of cmd.Primary.
func (a *Agent) follow(ctx context.Context, cmd agentapi.Command) error {
	st := a.state.get()
	if cmd.Primary.Instance == a.cfg.Instance {
		return refuse(agentapi.ErrInvalid, "primary: an instance cannot follow itself")
	}
	if st.Role == agentapi.RolePrimary && cmd.Epoch == st.Epoch {
		return refuse(agentapi.ErrPrecondition, "this instance is the primary of epoch %d; it follows another only in a later epoch", st.Epoch)
	}
	if err := checkFence(st, cmd); err != nil {
		return err
	}
	if a.isHeld() && st.Data == agentapi.DataReady {
		return a.rejoin(cmd)
	}
	s, err := a.serving()
	if err != nil {
		return err
	}
	if err := a.persist(cmd, func(s *state) { s.Role, s.Fenced = agentapi.RoleReplica, 0 }); err != nil {
		return err
	}
	if err := a.endWrites(ctx, s, a.cfg.FenceBound); err != nil {
		return err
	}
	// Before anything comes from the new primary.
	innocent, err := a.exonerate(ctx, s, cmd.PromotedGTIDSet)
	if err != nil {
		return err
	}
	if err := a.syncReplicaSemiSync(ctx, s, false); err != nil {
		return err
	}
	if err := a.pointAt(ctx, s, *cmd.Primary); err != nil {
		return err
	}
	if innocent {
		if err := a.state.update(func(s *state) { s.WasPrimary, s.Settled = false, false }); err != nil {
			return err
		}
	}
	a.setConfirmed(true)
	return nil
}

// pointAt changes the source if it is another, and makes both threads run.
func (a *Agent) pointAt(ctx context.Context, s *session, primary agentapi.Peer) error {
	source := a.source(primary)
	channel, err := s.server.Channel(ctx)
	if err != nil {
		return err
	}
	if channel != nil && channel.Exact && channel.Source == source {
		if channel.Receiver != "OFF" && channel.ApplierOn && s.mayReceive.Load() {
			return nil
		}
		return a.startReplica(ctx, s, channel)
	}
	a.log.Info("Following", "primary", primary.Instance, "host", primary.Host)
	if channel != nil && channel.MovesTo(source) {
		moved, err := a.move(ctx, s, channel, source)
		if err != nil || moved {
			return err
		}
	}
	if channel != nil {
		if err := a.drain(ctx, s, channel); err != nil {
			return err
		}
		if err := s.server.StopReceiver(ctx); err != nil {
			return err
		}
		if err := s.server.StopApplier(ctx, channel.Receiver != "ON"); err != nil {
			return err
		}
	}
	if err := s.server.ChangeSource(ctx, source); err != nil {
		return err
	}
	return a.startReplica(ctx, s, nil)
}

// move changes the host of a channel while the applier goes on, so that nothing waits for what is received and not applied
// yet. It says whether it did: an applier that does not run, and cannot be started, is for drain to tell of.
func (a *Agent) move(ctx context.Context, s *session, channel *mysql.Channel, source mysql.Source) (bool, error) {
	if channel.Receiver != "OFF" {
		if err := s.server.StopReceiver(ctx); err != nil {
			return false, err
		}
		s.mayReceive.Store(false)
	}
	if !channel.ApplierOn {
		if err := s.server.StartApplier(ctx); err != nil {
			return false, err
		}
		now, err := s.server.Channel(ctx)
		if err != nil || now == nil || !now.ApplierOn {
			return false, err
		}
	}
	if err := s.server.MoveSource(ctx, source); err != nil {
		return false, err
	}
	return true, a.startReplica(ctx, s, nil)
}

// startReplica starts both threads; those that run already go on. A receiver that was halted may still be ending, and would
// not be started then.
func (a *Agent) startReplica(ctx context.Context, s *session, channel *mysql.Channel) error {
	if channel != nil && channel.Receiver != "OFF" && !s.mayReceive.Load() {
		if err := s.server.StopReceiver(ctx); err != nil {
			return err
		}
	}
	s.mayReceive.Store(true)
	return s.server.StartReplica(ctx)
}

func (a *Agent) source(p agentapi.Peer) mysql.Source {
	return mysql.Source{Host: p.Host, Port: p.Port, CAFile: a.cfg.tlsFile(naming.FileCA),
		CertFile: a.cfg.tlsFile(naming.FileReplicationCert), KeyFile: a.cfg.tlsFile(naming.FileReplicationKey)}
}

// applierPatience is how long one wait for the applier takes before its errors are looked for.
const applierPatience = 200 * time.Millisecond

// drain halts the receiver and waits until everything received is applied: what a relay log holds may have been
// acknowledged, and changing the source deletes it. It refuses, with the applier running on, when that takes too long.
func (a *Agent) drain(ctx context.Context, s *session, channel *mysql.Channel) error {
	if channel.Receiver != "OFF" {
		if err := s.server.HaltReceiver(ctx); err != nil {
			return err
		}
	}
	s.mayReceive.Store(false)
	deadline := time.Now().Add(a.cfg.ApplyBound)
	started := false
	for {
		p, err := s.server.Progress(ctx)
		if err != nil {
			return err
		}
		if p == nil || p.Left().IsEmpty() {
			return nil
		}
		if !p.ApplierOn && !started {
			started = true
			if err := s.server.StartApplier(ctx); err != nil {
				return err
			}
		} else if p.ApplierErrno != 0 {
			return refuse(agentapi.ErrPrecondition, "the applier stopped at error %d (%s) with %d transactions received and not applied", p.ApplierErrno, p.ApplierError, p.Left().Count())
		}
		left := time.Until(deadline)
		if left <= 0 {
			return refuse(agentapi.ErrPrecondition, "%d transactions are received and not applied yet; the applier goes on, try again", p.Left().Count())
		}
		if err := s.server.AwaitExecuted(ctx, p.Received, min(left, applierPatience)); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// syncReplicaSemiSync makes this replica acknowledge exactly if it is a member of the stored quorum, in this life of its
// data (INV-4). A receiver that runs is reconnected unless it runs as wanted: it keeps what it connected with, and the
// variable may have been set by an attempt that failed before the reconnect.
func (a *Agent) syncReplicaSemiSync(ctx context.Context, s *session, reconnect bool) error {
	want := a.isMember()
	have, err := s.server.ReplicaSemiSync(ctx)
	if err != nil {
		return err
	}
	if have != want {
		if err := s.server.SetReplicaSemiSync(ctx, want); err != nil {
			return err
		}
		a.log.Info("Replica semi-sync", "on", want)
	}
	channel, err := s.server.Channel(ctx)
	if err != nil || channel == nil || channel.Receiver == "OFF" {
		return err
	}
	status, err := s.server.Status(ctx)
	if err != nil {
		return err
	}
	if have == want && status.Replication != nil && status.Replication.SemiSyncActive == want {
		return nil
	}
	if err := s.server.StopReceiver(ctx); err != nil {
		return err
	}
	if !reconnect || !s.mayReceive.Load() {
		return nil // follow starts it
	}
	return s.server.StartReceiver(ctx)
}

// isMember says whether the stored quorum lists this instance with this server and incarnation.
func (a *Agent) isMember() bool {
	st, doc := a.state.get(), a.hub.peek()
	if st.Quorum == nil {
		return false
	}
	for _, m := range st.Quorum.Members {
		if m.Name == a.cfg.Instance && m.ServerUUID == doc.Data.ServerUUID && m.Incarnation == st.Incarnation {
			return true
		}
	}
	return false
}
