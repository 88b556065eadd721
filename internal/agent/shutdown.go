package agent

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// stopReplicationBound is how long a replica may take to stop its threads before it is ended anyway.
const stopReplicationBound = 10 * time.Second

// cutPatience is how long a command that was cut short may take to notice.
const cutPatience = 2 * time.Second

// releaseBound is how long a primary waits for its replicas to be sent everything before it goes.
const releaseBound = 3 * time.Second

// shutdown ends what is under way, then mysqld, and lets the streams carry it. One deadline bounds all of it.
func (a *Agent) shutdown() {
	a.log.Info("Shutting down", "within", a.cfg.ShutdownBound.String())
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.ShutdownBound)
	defer cancel()
	a.process.retire()
	if a.settle(ctx) {
		a.stopMysqld(ctx, a.cfg.FenceBound)
	} else {
		// What is under way could open mysqld at any moment, so nothing proves that a clean shutdown releases no commit.
		a.stopKilled("what is under way does not end, and the agent must")
	}
	a.log.Info("mysqld has ended; the agent ends")
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	<-timer.C
	close(a.gone)
}

// settle takes the turn for good, so that no command and no operation works beside the shutdown; it says whether it could.
// It leaves the time that ending mysqld may need. An operation ends with life, a command when it is cut.
func (a *Agent) settle(ctx context.Context) bool {
	patience := a.cfg.ShutdownBound - a.cfg.FenceBound - 2*releaseBound - a.cfg.StopBound
	if a.turn.take(ctx, patience) {
		return true
	}
	a.log.Info("Cutting short what is under way")
	a.cutCommands()
	if a.turn.take(ctx, cutPatience) {
		return true
	}
	// A Restart that is ending mysqld does it by the same rule and has a bound of its own.
	return a.hub.peek().Process.State == agentapi.ProcessStopping && a.turn.take(ctx, a.cfg.StopBound)
}

// stopMysqld ends mysqld by the shutdown rule and returns when it has ended, killed where the deadline of ctx leaves no
// time. It does not start again until begin. It says whether nothing can be in the binary log without an acknowledgement.
//
// A clean shutdown switches semi-sync off and lets waiting commits through as OK. So SIGTERM needs a proof that nothing
// waits: super_read_only succeeded and no session waits. Without it mysqld is killed: what it had not acknowledged stays
// unacknowledged (INV-1).
func (a *Agent) stopMysqld(ctx context.Context, bound time.Duration) (clean bool) {
	s, starting := a.current(), a.hub.peek().Process.State == agentapi.ProcessStarting
	clean = a.prepareStop(ctx, s, starting, bound)
	c := a.process.halt()
	if c == nil {
		return false
	}
	if !clean {
		a.log.Info("Killing mysqld: a clean shutdown could acknowledge commits that no replica has", "pid", c.pid)
		c.signal(syscall.SIGKILL)
		<-c.done
		return false
	}
	a.log.Info("Stopping mysqld", "pid", c.pid)
	c.signal(syscall.SIGTERM)
	patience := a.cfg.StopBound
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline))
	}
	if !c.waitFor(patience) {
		a.log.Info("Killing mysqld: it did not end in time", "bound", patience.Round(time.Millisecond).String())
		c.signal(syscall.SIGKILL)
		<-c.done
	}
	return true
}

// prepareStop says whether mysqld may be shut down cleanly, after having made it so where that is possible.
func (a *Agent) prepareStop(ctx context.Context, s *session, starting bool, bound time.Duration) bool {
	if s == nil {
		// It boots read-only with semi-sync off; until the agent has a session nobody has opened it.
		return starting
	}
	status, err := s.server.Status(ctx)
	if err == nil && a.state.get().Role != agentapi.RolePrimary && status.SuperReadOnly && !status.SemiSync.SourceEnabled {
		a.stopReplication(ctx, s, status)
		return true
	}
	if err := a.makeReadOnly(ctx, s, bound); err != nil {
		a.log.Info("The primary could not be made read-only", "reason", err.Error())
		return false
	}
	a.releaseReplicas(ctx, s)
	return true
}

// releaseReplicas disconnects the replicas of a read-only primary once they have been sent everything: mysqld would wait
// eight seconds in its shutdown for them to go.
func (a *Agent) releaseReplicas(ctx context.Context, s *session) {
	waiting, cancel := context.WithTimeout(ctx, releaseBound)
	defer cancel()
	for {
		behind, err := s.server.BusyDumps(waiting)
		if err == nil && behind == 0 {
			break
		}
		if pause(waiting, 20*time.Millisecond) != nil {
			a.log.Info("Shutting down though replicas have not been sent everything", "replicas", behind)
			break
		}
	}
	ctx, cancelOffline := context.WithTimeout(ctx, releaseBound)
	defer cancelOffline()
	if err := s.server.SetOffline(ctx); err != nil {
		a.log.Info("Disconnecting the replicas failed", "reason", err.Error())
	}
}

// stopReplication stops both threads, so that mysqld does not wait a minute for the rest of a transaction.
func (a *Agent) stopReplication(ctx context.Context, s *session, status *agentapi.ServerStatus) {
	if status.Replication == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stopReplicationBound)
	defer cancel()
	if err := s.server.StopReceiver(ctx); err != nil {
		a.log.Info("Stopping the receiver failed", "reason", err.Error())
	}
	if err := s.server.StopApplier(ctx, status.Replication.Receiver != "ON"); err != nil {
		a.log.Info("Stopping the applier failed", "reason", err.Error())
	}
}

// restart ends mysqld by the shutdown rule and starts it again, read-only.
func (a *Agent) restart(cmd agentapi.Command) (kept bool, err error) {
	if st := a.state.get(); st.Data != agentapi.DataReady {
		return false, refuse(agentapi.ErrPrecondition, "the data directory is %s", st.Data)
	}
	if op := a.hub.peek().Operation; op != nil && op.ID == cmd.OperationID && op.Type == cmd.Type && op.Error == "" {
		return false, nil
	}
	if a.isHeld() {
		return false, refuse(agentapi.ErrPrecondition, "mysqld is %s: Start starts it as it is, Follow to let it rejoin", agentapi.ProcessHeld)
	}
	if at := a.hub.peek().Process.StartedAt; cmd.ProcessStartedAt != nil && (at == nil || !cmd.ProcessStartedAt.Equal(*at)) {
		return false, refuse(agentapi.ErrPrecondition, "processStartedAt: %s; another mysqld runs, or none", cmd.ProcessStartedAt.Format(time.RFC3339Nano))
	}
	if err := a.persist(cmd, nil); err != nil {
		return false, err
	}
	a.runOperation(cmd, func(ctx context.Context, progress func(string)) error {
		progress("stopping mysqld")
		if clean := a.stopMysqld(ctx, a.cfg.FenceBound); !clean && a.mustHold() {
			a.process.held()
			return errors.New("mysqld had to be killed: what it was writing may be unacknowledged, so it is held")
		}
		progress("starting mysqld")
		a.process.begin()
		_, err := a.awaitSession(ctx, nil)
		return err
	})
	return true, nil
}
