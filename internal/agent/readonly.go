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

// endWrites makes sure that this instance takes no writes and nobody stays connected who believes that it does. If it cannot
// be made read-only it is killed, never shut down while commits wait (INV-1); it is then held, or boots read-only.
func (a *Agent) endWrites(ctx context.Context, s *session, bound time.Duration) error {
	status, err := s.server.Status(ctx)
	if err == nil && status.SuperReadOnly && !status.SemiSync.SourceEnabled {
		return nil
	}
	if err := a.makeReadOnly(ctx, s, bound); err != nil {
		a.process.kill("it could not be made read-only: " + err.Error())
		return fmt.Errorf("mysqld was killed, since it could not be made read-only (%w); send the command again", err)
	}
	// Read-only has succeeded and nothing waits: nobody is released by this. A replica's applier would wait with it on.
	if err := s.server.SetSourceAcks(ctx, 0); err != nil {
		return err
	}
	return s.server.DisconnectClients(ctx)
}

// demote takes the role away.
func (a *Agent) demote(ctx context.Context, cmd agentapi.Command) error {
	if err := a.persist(cmd, func(s *state) { s.Role = agentapi.RoleNone }); err != nil {
		return err
	}
	a.setConfirmed(false)
	s := a.current()
	if s == nil {
		// A mysqld that boots is read-only; one that runs without a session cannot be asked.
		if a.hub.peek().Process.State == agentapi.ProcessRunning {
			a.process.kill("it is to be demoted and does not answer")
		}
		return nil
	}
	if err := a.endWrites(ctx, s, a.cfg.FenceBound); err != nil {
		a.log.Info("Demoted by killing mysqld", "reason", err.Error())
	}
	return nil
}
