package agent

import (
	"context"
	"errors"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/binlog"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// notCut begins the text of DataStatus.CutTail where there was a reason not to cut.
const notCut = "not cut: "

// mustHold says that mysqld is not to be started by the agent alone: what the primary's binary log holds without an
// acknowledgement becomes visible by a start, and then it can no longer be cut off should another one be promoted (INV-1).
func (a *Agent) mustHold() bool {
	st := a.state.get()
	return st.WasPrimary && st.Data == agentapi.DataReady && st.Quorum != nil && len(st.Quorum.Members) > 0
}

func (a *Agent) isHeld() bool { return a.hub.peek().Process.State == agentapi.ProcessHeld }

// startHeld starts a held mysqld as it is.
func (a *Agent) startHeld(cmd agentapi.Command) error {
	st := a.state.get()
	if st.Data != agentapi.DataReady {
		return refuse(agentapi.ErrPrecondition, "the data directory is %s", st.Data)
	}
	err := a.persist(cmd, func(s *state) {
		if cmd.Epoch > st.Epoch && s.Role == agentapi.RolePrimary {
			s.Role = agentapi.RoleNone // it was primary of another epoch
		}
	})
	if err != nil || !a.isHeld() {
		return err
	}
	a.log.Info("Starting the held mysqld as it is", "operation", cmd.OperationID)
	a.process.begin()
	return nil
}

// rejoin makes a held former primary ready to follow: it cuts off what was never acknowledged, and starts mysqld. It returns
// before mysqld runs; Follow, sent again, goes on then. A crash anywhere in between leaves it held, and the same is done again.
func (a *Agent) rejoin(cmd agentapi.Command) error {
	if err := a.persist(cmd, func(s *state) { s.Role, s.Fenced = agentapi.RoleReplica, 0 }); err != nil {
		return err
	}
	text, err := a.cutTail(cmd.PromotedGTIDSet)
	if errors.Is(err, binlog.ErrRefused) {
		text, err = notCut+err.Error(), nil
	}
	if err != nil {
		return err
	}
	if err := a.state.update(func(s *state) { s.CutTail = text }); err != nil {
		return err
	}
	a.log.Info("Starting the held mysqld to follow", "primary", cmd.Primary.Instance, "tail", text, "operation", cmd.OperationID)
	a.process.begin()
	return nil
}

// exonerate says whether a former primary may be taken for an ordinary replica from now on: its executed set, read before
// anything is received from the new primary, lies within the promoted set; or it was made read-only with nothing waiting.
func (a *Agent) exonerate(ctx context.Context, s *session, promoted *gtid.Set) (bool, error) {
	st := a.state.get()
	if !st.WasPrimary {
		return false, nil
	}
	if promoted == nil {
		return st.Settled, nil
	}
	status, err := s.server.Status(ctx)
	if err != nil {
		return false, err
	}
	within := *promoted
	if r := status.Replication; r != nil && st.Primary != nil && r.SourceHost == st.Primary.Host {
		within = within.Union(r.Received) // by an earlier Follow, from the same primary
	}
	if extra := status.GTIDExecuted.Subtract(within); !extra.IsEmpty() {
		a.log.Info("The former primary holds transactions that were not promoted", "gtids", extra.String())
		return false, nil
	}
	return true, nil
}
