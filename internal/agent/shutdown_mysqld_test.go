//go:build mysql

package agent_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// TestStarvedShutdown: a primary without replicas gets SIGTERM while commits wait for acknowledgement. No client may hear
// OK; a clean shutdown of mysqld would tell them so.
func TestStarvedShutdown(t *testing.T) {
	c := agenttest.New(t, 2, agenttest.Options{Change: func(cfg *agent.Config) { cfg.FenceBound = 8 * time.Second }})
	c.StartAll()
	primary, replica := c.Instances[0], c.Instances[1]
	c.Bootstrap(1)
	db := primary.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, db, "INSERT INTO t VALUES (0)")
	replica.Terminate()

	const writers = 8
	outcomes := make(chan error, writers)
	var begun sync.WaitGroup
	for id := 1; id <= writers; id++ {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun.Add(1)
		go func() {
			begun.Done()
			_, err := conn.ExecContext(context.Background(), "INSERT INTO t VALUES (?)", id)
			outcomes <- err
		}()
	}
	begun.Wait()
	primary.Await("commits wait", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.WaitSessions > 0 })
	primary.Terminate()
	for range writers {
		select {
		case err := <-outcomes:
			if err == nil {
				t.Error("a client heard OK for a commit that no replica has")
			}
		case <-time.After(agenttest.Deadline):
			t.Fatal("a client hears nothing though mysqld has ended")
		}
	}

	// Both come back; what waited may be there, what was acknowledged must be.
	primary.Start()
	s := primary.StartHeld()
	if s.Confirmed || !s.Server.SuperReadOnly || s.Role != agentapi.RolePrimary {
		t.Fatalf("after the agent's restart: %+v", s)
	}
	replica.Start()
	replica.Await("serving", serving)
	replica.Follow(primary, nil)
	primary.Promote(primary.Status().Quorum)
	exec(t, db, "INSERT INTO t VALUES (100)")
	replica.Await("caught up", caughtUp(answering(t, primary).Server.GTIDExecuted))
}

// TestHealthyShutdown: every acknowledged row of a primary that is shut down under load is on its replica.
func TestHealthyShutdown(t *testing.T) {
	c := agenttest.New(t, 2, agenttest.Options{})
	c.StartAll()
	primary, replica := c.Instances[0], c.Instances[1]
	c.Bootstrap(1)
	db := primary.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)")
	acknowledged := make(chan int)
	var busy sync.WaitGroup
	busy.Add(4)
	for range 4 {
		go func() { acknowledged <- writeUntilRefused(db, &busy) }()
	}
	busy.Wait()
	started := time.Now()
	primary.Terminate()
	t.Logf("the shutdown took %s", time.Since(started))
	total := 0
	for range 4 {
		total += <-acknowledged
	}
	c.NextEpoch()
	replica.Promote(c.Quorum(20, 0))
	if n := countRows(t, replica.AppDB()); n < total {
		t.Fatalf("%d rows were acknowledged, the replica has %d", total, n)
	}
}

// writeUntilRefused counts acknowledged rows; it is busy after its tenth.
func writeUntilRefused(db *sql.DB, busy *sync.WaitGroup) int {
	for n := 0; ; n++ {
		if n == 10 {
			busy.Done()
		}
		if _, err := db.ExecContext(context.Background(), "INSERT INTO t VALUES ()"); err != nil {
			return n
		}
	}
}
