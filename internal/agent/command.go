package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// turnBound is how long a command waits for the one before it.
const turnBound = 5 * time.Second

// commandBound bounds the part of a command that its sender waits for.
const commandBound = 45 * time.Second

// decodeCommand reads a command; what is unknown or missing is refused by name.
func decodeCommand(body io.Reader) (agentapi.Command, error) {
	text, err := io.ReadAll(io.LimitReader(body, agentapi.MaxCommandBytes+1))
	if err != nil {
		return agentapi.Command{}, fmt.Errorf("read the command: %w", err)
	}
	if len(text) > agentapi.MaxCommandBytes {
		return agentapi.Command{}, fmt.Errorf("the command is longer than %d bytes", agentapi.MaxCommandBytes)
	}
	var cmd agentapi.Command
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&cmd); err != nil {
		return agentapi.Command{}, fmt.Errorf("decode the command: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return agentapi.Command{}, errors.New("decode the command: something follows it")
	}
	return cmd, checkCommand(cmd)
}

// needs says which fields a type of command cannot do without.
var needs = map[agentapi.CommandType]struct{ primary, donor, quorum bool }{
	agentapi.CommandInitialize: {},
	agentapi.CommandClone:      {donor: true},
	agentapi.CommandFollow:     {primary: true},
	agentapi.CommandPromote:    {quorum: true},
	agentapi.CommandSetQuorum:  {quorum: true},
	agentapi.CommandRestart:    {},
	agentapi.CommandDemote:     {},
	agentapi.CommandFence:      {},
	agentapi.CommandStart:      {},
	agentapi.CommandRebuild:    {donor: true},
}

func checkCommand(cmd agentapi.Command) error {
	need, known := needs[cmd.Type]
	switch {
	case !known:
		return fmt.Errorf("type: %q is not known; allowed are Initialize, Clone, Follow, Promote, SetQuorum, Restart, Demote, Fence, Start, Rebuild", cmd.Type)
	case cmd.ClusterID == "" || len(cmd.ClusterID) > 64:
		return errors.New("clusterID: 1 to 64 characters are allowed")
	case cmd.Epoch < 1:
		return fmt.Errorf("epoch: %d; allowed is 1 or more", cmd.Epoch)
	case cmd.OperationID == "" || len(cmd.OperationID) > 256:
		return errors.New("operationID: 1 to 256 characters are allowed")
	case need.primary && cmd.Primary == nil:
		return fmt.Errorf("primary: %s needs it", cmd.Type)
	case need.donor && cmd.Donor == nil:
		return fmt.Errorf("donor: %s needs it", cmd.Type)
	case need.quorum && cmd.Quorum == nil:
		return fmt.Errorf("quorum: %s needs it", cmd.Type)
	}
	return errors.Join(checkPeer("primary", cmd.Primary), checkPeer("donor", cmd.Donor), checkQuorum(cmd.Quorum))
}

func checkPeer(field string, p *agentapi.Peer) error {
	switch {
	case p == nil:
		return nil
	case p.Instance == "" || p.Host == "" || len(p.Host) > 255:
		return fmt.Errorf("%s: instance and host (at most 255 characters) are needed", field)
	case p.Port < 1 || p.Port > 65535:
		return fmt.Errorf("%s.port: %d; allowed is 1 to 65535", field, p.Port)
	}
	return nil
}

func checkQuorum(q *agentapi.Quorum) error {
	if q == nil {
		return nil
	}
	if q.RequiredAcks < 0 || int(q.RequiredAcks) > len(q.Members) {
		return fmt.Errorf("quorum.requiredAcks: %d; allowed is 0 to the number of members, %d", q.RequiredAcks, len(q.Members))
	}
	for i, m := range q.Members {
		if _, err := gtid.ParseUUID(m.ServerUUID); err != nil || m.Name == "" {
			return fmt.Errorf("quorum.members[%d]: name and serverUUID are needed", i)
		}
	}
	return nil
}

