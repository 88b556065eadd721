package agent

import (
	"context"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// fence stops the receiver for good in an epoch in which nobody is primary yet: what this instance holds is final then, and
// what it has not received nobody can count on it for (INV-2). The applier goes on.
func (a *Agent) fence(ctx context.Context, cmd agentapi.Command) error {
	st := a.state.get()
	switch {
	case st.Role == agentapi.RolePrimary:
		return refuse(agentapi.ErrPrecondition, "this instance is the primary of epoch %d: it is to be demoted", st.Epoch)
	case cmd.Epoch == st.Epoch && st.primaryNow() != nil:
		return refuse(agentapi.ErrPrecondition, "epoch %d has a primary, %s: a fence needs a new epoch", st.Epoch, st.Primary.Instance)
	}
	if st.Fenced != cmd.Epoch {
		if err := a.persist(cmd, func(s *state) { s.Fenced = cmd.Epoch }); err != nil {
			return err
		}
	}
	s := a.current()
	if s == nil || !s.mayReceive.Load() {
		// A life that has no session yet boots without replication, and shows the fence from its first sample on.
		return nil
	}
	if err := s.server.HaltReceiver(ctx); err != nil {
		return err
	}
	s.mayReceive.Store(false)
	a.log.Info("Fenced", "epoch", cmd.Epoch, "operation", cmd.OperationID)
	return nil
}

// checkFence refuses what would make a fenced instance receive, or write, in the epoch of its fence.
func checkFence(st state, cmd agentapi.Command) error {
	if st.Fenced != 0 && st.Fenced == cmd.Epoch {
		return refuse(agentapi.ErrPrecondition, "this instance is fenced in epoch %d; %s needs a higher epoch", st.Fenced, cmd.Type)
	}
	return nil
}
