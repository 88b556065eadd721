//go:build mysql

package agent_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// failover is a cluster of three in which a is lost, b is promoted, and c follows.
type failover struct {
	c           *agenttest.Cluster
	a, b, other *agenttest.Instance
}

func (f *failover) command(kind agentapi.CommandType, change func(*agentapi.Command)) agentapi.Command {
	cmd := f.c.Command(kind)
	if change != nil {
		change(&cmd)
	}
	return cmd
}

// TestFailover goes the manager's way with a primary that crashes while commits wait: fence, promote and follow at once, rejoin.
func TestFailover(t *testing.T) {
	c := agenttest.New(t, 3, agenttest.Options{Extra: map[string]string{"binlog_transaction_compression": "ON"}})
	c.StartAll()
	f := &failover{c: c, a: c.Instances[0], b: c.Instances[1], other: c.Instances[2]}
	c.Bootstrap(1)
	db := f.a.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
	exec(t, db, "INSERT INTO t VALUES (1, ''), (2, '')")
	for _, i := range []*agenttest.Instance{f.b, f.other} {
		i.Await("caught up", caughtUp(answering(t, f.a).Server.GTIDExecuted))
	}
	if err := f.a.Send(c.Command(agentapi.CommandFence)); !agenttest.IsErrorCode(err, agentapi.ErrPrecondition) {
		t.Errorf("Fence of a primary: %v", err)
	}
	release := f.blockApplier(t)
	exec(t, db, "INSERT INTO t VALUES (50, '')") // waits for the other's applier, which holds it as received
	exec(t, db, "INSERT INTO t VALUES (51, '')")

	c.NextEpoch()
	f.fence(t, f.b)
	f.fence(t, f.other)
	tail := f.starve(t, db)
	killed := f.crash(t)
	if err := f.b.Send(f.command(agentapi.CommandFollow, func(cmd *agentapi.Command) { cmd.Primary = f.other.Peer() })); !agenttest.IsErrorCode(err, agentapi.ErrPrecondition) {
		t.Errorf("Follow in the epoch of the fence: %v", err)
	}
	// As a manager that finds the old primary: it loses its role, and stays held.
	if err := f.a.Send(c.Command(agentapi.CommandDemote)); err != nil {
		t.Error(err)
	}

	c.NextEpoch()
	promoted := f.promote(t, killed)
	release()
	f.other.Await("what was received is applied", caughtUp(promoted))
	if n := countRows(t, f.other.AppDB()); n != 5 {
		t.Errorf("%d rows of 5 on the instance that was moved with unapplied transactions", n)
	}
	f.refusals(t)
	f.rejoin(t, promoted, tail)
}

// blockApplier makes the other's applier wait for a lock, until the returned function is called.
func (f *failover) blockApplier(t *testing.T) (release func()) {
	t.Helper()
	conn, err := f.other.AppDB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "LOCK TABLES t READ"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
			t.Error(err)
		}
	}
}

// fence fences an instance: the answer shows it already, and a second one finds nothing to do.
func (f *failover) fence(t *testing.T, i *agenttest.Instance) {
	t.Helper()
	cmd := f.c.Command(agentapi.CommandFence)
	for n := range 2 {
		started := time.Now()
		s, err := i.Ask(cmd)
		if err != nil {
			t.Fatalf("Fence: %v", err)
		}
		t.Logf("Fence %d of %s took %s", n+1, i.Config.Instance, time.Since(started))
		if s.Server == nil || s.Server.FencedEpoch != cmd.Epoch || s.Epoch != cmd.Epoch || s.PrimaryEpoch >= cmd.Epoch || s.Server.Replication.Receiver == "ON" {
			t.Errorf("the answer to Fence: %+v", s.Server)
		}
		if s.Server != nil && s.Server.Replication.Applier != "ON" {
			t.Error("Fence stopped the applier")
		}
	}
}

