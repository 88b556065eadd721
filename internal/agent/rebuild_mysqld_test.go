//go:build mysql

package agent_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/agent"
	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// rebuildCluster is a primary with a table of three rows, and a replica that has caught up.
type rebuildCluster struct {
	c                *agenttest.Cluster
	primary, replica *agenttest.Instance
	// super may write on the replica, whatever that is told.
	super *sql.DB
}

// superUser is an account that no instance of a user has: it stands for a person who switches super_read_only off.
const superUser = "super"

// withSuperUser has each boot of mysqld make superUser, beside the agent's own account.
func withSuperUser(t *testing.T, opts agenttest.Options) agenttest.Options {
	t.Helper()
	bin, err := os.MkdirTemp("/tmp", "agent-bin") // mysqld's user must get there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(bin); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(bin, "mysqld")
	opts.Change = func(cfg *agent.Config) {
		boot := filepath.Join(cfg.Paths.Run, "boot.sql")
		script := fmt.Sprintf("#!/bin/sh\nfor argument; do\n  [ \"$argument\" != --initialize-insecure ] || exec %[1]s \"$@\"\ndone\n"+
			"cat >>%[2]s <<'E'\nCREATE USER IF NOT EXISTS %[3]s IDENTIFIED BY 'super-Secret_1';\nGRANT ALL ON *.* TO %[3]s;\nE\nexec %[1]s \"$@\"\n", cfg.Mysqld, boot, superUser)
		cfg.Mysqld = program + cfg.Instance
		if err := errors.Join(os.Chmod(bin, 0o755), os.WriteFile(cfg.Mysqld, []byte(script), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(agenttest.MysqlBin(t), "mysqlbinlog"), filepath.Join(bin, "mysqlbinlog")); err != nil {
		t.Fatal(err)
	}
	return opts
}

func newRebuildCluster(t *testing.T, opts agenttest.Options) *rebuildCluster {
	t.Helper()
	c := agenttest.New(t, 2, withSuperUser(t, opts))
	c.StartAll()
	c.Bootstrap(0)
	r := &rebuildCluster{c: c, primary: c.Instances[0], replica: c.Instances[1]}
	db := r.primary.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
	exec(t, db, "INSERT INTO t VALUES (1, ''), (2, ''), (3, '')")
	r.catchUp(t)
	r.super = r.replica.DB(superUser, "super-Secret_1", "app")
	return r
}

func (r *rebuildCluster) catchUp(t *testing.T) {
	t.Helper()
	applied := r.primary.Await("accounts applied", func(s agentapi.Status) bool { return serving(s) && s.Server.AccountsApplied })
	r.replica.Await("caught up", caughtUp(applied.Server.GTIDExecuted))
}

// write executes statements on the replica behind everybody's back, and returns what they became.
func (r *rebuildCluster) write(t *testing.T, statements ...string) gtid.Set {
	t.Helper()
	before := answering(t, r.replica).Server.GTIDExecuted
	conn, err := r.super.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, statement := range append([]string{"SET GLOBAL super_read_only = OFF"}, statements...) {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return answering(t, r.replica).Server.GTIDExecuted.Subtract(before)
}

func (r *rebuildCluster) command(quarantine *gtid.Set) agentapi.Command {
	cmd := r.c.Command(agentapi.CommandRebuild)
	cmd.Primary, cmd.Donor, cmd.Quarantine = r.primary.Peer(), r.primary.Peer(), quarantine
	return cmd
}

// run sends a Rebuild and waits for its end.
func (r *rebuildCluster) run(t *testing.T, cmd agentapi.Command) agentapi.Status {
	t.Helper()
	if err := r.replica.Send(cmd); err != nil {
		t.Fatal(err)
	}
	return r.replica.Await("Rebuild ends", func(s agentapi.Status) bool {
		return s.Operation != nil && s.Operation.ID == cmd.OperationID && !s.Operation.Running
	})
}

// checkRebuilt: another incarnation without role and past; it follows, and holds what the primary does.
func (r *rebuildCluster) checkRebuilt(t *testing.T, before, after agentapi.Status) {
	t.Helper()
	if after.Operation.Error != "" {
		t.Fatalf("Rebuild: %s", after.Operation.Error)
	}
	d := after.Data
	if d.State != agentapi.DataReady || d.Incarnation == before.Data.Incarnation || d.Incarnation == "" || d.ServerUUID == before.Data.ServerUUID ||
		d.WasPrimary || after.Role != agentapi.RoleNone || after.Process.State != agentapi.ProcessRunning {
		t.Errorf("before %+v; after %+v, role %q, %+v", before.Data, d, after.Role, after.Process)
	}
	r.replica.Follow(r.primary, nil)
	exec(t, r.primary.AppDB(), "INSERT INTO t SELECT MAX(id) + 1, '' FROM t")
	r.catchUp(t)
	if s := answering(t, r.replica); !s.Server.GTIDExecuted.Equal(answering(t, r.primary).Server.GTIDExecuted) {
		t.Errorf("the rebuilt one holds %s, the primary %s", s.Server.GTIDExecuted, answering(t, r.primary).Server.GTIDExecuted)
	}
	if got, want := countRows(t, r.replica.AppDB()), countRows(t, r.primary.AppDB()); got != want {
		t.Errorf("%d rows of %d", got, want)
	}
	remains, err := filepath.Glob(r.replica.Config.Paths.Data + ".*")
	if err != nil || len(remains) != 0 {
		t.Errorf("remains: %v, %v", remains, err)
	}
}

func (r *rebuildCluster) quarantined(t *testing.T, suffix string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.replica.Config.Paths.State, "quarantine", "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// checkFile: mysqlbinlog reads the file, and shows the transactions of the set and no other.
func checkFile(t *testing.T, path string, set gtid.Set) string {
	t.Helper()
	out, err := osexec.CommandContext(t.Context(), filepath.Join(agenttest.MysqlBin(t), "mysqlbinlog"), "--no-defaults", "--verify-binlog-checksum", path).CombinedOutput()
	if err != nil || bytes.Contains(bytes.ToLower(out), []byte("warning")) {
		t.Fatalf("mysqlbinlog: %v\n%s", err, out)
	}
	var shown gtid.Set
	for line := range strings.Lines(string(out)) {
		if text, is := strings.CutPrefix(line, "SET @@SESSION.GTID_NEXT= '"); is && !strings.HasPrefix(text, "AUTOMATIC") {
			one, _, _ := strings.Cut(text, "'")
			shown = shown.Union(gtid.MustParse(one))
		}
	}
	if !shown.Equal(set) {
		t.Errorf("%s holds %s, want %s\n%s", path, shown, set, out)
	}
	return string(out)
}

// TestRebuild: errant transactions of every kind, over several files, are saved, and the instance becomes a copy.
func TestRebuild(t *testing.T) {
	r := newRebuildCluster(t, agenttest.Options{})
	errant := r.write(t, "INSERT INTO t VALUES (100, 'errant')", "FLUSH BINARY LOGS", "SET gtid_next = 'AUTOMATIC:byhand'", "INSERT INTO t VALUES (101, 'tagged')",
		"SET gtid_next = AUTOMATIC", "CREATE TABLE lost (id INT)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "SET binlog_transaction_compression = ON",
		"INSERT INTO t VALUES (102, REPEAT('x', 100000))", "SET binlog_transaction_compression = OFF")
	exec(t, r.primary.AppDB(), "INSERT INTO t VALUES (4, '')")
	r.catchUp(t)
	before := answering(t, r.replica)

	t.Run("refused", func(t *testing.T) { testRebuildRefused(t, r, errant) })

	cmd := r.command(&errant)
	after := r.run(t, cmd)
	r.checkRebuilt(t, before, after)
	files := r.quarantined(t, ".binlog")
	if len(files) != 1 || !strings.Contains(after.Data.Quarantined, files[0]) || !strings.HasPrefix(after.Data.Quarantined, "4 transactions (") {
		t.Fatalf("files %v; the document says %q", files, after.Data.Quarantined)
	}
	replay := checkFile(t, files[0], errant)
	dump, err := os.ReadFile(strings.TrimSuffix(files[0], ".binlog") + ".sql")
	if err != nil || !bytes.Contains(dump, []byte("### INSERT INTO `app`.`t`")) || !bytes.Contains(dump, []byte("CREATE TABLE lost")) {
		t.Errorf("the dump: %v\n%s", err, dump)
	}

	t.Run("replay", func(t *testing.T) {
		// A person puts back what was saved: on the primary it is like any other transaction.
		client := osexec.CommandContext(t.Context(), filepath.Join(agenttest.MysqlBin(t), "mysql"), "--no-defaults", "--host="+r.primary.Host,
			"--port="+strconv.Itoa(r.primary.Config.Port), "--user="+superUser, "--ssl-mode=REQUIRED")
		client.Env = append(os.Environ(), "MYSQL_PWD=super-Secret_1")
		client.Stdin = strings.NewReader(replay)
		if out, err := client.CombinedOutput(); err != nil {
			t.Fatalf("replay: %v\n%s", err, out)
		}
		r.catchUp(t)
		if n := countRows(t, r.replica.AppDB()); n != countRows(t, r.primary.AppDB()) || n != 8 {
			t.Errorf("%d rows of 8 after the replay", n)
		}
	})
	t.Run("the same command again", func(t *testing.T) {
		pid := answering(t, r.replica).Process.PID
		if err := r.replica.Send(cmd); err != nil {
			t.Fatal(err)
		}
		s := answering(t, r.replica)
		if s.Operation.Running || s.Process.PID != pid || s.Data.Incarnation != after.Data.Incarnation || len(r.quarantined(t, ".binlog")) != 1 {
			t.Errorf("after the repetition: %+v %+v %+v", s.Operation, s.Process, s.Data)
		}
	})
}

// testRebuildRefused: whatever is refused, or cannot be saved, leaves everything as it is, mysqld included.
func testRebuildRefused(t *testing.T, r *rebuildCluster, errant gtid.Set) {
	before := answering(t, r.replica)
	self, foreign := r.command(nil), r.command(nil)
	self.Donor, foreign.ClusterID = r.replica.Peer(), "another"
	toPrimary := r.c.Command(agentapi.CommandRebuild)
	toPrimary.Donor = r.replica.Peer()
	for name, tc := range map[string]struct {
		to   *agenttest.Instance
		cmd  agentapi.Command
		code agentapi.ErrorCode
	}{
		"from itself":        {r.replica, self, agentapi.ErrInvalid},
		"of another cluster": {r.replica, foreign, agentapi.ErrWrongCluster},
		"of the primary":     {r.primary, toPrimary, agentapi.ErrPrecondition},
		"without donor":      {r.replica, r.c.Command(agentapi.CommandRebuild), agentapi.ErrInvalid},
	} {
		if err := tc.to.Send(tc.cmd); !agenttest.IsErrorCode(err, tc.code) {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	const never = "3e11fa47-71ca-11e1-9e33-c80aa9429562:7"
	more := errant.Union(gtid.MustParse(never))
	if s := r.run(t, r.command(&more)); !strings.Contains(s.Operation.Error, "1 transactions ("+never+")") || !strings.Contains(s.Operation.Error, "Nothing was destroyed") {
		t.Errorf("a transaction that is not there: %q", s.Operation.Error)
	}
	after := answering(t, r.replica)
	if after.Process.PID != before.Process.PID || after.Data != before.Data || len(r.quarantined(t, "")) != 0 || after.Role != agentapi.RoleReplica {
		t.Errorf("before %+v %+v; after %+v %+v", before.Process, before.Data, after.Process, after.Data)
	}
}

// TestRebuildPurged: what is purged cannot be saved, which is said; where nothing is to be saved, purged logs do not matter.
func TestRebuildPurged(t *testing.T) {
	r := newRebuildCluster(t, agenttest.Options{})
	errant := r.write(t, "INSERT INTO t VALUES (100, 'errant')", "FLUSH BINARY LOGS", "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
	before := answering(t, r.replica)
	if !before.Server.GTIDPurged.Contains(errant) {
		t.Fatalf("purged is %s, errant %s", before.Server.GTIDPurged, errant)
	}
	s := r.run(t, r.command(&errant))
	if !strings.Contains(s.Operation.Error, "purged") || !strings.Contains(s.Operation.Error, errant.String()) {
		t.Errorf("purged: %q", s.Operation.Error)
	}
	if s := answering(t, r.replica); s.Process.PID != before.Process.PID || s.Data != before.Data {
		t.Errorf("before %+v; after %+v", before.Data, s.Data)
	}
	// The manager never sends this one, since the errant transaction is known; that it is in no log is seen before the swap.
	s = r.run(t, r.command(nil))
	if !strings.Contains(s.Operation.Error, errant.String()) {
		t.Errorf("without a quarantine: %q", s.Operation.Error)
	}
	s = r.replica.Await("the old data is back", serving)
	if s.Data.Incarnation != before.Data.Incarnation || s.Data.ServerUUID != before.Data.ServerUUID || s.Data.State != agentapi.DataReady || countRows(t, r.replica.AppDB()) != 4 {
		t.Errorf("before %+v; after %+v", before.Data, s.Data)
	}
}

// TestRebuildBehind: a replica that needs what the primary has purged.
func TestRebuildBehind(t *testing.T) {
	r := newRebuildCluster(t, agenttest.Options{})
	before := answering(t, r.replica)
	r.replica.Terminate()
	exec(t, r.primary.AppDB(), "INSERT INTO t VALUES (4, '')")
	super := r.primary.DB(superUser, "super-Secret_1", "app")
	exec(t, super, "FLUSH BINARY LOGS")
	exec(t, super, "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
	r.replica.Start()
	answering(t, r.replica)
	after := r.run(t, r.command(nil))
	r.checkRebuilt(t, before, after)
	if after.Data.Quarantined != "" || len(r.quarantined(t, "")) != 0 {
		t.Errorf("nothing was to be saved: %q", after.Data.Quarantined)
	}
	t.Run("without room for both", func(t *testing.T) {
		// A file without content, larger than any volume's free space, is measured like one with content.
		before := answering(t, r.replica)
		path := filepath.Join(r.replica.Config.Paths.Data, "large")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 8<<40); err != nil {
			t.Fatal(err)
		}
		errant := r.write(t, "INSERT INTO t VALUES (200, 'errant')")
		after := r.run(t, r.command(&errant))
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the old directory's file: %v", err)
		}
		r.checkRebuilt(t, before, after)
		files := r.quarantined(t, ".binlog")
		if len(files) != 1 || !strings.Contains(after.Data.Quarantined, files[0]) {
			t.Fatalf("files %v; the document says %q", files, after.Data.Quarantined)
		}
		checkFile(t, files[0], errant)
	})
}

// TestRebuildHeld: a former primary is rebuilt without being started, and what it never got acknowledged is saved.
func TestRebuildHeld(t *testing.T) {
	c := agenttest.New(t, 3, agenttest.Options{})
	c.StartAll()
	c.Bootstrap(1)
	f := &failover{c: c, a: c.Instances[0], b: c.Instances[1], other: c.Instances[2]}
	db := f.a.AppDB()
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
	exec(t, db, "INSERT INTO t VALUES (1, '')")
	for _, i := range []*agenttest.Instance{f.b, f.other} {
		i.Await("caught up", caughtUp(answering(t, f.a).Server.GTIDExecuted))
	}
	c.NextEpoch()
	f.fence(t, f.b)
	f.fence(t, f.other)
	tail := f.starve(t, db)
	before := f.a.Status()
	killed := f.crash(t)
	c.NextEpoch()
	f.promote(t, killed)

	r := &rebuildCluster{c: c, primary: f.b, replica: f.a}
	after := r.run(t, r.command(nil))
	files := r.quarantined(t, ".binlog")
	if len(files) != 1 || !strings.Contains(after.Data.Quarantined, files[0]) {
		t.Fatalf("files %v; the document says %q, the operation %q", files, after.Data.Quarantined, after.Operation.Error)
	}
	checkFile(t, files[0], tail)
	if after.Process.Exits > before.Process.Exits+1 {
		t.Errorf("exits: %d, before the crash %d", after.Process.Exits, before.Process.Exits)
	}
	r.checkRebuilt(t, before, after)
}

// TestRebuildKilled kills the agent while the copy is being made: the old data comes back, and the next attempt succeeds.
func TestRebuildKilled(t *testing.T) {
	r := newRebuildCluster(t, agenttest.Options{Processes: true})
	errant := r.write(t, "INSERT INTO t VALUES (100, 'errant')")
	before := answering(t, r.replica)
	cmd := r.command(&errant)
	if err := r.replica.Send(cmd); err != nil {
		t.Fatal(err)
	}
	s := r.replica.Await("mysqld runs on what will be the copy", func(s agentapi.Status) bool {
		return s.Data.State == agentapi.DataCloning && s.Data.Incarnation != before.Data.Incarnation && s.Process.PID != 0
	})
	if s.Data.ServerUUID == before.Data.ServerUUID {
		t.Errorf("the copy is reported with the old server's UUID: %+v", s.Data)
	}
	r.replica.KillAgent()
	r.replica.Start()
	s = r.replica.Await("the old data is back", serving)
	if s.Data.Incarnation != before.Data.Incarnation || s.Data.ServerUUID != before.Data.ServerUUID || !s.Server.GTIDExecuted.Contains(errant) {
		t.Errorf("before %+v; after %+v", before.Data, s.Data)
	}
	r.checkRebuilt(t, before, r.run(t, cmd))
	if files := r.quarantined(t, ".binlog"); len(files) != 2 {
		t.Errorf("each attempt saves: %v", files)
	}
}
