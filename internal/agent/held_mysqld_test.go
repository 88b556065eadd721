//go:build mysql

package agent_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// TestHeld: a primary with members does not come back by itself, however it ended; Start brings it back as it is.
func TestHeld(t *testing.T) {
	c := agenttest.New(t, 3, agenttest.Options{Processes: true})
	c.StartAll()
	a, b, other := c.Instances[0], c.Instances[1], c.Instances[2]
	c.Bootstrap(1)
	db := a.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")

	t.Run("a rapid crash loop", func(t *testing.T) {
		for range 3 {
			a.KillMysqld()
			killed := time.Now()
			s := a.StartHeld()
			t.Logf("it runs again %s after the kill", time.Since(killed))
			if !s.Server.SuperReadOnly || !s.Data.WasPrimary {
				t.Errorf("after Start: %+v %+v", s.Data, s.Server)
			}
		}
		if err := a.Send(c.Command(agentapi.CommandStart)); err != nil { // runs already
			t.Error(err)
		}
	})
	t.Run("the agent ends and starts", func(t *testing.T) {
		a.KillMysqld()
		a.AwaitHeld()
		started := time.Now()
		a.Terminate()
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("the agent took %s to end though mysqld did not run", took)
		}
		a.Start()
		if s := a.Status(); s.Process.State != agentapi.ProcessHeld || s.Process.PID != 0 || !s.Data.WasPrimary {
			t.Errorf("after the agent's restart: %+v %+v", s.Process, s.Data)
		}
		a.StartHeld()
		a.KillAgent()
		a.Start()
		a.AwaitHeld()
		a.StartHeld()
		a.Promote(a.Status().Quorum)
		exec(t, db, "INSERT INTO t VALUES (1)")
	})
	t.Run("a source that is frozen", func(t *testing.T) { testFrozen(t, c, a, b, other) })
	t.Run("no promoted set", func(t *testing.T) {
		// Start in a higher epoch takes the role.
		if s := a.StartHeld(); s.Role != agentapi.RoleNone || !s.Server.SuperReadOnly {
			t.Errorf("after Start in a higher epoch: %+v", s)
		}
		a.KillMysqld()
		a.AwaitHeld()
		a.Rejoin(b, nil, nil)
		s := a.Status()
		if !s.Data.WasPrimary || !strings.HasPrefix(s.Data.CutTail, "not cut: ") {
			t.Errorf("after Follow without a promoted set: %+v", s.Data)
		}
	})
}

// testFrozen fences replicas whose receivers connect to a primary that does not answer: nothing waits for their attempts.
func testFrozen(t *testing.T, c *agenttest.Cluster, a, b, other *agenttest.Instance) {
	b.Await("caught up", caughtUp(answering(t, a).Server.GTIDExecuted))
	pid := a.Status().Process.PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	connecting := func(s agentapi.Status) bool {
		return s.Server != nil && s.Server.Replication != nil && s.Server.Replication.Receiver == "CONNECTING"
	}
	c.NextEpoch()
	for _, i := range []*agenttest.Instance{b, other} {
		i.Await("it does not hear its source", connecting)
		cmd := c.Command(agentapi.CommandFence)
		started := time.Now()
		s, err := i.Ask(cmd)
		took := time.Since(started)
		if err != nil || s.Server == nil || s.Server.FencedEpoch != cmd.Epoch {
			t.Fatalf("Fence: %v, %+v", err, s.Server)
		}
		t.Logf("Fence with a frozen source took %s", took)
		if took > time.Second {
			t.Errorf("Fence waited %s for the receiver's attempt to connect", took)
		}
	}
	c.NextEpoch()
	promoted := answering(t, b).Server.GTIDExecuted
	quorum := c.Quorum(10, 1, other)
	started := time.Now()
	b.Promote(quorum)
	t.Logf("Promote took %s", time.Since(started))
	follow := c.Command(agentapi.CommandFollow)
	follow.Primary, follow.Quorum, follow.PromotedGTIDSet = b.Peer(), quorum, &promoted
	if err := other.Send(follow); err != nil {
		t.Fatal(err)
	}
	t.Logf("Follow ended %s after Promote was sent", time.Since(started))
	exec(t, b.AppDB(), "INSERT INTO t VALUES (2)")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.AwaitHeld()
}
