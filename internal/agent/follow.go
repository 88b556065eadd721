package agent

import (
	"context"
	"fmt"
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
	s, err := a.serving()
	if err != nil {
		return err
	}
	if err := a.persist(cmd, func(s *state) { s.Role = agentapi.RoleReplica }); err != nil {
		return err
	}
	if err := a.fence(ctx, s, a.cfg.FenceBound); err != nil {
		return err
	}
	if err := a.syncReplicaSemiSync(ctx, s, false); err != nil {
		return err
	}
	if err := a.pointAt(ctx, s, *cmd.Primary); err != nil {
		return err
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
		if channel.Receiver != "OFF" && channel.ApplierOn {
			return nil
		}
		return s.server.StartReplica(ctx)
	}
	if channel != nil {
		if err := a.drain(ctx, s, channel); err != nil {
			return err
		}
		if err := s.server.StopApplier(ctx, channel.Receiver != "ON"); err != nil {
			return err
		}
	}
	a.log.Info("Following", "primary", primary.Instance, "host", primary.Host)
	if err := s.server.ChangeSource(ctx, source); err != nil {
		return err
	}
	return s.server.StartReplica(ctx)
}

func (a *Agent) source(p agentapi.Peer) mysql.Source {
	return mysql.Source{Host: p.Host, Port: p.Port, CAFile: a.cfg.tlsFile(naming.FileCA),
		CertFile: a.cfg.tlsFile(naming.FileReplicationCert), KeyFile: a.cfg.tlsFile(naming.FileReplicationKey)}
}

// drain stops the receiver and waits until everything received is applied: what a relay log holds may have been
// acknowledged, and changing the source deletes it. It refuses, with the applier running on, when that takes too long.
func (a *Agent) drain(ctx context.Context, s *session, channel *mysql.Channel) error {
	if channel.Receiver != "OFF" {
		if err := s.server.StopReceiver(ctx); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(a.cfg.ApplyBound)
	started := false
	for {
		status, err := s.server.Status(ctx)
		if err != nil {
			return err
		}
		r := status.Replication
		if r == nil {
			return nil
		}
		left := r.Received.Subtract(status.GTIDExecuted)
		if left.IsEmpty() {
			return nil
		}
		if r.Applier != "ON" && !started {
			started = true
			if err := s.server.StartApplier(ctx); err != nil {
				return err
			}
		} else if r.ApplierErrno != 0 {
			return refuse(agentapi.ErrPrecondition, "the applier stopped at error %d (%s) with %d transactions received and not applied", r.ApplierErrno, r.ApplierError, left.Count())
		}
		if time.Now().After(deadline) {
			return refuse(agentapi.ErrPrecondition, "%d transactions are received and not applied yet; the applier goes on, try again", left.Count())
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the applier: %w", err)
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
	if !reconnect {
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
