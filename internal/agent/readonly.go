package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/mysql"
)

// errStarved: commits wait for acknowledgement, so the primary cannot be made read-only.
var errStarved = errors.New("commits wait for acknowledgement")

// makeReadOnly tries, for the bound, to end all writing, and succeeds only when nothing waits for acknowledgement
// any more: a clean shutdown after that acknowledges nothing that is not replicated.
func (a *Agent) makeReadOnly(ctx context.Context, s *session, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	s.ending.Add(1)
	defer s.ending.Add(1)
	for {
		err := s.server.SetReadOnly(ctx)
		if err == nil {
			status, statusErr := s.server.Status(ctx)
			if statusErr == nil && status.SuperReadOnly && status.SemiSync.WaitSessions == 0 {
				return a.settled(s)
			}
			err = errors.Join(statusErr, errStarved)
		}
		if mysql.IsLockWait(err) {
			// Not every such wait is for an acknowledgement: LOCK TABLES or a long statement of a client does it too.
			_ = s.server.DisconnectClients(ctx)
		}
		if !s.child.alive() {
			return fmt.Errorf("make mysqld read-only: it ended: %w", err)
		}
		if pauseErr := pause(ctx, 50*time.Millisecond); pauseErr != nil {
			return fmt.Errorf("make mysqld read-only within %s: %w", bound, err)
		}
	}
}

// settled records that all that an open primary has written was acknowledged. A mysqld that was not open in this life may
// still hold what an earlier one left behind.
func (a *Agent) settled(s *session) error {
	if !s.open.Swap(false) {
		return nil
	}
	return a.state.update(func(s *state) { s.Settled = true })
}

// endWrites makes sure that this instance takes no writes, and that nobody stays connected who believes that it does, and
// then switches source semi-sync off: a replica's applier would wait with it on.
func (a *Agent) endWrites(ctx context.Context, s *session, bound time.Duration) error {
	status, err := s.server.Status(ctx)
	if err == nil && !s.open.Load() && status.SuperReadOnly && !status.SemiSync.SourceEnabled {
		return nil
	}
	if err := a.closeToWrites(ctx, s, bound); err != nil {
		return err
	}
	return s.server.SetSourceAcks(ctx, 0)
}

// closeToWrites ends writes and the sessions of clients. If it cannot be made read-only it is killed, never shut down while
// commits wait (INV-1); it is then held, or boots read-only. Once it has succeeded nothing waits, so nobody is released by
// switching semi-sync off.
func (a *Agent) closeToWrites(ctx context.Context, s *session, bound time.Duration) error {
	if err := a.makeReadOnly(ctx, s, bound); err != nil {
		a.process.kill("it could not be made read-only: " + err.Error())
		return fmt.Errorf("mysqld was killed, since it could not be made read-only (%w); send the command again", err)
	}
	return s.server.DisconnectClients(ctx)
}

// demote takes the role away. What it returns is to be done afterwards, within the same turn: mysqld's thread that takes
// acknowledgements in looks but once a second whether it is to end, and a switchover would wait for that.
func (a *Agent) demote(ctx context.Context, cmd agentapi.Command) (afterwards func(), err error) {
	if err := a.persist(cmd, func(s *state) { s.Role = agentapi.RoleNone }); err != nil {
		return nil, err
	}
	a.setConfirmed(false)
	s := a.current()
	if s == nil {
		// A mysqld that boots is read-only; one that runs without a session cannot be asked.
		if a.hub.peek().Process.State == agentapi.ProcessRunning {
			a.process.kill("it is to be demoted and does not answer")
		}
		return nil, nil
	}
	if err := a.closeToWrites(ctx, s, a.cfg.FenceBound); err != nil {
		a.log.Info("Demoted by killing mysqld", "reason", err.Error())
		return nil, nil
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnBound)
		defer cancel()
		if err := s.server.SetSourceAcks(ctx, 0); err != nil && s.child.alive() {
			a.log.Info("Source semi-sync stays on until the next command", "reason", err.Error())
		}
	}, nil
}
