//go:build mysql

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// TestAgentKilled: a kill in the middle of making data is seen as Failed and can be tried again, mysqld dies with its
// agent, and the stream tells of mysqld's end at once.
func TestAgentKilled(t *testing.T) {
	c := agenttest.New(t, 1, agenttest.Options{Processes: true, Change: func(cfg *agent.Config) { cfg.Mysqld = neverInitialized(t, cfg) }})
	c.StartAll()
	i := c.Instances[0]
	if err := i.Send(c.Command(agentapi.CommandInitialize)); err != nil {
		t.Fatal(err)
	}
	i.Await("initializing", func(s agentapi.Status) bool {
		_, err := os.Stat(filepath.Join(i.Config.Paths.Data+".new", "ibdata1"))
		return s.Data.State == agentapi.DataInitializing && err == nil
	})
	i.KillAgent()
	i.Start()
	if s := i.Status(); s.Data.State != agentapi.DataFailed || s.Data.Error == "" || s.ClusterID == "" {
		t.Fatalf("after a kill in the middle: %+v", s.Data)
	}
	i.Initialize()
	i.Promote(c.Quorum(1, 0))

	t.Run("the stream tells of mysqld's end", func(t *testing.T) { testStream(t, i) })

	pid := i.Await("serving", serving).Process.PID
	i.KillAgent()
	deadline := time.Now().Add(agenttest.Deadline)
	for lives(t, pid) {
		if time.Now().After(deadline) {
			t.Fatal("mysqld lives on without its agent")
		}
		<-time.After(10 * time.Millisecond)
	}
	i.Start()
	s := i.Await("serving", serving)
	if s.Confirmed || s.Role != agentapi.RolePrimary || s.Epoch != 1 || !s.Server.SuperReadOnly {
		t.Errorf("after the agent's death: %+v", s)
	}
}

// neverInitialized returns a mysqld whose first initialization makes all files and never ends, however long the test takes to
// kill it: its statements are to come from a pipe that nobody writes to.
func neverInitialized(t *testing.T, cfg *agent.Config) string {
	t.Helper()
	text := fmt.Sprintf(`#!/bin/sh
case " $* " in
*" --initialize-insecure "*)
  if mkdir '%[1]s/begun' 2>/dev/null; then
    mkfifo '%[1]s/statements'
    exec '%[2]s' "$@" --init-file='%[1]s/statements'
  fi ;;
esac
exec '%[2]s' "$@"
`, cfg.Paths.Tmp, cfg.Mysqld)
	path := filepath.Join(filepath.Dir(cfg.Paths.Tmp), "mysqld")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// lives says whether a process runs. One that has ended counts as dead though nobody has asked for its exit code: where PID 1
// collects no orphans, it stays a zombie (proc_pid_stat(5): the state follows the name in parentheses).
func lives(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	return found && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// testStream reads documents over a crash: they are numbered one by one, and the exit is among them.
func testStream(t *testing.T, i *agenttest.Instance) {
	ctx, cancel := context.WithTimeout(t.Context(), agenttest.Deadline)
	defer cancel()
	var last uint64
	var killed time.Time
	pid, documents := 0, 0
	err := i.Stream(ctx, func(s agentapi.Status) {
		documents++
		if s.Sequence <= last {
			t.Errorf("sequence %d after %d", s.Sequence, last)
		}
		last = s.Sequence
		switch {
		case killed.IsZero() && documents >= 3: // heartbeats come without a change
			pid, killed = i.KillMysqld(), time.Now()
		case !killed.IsZero() && s.Process.State == agentapi.ProcessCrashed:
			t.Logf("the exit was known after %s: %s", time.Since(killed), s.Process.LastExit)
		case !killed.IsZero() && serving(s) && s.Process.PID != pid:
			cancel()
		}
	})
	if ctx.Err() == nil || killed.IsZero() || ctx.Err() == context.DeadlineExceeded {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestCloneFails: a donor that does not answer makes Failed, with the reason, and another attempt is possible.
func TestCloneFails(t *testing.T) {
	c := agenttest.New(t, 2, agenttest.Options{})
	c.StartAll()
	a, b := c.Instances[0], c.Instances[1]
	clone := c.Command(agentapi.CommandClone)
	clone.Donor = a.Peer() // nothing listens there yet
	if err := b.Send(clone); err != nil {
		t.Fatal(err)
	}
	s := b.Await("failed", func(s agentapi.Status) bool { return s.Data.State == agentapi.DataFailed })
	if s.Data.Error == "" || s.Operation == nil || s.Operation.Error == "" {
		t.Errorf("no reason: %+v %+v", s.Data, s.Operation)
	}
	t.Log(s.Data.Error)
	c.Bootstrap(1)

	t.Run("who is no member does not acknowledge", func(t *testing.T) {
		alone := &agentapi.Quorum{Generation: 30, RequiredAcks: 0}
		a.SetQuorum(alone)
		a.Await("still connected", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.Clients == 1 })
		b.SetQuorum(alone)
		a.Await("acknowledges no more", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.Clients == 0 })
		// The replica is a member by its own book, but not by the primary's: the primary ends its stream.
		mine := c.Quorum(31, 0, b)
		b.SetQuorum(mine)
		a.Await("it acknowledges", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.Clients == 1 })
		foreign := &agentapi.Quorum{Generation: 32, RequiredAcks: 1, Members: []agentapi.Member{{Name: "db-7", ServerUUID: "3e11fa47-71ca-11e1-9e33-c80aa9429562", Incarnation: "x"}}}
		a.SetQuorum(foreign)
		a.Await("its stream is ended", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.Clients == 0 })
		a.SetQuorum(c.Quorum(33, 1, b))
		a.Await("it is let in again", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.Clients == 1 })
		exec(t, a.AppDB(), "CREATE TABLE t (id INT PRIMARY KEY)")
	})
}