// starve makes commits wait on a for acknowledgements that do not come, and returns them.
func (f *failover) starve(t *testing.T, db *sql.DB) gtid.Set {
	t.Helper()
	before := answering(t, f.a).Server.GTIDExecuted
	var begun sync.WaitGroup
	for id := 100; id < 103; id++ {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun.Go(func() {
			go func() {
				if _, err := conn.ExecContext(context.Background(), "INSERT INTO t VALUES (?, REPEAT('x', 10000))", id); err == nil {
					t.Errorf("row %d was acknowledged though both replicas are fenced", id)
				}
			}()
		})
	}
	begun.Wait()
	s := f.a.Await("commits wait", func(s agentapi.Status) bool { return s.Server != nil && s.Server.GTIDOwned.Count() == 3 })
	if !s.Server.GTIDExecuted.Intersect(s.Server.GTIDOwned).IsEmpty() || !before.Intersect(s.Server.GTIDOwned).IsEmpty() {
		t.Errorf("what waits is executed: %s of %s", s.Server.GTIDOwned, s.Server.GTIDExecuted)
	}
	return s.Server.GTIDOwned
}

// crash kills a's mysqld, and sees on the stream that it is held at once.
func (f *failover) crash(t *testing.T) (killed time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), agenttest.Deadline)
	defer cancel()
	err := f.a.Stream(ctx, func(s agentapi.Status) {
		switch {
		case killed.IsZero():
			f.a.KillMysqld()
			killed = time.Now()
		case s.Process.State == agentapi.ProcessHeld:
			t.Logf("held was known after %s", time.Since(killed))
			if s.Process.LastExit != "signal: killed" || !s.Data.WasPrimary || s.Server != nil {
				t.Errorf("held: %+v %+v", s.Process, s.Data)
			}
			cancel()
		case s.Process.State == agentapi.ProcessCrashed || s.Process.State == agentapi.ProcessStarting:
			t.Errorf("mysqld is %s", s.Process.State)
		}
	})
	if ctx.Err() != context.Canceled {
		t.Fatalf("the stream: %v", err)
	}
	return killed
}

// promote promotes b and lets the other follow at the same time; a write is acknowledged by it. It returns b's set at its
// opening.
func (f *failover) promote(t *testing.T, killed time.Time) gtid.Set {
	t.Helper()
	quorum := f.c.Quorum(10, 1, f.other)
	s := answering(t, f.b)
	promoted := s.Server.GTIDExecuted.Union(s.Server.Replication.Received)
	promote := f.command(agentapi.CommandPromote, func(cmd *agentapi.Command) {
		cmd.Quorum, cmd.Primary, cmd.ProcessStartedAt = quorum, f.b.Peer(), s.Process.StartedAt
	})
	follow := f.command(agentapi.CommandFollow, func(cmd *agentapi.Command) {
		cmd.Quorum, cmd.Primary, cmd.PromotedGTIDSet = quorum, f.b.Peer(), &promoted
	})
	late := promote
	wrongLife := promote.ProcessStartedAt.Add(time.Second)
	late.ProcessStartedAt = &wrongLife
	if err := f.b.Send(late); !agenttest.IsErrorCode(err, agentapi.ErrPrecondition) {
		t.Errorf("Promote of another life: %v", err)
	}
	started := time.Now()
	var both sync.WaitGroup
	for i, cmd := range map[*agenttest.Instance]agentapi.Command{f.b: promote, f.other: follow} {
		both.Go(func() {
			if _, err := i.Ask(cmd); err != nil {
				t.Errorf("%s: %v", cmd.Type, err)
			}
			t.Logf("%s took %s", cmd.Type, time.Since(started))
		})
	}
	both.Wait()
	exec(t, f.b.AppDB(), "INSERT INTO t VALUES (60, '')")
	t.Logf("the first acknowledged write came %s after Promote was sent, %s after the kill", time.Since(started), time.Since(killed))
	again, err := f.b.Ask(promote)
	if err != nil || !again.Confirmed || again.Server == nil || again.Server.ReadOnly || again.Server.FencedEpoch != 0 {
		t.Errorf("Promote again: %v, %+v", err, again.Server)
	}
	f.b.Await("the former source is forgotten", func(s agentapi.Status) bool { return s.Server != nil && s.Server.Replication == nil })
	return promoted
}

