package agent

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// stubbornAgent is an agent with a child that ends by SIGKILL alone and bounds that a test can wait for. Nobody has the turn.
func stubbornAgent(t *testing.T) (*Agent, *child) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Paths.State, cfg.Paths.Data = t.TempDir(), t.TempDir()
	cfg.ShutdownBound, cfg.FenceBound, cfg.StopBound = 2*releaseBound+time.Second, 100*time.Millisecond, 100*time.Millisecond
	a := New(cfg, testr.New(t))
	cmd := exec.Command("sh", "-c", `trap "" TERM; echo ready; while :; do read line; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // a read that never returns
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	c := &child{pid: cmd.Process.Pid, started: time.Now(), done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-c.done
	})
	a.process.child, a.process.wanted = c, true
	return a, c
}

// mustEnd fails the test when the shutdown leaves the child alive. What hangs is seen by the deadline of the test binary.
func mustEnd(t *testing.T, a *Agent, c *child) {
	t.Helper()
	a.shutdown()
	if c.alive() {
		t.Error("the agent ends and mysqld lives on")
	}
	a.process.begin()
	if a.process.wanted {
		t.Error("mysqld is wanted again after the shutdown")
	}
	select {
	case <-a.gone:
	default:
		t.Error("the streams go on")
	}
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	t.Run("mysqld ignores SIGTERM", func(t *testing.T) {
		t.Parallel()
		a, c := stubbornAgent(t)
		a.hub.update(func(d *agentapi.Status) { d.Process.State = agentapi.ProcessStarting }) // nobody has opened it: a clean shutdown is safe
		mustEnd(t, a, c)
	})
	t.Run("an operation never ends", func(t *testing.T) {
		t.Parallel()
		a, c := stubbornAgent(t)
		a.turn <- struct{}{}
		mustEnd(t, a, c)
	})
	t.Run("a Restart that is ending mysqld never ends", func(t *testing.T) {
		t.Parallel()
		a, c := stubbornAgent(t)
		a.turn <- struct{}{}
		a.hub.update(func(d *agentapi.Status) { d.Process.State = agentapi.ProcessStopping })
		mustEnd(t, a, c)
	})
	t.Run("a command is cut short", func(t *testing.T) {
		t.Parallel()
		a, c := stubbornAgent(t)
		a.turn <- struct{}{}
		cut := make(chan struct{})
		context.AfterFunc(a.commands, func() {
			close(cut)
			a.turn.release()
		})
		mustEnd(t, a, c)
		<-cut
	})
}

// TestShutdownFitsTheGracePeriod: what the parts may take adds up to less than the kubelet gives.
func TestShutdownFitsTheGracePeriod(t *testing.T) {
	c := DefaultConfig()
	if total := c.ShutdownBound + lastWords + serverShutdown; total+5*time.Second > agentapi.TerminationGrace {
		t.Errorf("the agent may take %s to end; Kubernetes kills after %s", total, agentapi.TerminationGrace)
	}
	// A primary that is idle when SIGTERM comes has its bounds in full; a command under way has some time left, too.
	if left := c.ShutdownBound - c.FenceBound - 2*releaseBound - c.StopBound; left < 10*time.Second {
		t.Errorf("a command under way has %s before it is cut short", left)
	}
}