// TestLoginDeadlock: an account statement that waits for an acknowledgement locks out every login, the replica's too. The
// agent recognises it and ends it; afterwards everything goes on.
func TestLoginDeadlock(t *testing.T) {
	c := agenttest.New(t, 2, agenttest.Options{Change: func(cfg *agent.Config) { cfg.LoginBound = 4 * time.Second }})
	c.StartAll()
	a, b := c.Instances[0], c.Instances[1]
	c.Bootstrap(1)
	admin, err := a.DB("admin", "admin-Secret_1", "").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Terminate()
	outcome := make(chan error, 1)
	go func() {
		_, err := admin.ExecContext(context.Background(), "CREATE USER someone IDENTIFIED BY 'x'")
		outcome <- err
	}()
	a.Await("logins are seen to hang", func(s agentapi.Status) bool { return s.Process.LoginBlocked })
	if err := <-outcome; err == nil {
		t.Error("the account statement was acknowledged though no replica has it")
	}
	if s := a.StartHeld(); !s.Server.SuperReadOnly || s.Process.LoginBlocked {
		t.Errorf("after the kill: %+v", s)
	}
	b.Start()
	b.Await("serving", serving)
	b.Follow(a, nil)
	a.Promote(a.Status().Quorum)
	exec(t, a.AppDB(), "CREATE TABLE t (id INT PRIMARY KEY)")
}

// TestTornTail: the primary dies while it sends a large transaction. A replica is promoted without waiting a minute for its
// rest, and holds everything that was acknowledged; the other one, whose relay log is torn too, is moved to it.
func TestTornTail(t *testing.T) {
	c := agenttest.New(t, 3, agenttest.Options{Extra: map[string]string{"max_allowed_packet": "64M"}})
	c.StartAll()
	a, b, other := c.Instances[0], c.Instances[1], c.Instances[2]
	c.Bootstrap(1)
	db := a.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)")
	acknowledged := make(chan int, 1)
	go func() {
		for n := 0; ; n++ {
			if _, err := db.ExecContext(context.Background(), "INSERT INTO t (v) VALUES (REPEAT('x', 20000000)), (REPEAT('y', 20000000))"); err != nil {
				acknowledged <- n
				return
			}
		}
	}()
	b.Await("a few are through", func(s agentapi.Status) bool { return s.Server != nil && s.Server.GTIDExecuted.Count() > 12 })
	a.KillMysqld()
	n := <-acknowledged
	c.NextEpoch()
	var held [2]gtid.Set
	for k, i := range []*agenttest.Instance{b, other} {
		s, err := i.Ask(c.Command(agentapi.CommandFence))
		if err != nil || s.Server == nil {
			t.Fatalf("Fence: %v", err)
		}
		held[k] = s.Server.GTIDExecuted.Union(s.Server.Replication.Received)
	}
	if !held[0].Contains(held[1]) {
		b, other = other, b
	}
	c.NextEpoch()
	started := time.Now()
	b.Promote(c.Quorum(20, 0))
	t.Logf("promotion took %s", time.Since(started))
	other.Follow(b, nil)
	if rows := countRows(t, b.AppDB()); rows < 2*n || rows%2 != 0 {
		t.Errorf("%d transactions were acknowledged, the new primary has %d rows", n, rows)
	}
	if text := b.Status().Process.LastExit; strings.Contains(text, "killed") {
		t.Errorf("mysqld was killed on the way: %s", text)
	}
	exec(t, b.AppDB(), "INSERT INTO t (v) VALUES ('z')")
	other.Await("caught up", caughtUp(answering(t, b).Server.GTIDExecuted))
	if mine, theirs := countRows(t, other.AppDB()), countRows(t, b.AppDB()); mine != theirs {
		t.Errorf("the moved replica has %d rows, its primary %d", mine, theirs)
	}
}