func refuse(code agentapi.ErrorCode, format string, args ...any) *agentapi.Error {
	return &agentapi.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Do carries out a command, or refuses it with an *agentapi.Error. Initialize, Clone, Rebuild and Restart run on after it returns.
// Errors leave the state as it was, except that a command may be persisted and then fail to be carried out
// (ErrInternal): sent again, it goes on.
func (a *Agent) Do(ctx context.Context, cmd agentapi.Command) error {
	// A sender that gives up does not stop a command half way.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandBound)
	defer cancel()
	defer context.AfterFunc(a.commands, cancel)()
	if !a.state.ready() {
		a.loadState()
	}
	if !a.state.ready() {
		return refuse(agentapi.ErrPrecondition, "%s", a.hub.peek().Data.Error)
	}
	if !a.turn.take(ctx, turnBound) {
		return a.busy(cmd)
	}
	kept := false
	var afterwards func()
	defer func() {
		switch {
		case afterwards != nil:
			go func() {
				defer a.turn.release()
				afterwards()
			}()
		case !kept:
			a.turn.release()
		}
	}()
	if err := a.admit(cmd); err != nil {
		a.log.Info("Refused a command", "type", cmd.Type, "operation", cmd.OperationID, "epoch", cmd.Epoch, "reason", err.Error())
		return err
	}
	var err error
	switch cmd.Type {
	case agentapi.CommandInitialize:
		kept, err = a.initialize(cmd)
	case agentapi.CommandClone:
		kept, err = a.clone(cmd)
	case agentapi.CommandRebuild:
		kept, err = a.rebuild(cmd)
	case agentapi.CommandRestart:
		kept, err = a.restart(cmd)
	case agentapi.CommandFollow:
		err = a.follow(ctx, cmd)
	case agentapi.CommandPromote:
		afterwards, err = a.promote(ctx, cmd)
	case agentapi.CommandSetQuorum:
		err = a.setQuorum(ctx, cmd)
	case agentapi.CommandDemote:
		afterwards, err = a.demote(ctx, cmd)
	case agentapi.CommandFence:
		err = a.fence(ctx, cmd)
	case agentapi.CommandStart:
		err = a.startHeld(cmd)
	}
	return a.conclude(ctx, cmd, err)
}

// conclude reports the state after a command, and gives its error a code.
func (a *Agent) conclude(ctx context.Context, cmd agentapi.Command, err error) error {
	a.reportState()
	if s := a.current(); s != nil {
		a.refresh(ctx, s)
	}
	if cmd.Type == agentapi.CommandPromote {
		a.accounts.poke()
	}
	a.poll()
	if err == nil {
		return nil
	}
	a.log.Info("A command was not carried out", "type", cmd.Type, "operation", cmd.OperationID, "epoch", cmd.Epoch, "reason", err.Error())
	var refusal *agentapi.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return refuse(agentapi.ErrInternal, "%v", err)
}

// busy answers a command that did not get its turn: the same long command, sent again, is simply under way.
func (a *Agent) busy(cmd agentapi.Command) error {
	if op := a.hub.peek().Operation; op != nil && op.Running {
		if op.ID == cmd.OperationID && op.Type == cmd.Type {
			return nil
		}
		return refuse(agentapi.ErrBusy, "%s (operation %s) is running", op.Type, op.ID)
	}
	return refuse(agentapi.ErrBusy, "another command is running")
}

// admit compares a command with the state: cluster, epoch, and that a primary is not talked out of its role sideways.
func (a *Agent) admit(cmd agentapi.Command) error {
	st := a.state.get()
	switch {
	case a.life.Err() != nil:
		return refuse(agentapi.ErrBusy, "the agent is shutting down")
	case st.ClusterID != "" && cmd.ClusterID != st.ClusterID:
		return refuse(agentapi.ErrWrongCluster, "this volume belongs to cluster %s, the command is for %s", st.ClusterID, cmd.ClusterID)
	case cmd.Epoch < st.Epoch:
		return refuse(agentapi.ErrStaleEpoch, "the command is of epoch %d, this instance knows %d", cmd.Epoch, st.Epoch)
	case cmd.Epoch > st.Epoch && st.Role == agentapi.RolePrimary && cmd.Type != agentapi.CommandPromote &&
		cmd.Type != agentapi.CommandFollow && cmd.Type != agentapi.CommandDemote && cmd.Type != agentapi.CommandStart &&
		cmd.Type != agentapi.CommandRebuild:
		return refuse(agentapi.ErrPrecondition, "this instance was primary in epoch %d; in epoch %d it must first be told its role by Promote, Follow or Demote (or started by Start, or rebuilt)", st.Epoch, cmd.Epoch)
	case cmd.Epoch == st.Epoch && st.primaryNow() != nil && cmd.Primary != nil && st.Primary.Instance != cmd.Primary.Instance:
		return refuse(agentapi.ErrPrecondition, "the primary of epoch %d is %s, the command names %s: a change needs a new epoch", st.Epoch, st.Primary.Instance, cmd.Primary.Instance)
	}
	return nil
}

// persist writes what a command says before it is acted on (INV-3).
func (a *Agent) persist(cmd agentapi.Command, change func(*state)) error {
	before := a.state.get()
	err := a.state.update(func(s *state) {
		s.ClusterID = cmd.ClusterID
		s.Epoch = max(s.Epoch, cmd.Epoch)
		// Where nobody is primary in the new epoch the last one that was stays known: it tells if the record is lost.
		if cmd.Primary != nil {
			s.Primary, s.PrimaryEpoch = cmd.Primary, s.Epoch
		}
		if cmd.Quorum != nil && (s.Quorum == nil || cmd.Quorum.Generation >= s.Quorum.Generation) {
			s.Quorum = cmd.Quorum
		}
		if change != nil {
			change(s)
		}
	})
	if err != nil {
		return err
	}
	after := a.state.get()
	if before.Epoch != after.Epoch || before.Role != after.Role {
		a.log.Info("Role and epoch", "epoch", after.Epoch, "role", after.Role, "operation", cmd.OperationID)
	}
	a.reportState()
	return nil
}

// serving returns the session that a command needs, or the refusal.
func (a *Agent) serving() (*session, error) {
	if st := a.state.get(); st.Data != agentapi.DataReady {
		return nil, refuse(agentapi.ErrPrecondition, "the data directory is %s", st.Data)
	}
	s := a.current()
	if s == nil {
		return nil, refuse(agentapi.ErrPrecondition, "mysqld is %s; it has no session with the agent now", a.hub.peek().Process.State)
	}
	return s, nil
}