// refusals: what is late, or for an instance that is not there, changes nothing.
func (f *failover) refusals(t *testing.T) {
	t.Helper()
	stale := f.command(agentapi.CommandFence, func(cmd *agentapi.Command) { cmd.Epoch-- })
	foreign := f.command(agentapi.CommandPromote, func(cmd *agentapi.Command) { cmd.ClusterID, cmd.Quorum = "another", f.c.Quorum(20, 0) })
	for name, tc := range map[string]struct {
		to   *agenttest.Instance
		cmd  agentapi.Command
		code agentapi.ErrorCode
	}{
		"late Fence":            {f.other, stale, agentapi.ErrStaleEpoch},
		"late Fence of primary": {f.b, stale, agentapi.ErrStaleEpoch},
		"Fence with a primary":  {f.other, f.c.Command(agentapi.CommandFence), agentapi.ErrPrecondition},
		"Promote of another":    {f.other, foreign, agentapi.ErrWrongCluster},
		"Promote of the held": {f.a, f.command(agentapi.CommandPromote, func(cmd *agentapi.Command) { cmd.Quorum = f.c.Quorum(20, 0) }),
			agentapi.ErrPrecondition},
		"Restart of the held": {f.a, f.c.Command(agentapi.CommandRestart), agentapi.ErrPrecondition},
	} {
		if err := tc.to.Send(tc.cmd); !agenttest.IsErrorCode(err, tc.code) {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	if s := f.a.Status(); s.Process.State != agentapi.ProcessHeld {
		t.Errorf("the former primary is %s", s.Process.State)
	}
	exec(t, f.b.AppDB(), "INSERT INTO t VALUES (61, '')")
}

// rejoin lets a follow: its tail is saved and cut, and it becomes a replica like any other.
func (f *failover) rejoin(t *testing.T, promoted, tail gtid.Set) {
	t.Helper()
	started := time.Now()
	f.a.Rejoin(f.b, nil, &promoted)
	t.Logf("the former primary rejoined in %s", time.Since(started))
	s := f.a.Await("caught up", caughtUp(answering(t, f.b).Server.GTIDExecuted))
	if s.Data.WasPrimary || !s.Server.GTIDExecuted.Intersect(tail).IsEmpty() {
		t.Errorf("after the cut: %+v, executed %s, tail %s", s.Data, s.Server.GTIDExecuted, tail)
	}
	if n := countRows(t, f.a.AppDB()); n != 6 {
		t.Errorf("%d rows of 6", n)
	}
	files, err := filepath.Glob(filepath.Join(f.a.Config.Paths.State, "tails", "*"))
	if err != nil || len(files) != 1 || !strings.Contains(s.Data.CutTail, files[0]) || !strings.Contains(s.Data.CutTail, "3 transactions") {
		t.Fatalf("tails %v, %v; the document says %q", files, err, s.Data.CutTail)
	}
	out, err := osexec.CommandContext(t.Context(), filepath.Join(agenttest.MysqlBin(t), "mysqlbinlog"), "--no-defaults", "--verify-binlog-checksum", files[0]).CombinedOutput()
	if n := bytes.Count(out, []byte("SET @@SESSION.GTID_NEXT= '"+tail.UUIDs()[0].String())); err != nil || n != 3 {
		t.Errorf("mysqlbinlog shows %d transactions, %v:\n%s", n, err, out)
	}
	// From now on it is a replica, which comes back by itself.
	pid := f.a.KillMysqld()
	f.a.Await("mysqld is back", func(s agentapi.Status) bool { return serving(s) && s.Process.PID != pid })
	f.resume(t)
}

// resume lets b's mysqld crash with nothing waiting: its binary log stays as it is.
func (f *failover) resume(t *testing.T) {
	t.Helper()
	promoted := answering(t, f.b).Server.GTIDExecuted
	f.b.Await("accounts applied", func(s agentapi.Status) bool {
		promoted = s.Server.GTIDExecuted
		return s.Server.AccountsApplied
	})
	f.b.KillMysqld()
	f.b.AwaitHeld()
	before := lastBinlog(t, f.b)
	f.c.NextEpoch()
	f.b.Rejoin(f.other, nil, &promoted)
	if s := f.b.Status(); s.Data.WasPrimary || s.Data.CutTail != "" {
		t.Errorf("after a crash with nothing to cut: %+v", s.Data)
	}
	after, err := os.ReadFile(before.path)
	if err != nil {
		t.Fatal(err)
	}
	const inUse = 4 + 17 // mysqld itself unmarks the file
	after[inUse] = before.content[inUse]
	if !bytes.Equal(after, before.content) {
		t.Errorf("the binary log was changed: %d bytes became %d", len(before.content), len(after))
	}
}

type binlogFile struct {
	path    string
	content []byte
}

// lastBinlog reads an instance's newest binary log file.
func lastBinlog(t *testing.T, i *agenttest.Instance) binlogFile {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(i.Config.Paths.Data, "binlog.0*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("binary logs: %v, %v", files, err)
	}
	path := files[len(files)-1]
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return binlogFile{path, content}
}
