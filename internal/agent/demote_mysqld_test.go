//go:build mysql

package agent_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// TestDemoteUnderLoad: what a demoted primary shows is final, and switching semi-sync off, for which mysqld takes up to a
// second, comes after the answer and before the next command.
func TestDemoteUnderLoad(t *testing.T) {
	c := agenttest.New(t, 2, agenttest.Options{})
	c.StartAll()
	primary, replica := c.Instances[0], c.Instances[1]
	c.Bootstrap(1)
	db := primary.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)")
	var busy, running sync.WaitGroup
	total := make(chan int, 4)
	busy.Add(4)
	for range 4 {
		running.Go(func() { total <- writeUntilRefused(db, &busy) })
	}
	busy.Wait()
	c.NextEpoch()
	began := time.Now()
	demoted, err := primary.Ask(c.Command(agentapi.CommandDemote))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the answer took %s", time.Since(began))
	if s := demoted.Server; s == nil || !s.SuperReadOnly || s.SemiSync.WaitSessions != 0 {
		t.Fatalf("the answer shows no end of writes: %+v", s)
	}
	running.Wait()
	if now := answering(t, primary); !now.Server.GTIDExecuted.Equal(demoted.Server.GTIDExecuted) {
		t.Errorf("after the answer it executed %s", now.Server.GTIDExecuted.Subtract(demoted.Server.GTIDExecuted))
	}
	primary.Await("semi-sync is off", func(s agentapi.Status) bool { return s.Server != nil && !s.Server.SemiSync.SourceEnabled })
	replica.Await("holds all", caughtUp(demoted.Server.GTIDExecuted))
	close(total)
	sum := 0
	for n := range total {
		sum += n
	}
	c.NextEpoch()
	replica.Promote(c.Quorum(20, 0))
	if n := countRows(t, replica.AppDB()); n < sum {
		t.Errorf("%d rows were acknowledged, the new primary has %d", sum, n)
	}
}

// TestStarvedDemoteShowsNoEnd: while commits wait for acknowledgement mysqld's variable says read-only already, the status
// must not: a switchover takes what it shows then for final.
func TestStarvedDemoteShowsNoEnd(t *testing.T) {
	c := agenttest.New(t, 2, agenttest.Options{Change: func(cfg *agent.Config) { cfg.FenceBound = 4 * time.Second }})
	c.StartAll()
	primary, replica := c.Instances[0], c.Instances[1]
	c.Bootstrap(1)
	db := primary.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)")
	replica.Terminate()
	released := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(context.Background(), "INSERT INTO t VALUES ()")
		released <- err
	}()
	primary.Await("a commit waits", func(s agentapi.Status) bool { return s.Server != nil && s.Server.SemiSync.WaitSessions > 0 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pid, seen := primary.Status().Process.PID, 0
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = primary.Stream(ctx, func(s agentapi.Status) {
			if s.Server == nil || s.Process.PID != pid {
				return
			}
			if seen++; s.Server.SuperReadOnly || s.Server.ReadOnly {
				t.Errorf("read-only with %d commits that wait", s.Server.SemiSync.WaitSessions)
			}
		})
	}()
	c.NextEpoch()
	if err := primary.Send(c.Command(agentapi.CommandDemote)); err != nil {
		t.Fatal(err)
	}
	if err := <-released; err == nil {
		t.Error("the commit was acknowledged")
	}
	cancel()
	<-watched
	if seen < 2 {
		t.Errorf("%d documents were seen", seen)
	}
}

// TestAskersThatGiveUp: a request for the status that is given up is no evidence against mysqld.
func TestAskersThatGiveUp(t *testing.T) {
	c := agenttest.New(t, 1, agenttest.Options{})
	c.StartAll()
	i := c.Instances[0]
	c.Bootstrap(0)
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = i.Stream(ctx, func(s agentapi.Status) {
			if s.Server == nil || s.Process.UnresponsiveSince != nil {
				t.Errorf("mysqld seems unresponsive since %s", s.Process.UnresponsiveSince)
			}
		})
	}()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.CA.ClientTLS(naming.CertCNManager), DisableKeepAlives: true}}
	for n := range 60 {
		asking, giveUp := context.WithTimeout(ctx, 2*time.Millisecond+time.Duration(n)*200*time.Microsecond)
		req, err := http.NewRequestWithContext(asking, http.MethodGet, "https://"+i.Config.APIAddress+agentapi.PathStatus, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
		giveUp()
	}
	cancel()
	<-watched
}
