//go:build mysql

package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// TestCommitWaitsForOneThatHasItAlready: the only replica received a commit before it was a member. Made one, it has nothing
// left to acknowledge; the commit is released all the same, though no client writes anything more.
func TestCommitWaitsForOneThatHasItAlready(t *testing.T) {
	c := agenttest.New(t, 2, agenttest.Options{})
	c.StartAll()
	a, b := c.Instances[0], c.Instances[1]
	c.Bootstrap(1)
	db := a.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	// b goes on receiving, as no member.
	without := c.Quorum(10, 1, a)
	b.SetQuorum(without)
	b.Await("it acknowledges no longer", func(s agentapi.Status) bool {
		return s.Server != nil && s.Server.Replication != nil && s.Server.Replication.Receiver == "ON" && !s.Server.Replication.SemiSyncActive
	})
	released := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), agenttest.Deadline)
		defer cancel()
		_, err := db.ExecContext(ctx, "INSERT INTO t VALUES (1)")
		released <- err
	}()
	waits := a.Await("the commit waits", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.WaitSessions == 1 })
	b.Await("it has received what waits", func(s agentapi.Status) bool {
		return s.Server != nil && s.Server.Replication != nil && s.Server.Replication.Received.Contains(waits.Server.GTIDOwned)
	})
	began := time.Now()
	b.SetQuorum(c.Quorum(11, 1, b))
	if err := <-released; err != nil {
		t.Fatalf("the commit was not released: %v", err)
	}
	t.Logf("released %s after the replica was made a member", time.Since(began).Round(time.Millisecond))
}
