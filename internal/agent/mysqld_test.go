//go:build mysql

package agent_test

import (
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

func TestMain(m *testing.M) {
	agenttest.RunChild()
	os.Exit(m.Run())
}

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func countRows(t *testing.T, db *sql.DB) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// serving is a mysqld that runs and answers.
func serving(s agentapi.Status) bool {
	return s.Process.State == agentapi.ProcessRunning && s.Server != nil
}

// answering waits until mysqld answers, and returns that status: where it does not within two seconds, as on a busy machine, a
// status has no server.
func answering(t *testing.T, i *agenttest.Instance) agentapi.Status {
	t.Helper()
	return i.Await("mysqld answers", serving)
}

// caughtUp is a server that holds at least a set: statements for accounts may follow it at any time.
func caughtUp(want gtid.Set) func(agentapi.Status) bool {
	return func(s agentapi.Status) bool { return s.Server != nil && s.Server.GTIDExecuted.Contains(want) }
}

// TestLife follows a cluster of three from nothing over a crash of the primary to a failover.
func TestLife(t *testing.T) {
	c := agenttest.New(t, 3, agenttest.Options{})
	c.StartAll()
	a, b := c.Instances[0], c.Instances[1]
	c.Bootstrap(1)
	db := a.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	for id := range 50 {
		exec(t, db, "INSERT INTO t VALUES (?)", id)
	}
	quorum := a.Status().Quorum

	t.Run("the primary's mysqld is killed and resumes in the same epoch", func(t *testing.T) {
		a.KillMysqld()
		s := a.StartHeld()
		if !s.Server.SuperReadOnly || s.Process.Exits != 1 || s.Process.LastExit != "signal: killed" || s.Role != agentapi.RolePrimary {
			t.Fatalf("after the crash: %+v, server %+v", s.Process, s.Server)
		}
		started := time.Now()
		a.Promote(quorum)
		t.Logf("promotion after a restart took %s", time.Since(started))
		if n := countRows(t, db); n != 50 {
			t.Fatalf("%d rows of 50", n)
		}
		exec(t, db, "INSERT INTO t VALUES (50)")
	})

	t.Run("the same command again changes nothing", func(t *testing.T) {
		before := a.Await("accounts applied", func(s agentapi.Status) bool { return serving(s) && s.Server.AccountsApplied })
		a.Promote(quorum)
		b.Follow(a, quorum)
		after := answering(t, a)
		if after.Epoch != before.Epoch || !after.Server.GTIDExecuted.Equal(before.Server.GTIDExecuted) || after.Server.ReadOnly {
			t.Fatalf("before %+v, after %+v", before.Server, after.Server)
		}
	})

	t.Run("failover to another", func(t *testing.T) {
		c.NextEpoch()
		a.KillMysqld()
		next := c.Quorum(10, 1, a, c.Instances[2])
		started := time.Now()
		b.Promote(next)
		t.Logf("promotion of a replica took %s", time.Since(started))
		promoted := answering(t, b).Server.GTIDExecuted
		c.Instances[2].Follow(b, next)
		a.Rejoin(b, next, &promoted)
		db := b.AppDB()
		exec(t, db, "INSERT INTO t VALUES (51)")
		if n := countRows(t, db); n != 52 {
			t.Fatalf("%d rows of 52", n)
		}
		want := b.Await("accounts applied", func(s agentapi.Status) bool { return serving(s) && s.Server.AccountsApplied }).Server.GTIDExecuted
		for _, i := range []*agenttest.Instance{a, c.Instances[2]} {
			i.Await("caught up", caughtUp(want))
		}
	})
}
