//go:build mysql

package binlog

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// serverDeadline is generous: the machine may be busy, and nothing waits for it when all is well.
const serverDeadline = 2 * time.Minute

// server is a mysqld whose commits wait for an acknowledgement that nobody gives, once semi-sync is on.
type server struct {
	// t is the test that runs now, whole the one at whose end everything ends.
	t, whole  *testing.T
	bin, dir  string
	arguments []string
	process   *exec.Cmd
	db        *sql.DB
	// probe is a session that is there already: an account statement that waits locks out new ones.
	probe *sql.Conn
}

func newServer(t *testing.T) *server {
	bin := os.Getenv("PORPOISE_MYSQL_BIN")
	if bin == "" {
		t.Fatal("PORPOISE_MYSQL_BIN is not set: it is the directory with mysqld; run `make test-mysql`, or `make deps` to get one")
	}
	dir, err := os.MkdirTemp("", "binlog") // a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &server{t: t, whole: t, bin: bin, dir: dir, arguments: []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"),
		"--log-error=" + filepath.Join(dir, "log"), "--secure-file-priv=NULL", "--innodb-redo-log-capacity=33554432", "--innodb-buffer-pool-size=33554432",
		"--log-bin=binlog", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--server-id=1"}}
	if os.Geteuid() == 0 {
		s.arguments = append(s.arguments, "--user=root")
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "mysqld"), append(s.arguments, "--initialize-insecure")...).CombinedOutput(); err != nil {
		t.Fatalf("initialize mysqld: %v\n%s%s", err, out, s.log())
	}
	s.arguments = append(s.arguments, "--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--skip-networking", "--mysqlx=OFF",
		"--plugin-load-add=semisync_source.so", "--rpl-semi-sync-source-timeout=99999999999", "--rpl-semi-sync-source-wait-no-replica=ON")
	s.start()
	return s
}

func (s *server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(filepath.Join(s.bin, "mysqld"), s.arguments...)
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	process := s.process
	s.whole.Cleanup(func() { _ = process.Process.Kill() })
	db, err := sql.Open("mysql", "root@unix("+filepath.Join(s.dir, "s")+")/?multiStatements=true")
	if err != nil {
		s.t.Fatal(err)
	}
	s.db = db
	s.whole.Cleanup(func() { _ = db.Close() })
	s.await("mysqld answers", func() bool {
		s.probe, err = db.Conn(s.whole.Context())
		return err == nil
	})
}

// kill ends mysqld as a crash does, and waits for its end.
func (s *server) kill() {
	s.t.Helper()
	if err := s.process.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.process.Wait() // "signal: killed" is what is wanted
}

func (s *server) await(what string, condition func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(serverDeadline); !condition(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain: %s\n%s", what, s.log())
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (s *server) exec(statement string) {
	s.t.Helper()
	if _, err := s.probe.ExecContext(s.t.Context(), statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

func (s *server) get(query string) string {
	s.t.Helper()
	var text string
	if err := s.probe.QueryRowContext(s.t.Context(), query).Scan(&text); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return text
}

func (s *server) executed() gtid.Set { return gtid.MustParse(s.get("SELECT @@GLOBAL.gtid_executed")) }

// TestCutAgainstServer crashes a primary with commits that wait for acknowledgement, of every kind, cuts them off, and sees
// that mysqld knows nothing of them afterwards.
func TestCutAgainstServer(t *testing.T) {
	s := newServer(t)
	s.exec("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT); INSERT INTO d.t VALUES (1, 'acknowledged')")
	s.exec("SET gtid_next = 'AUTOMATIC:early'; INSERT INTO d.t VALUES (2, 'tagged'); SET gtid_next = AUTOMATIC; FLUSH BINARY LOGS")
	s.exec("SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:early:7'; INSERT INTO d.t VALUES (3, 'of another'); SET gtid_next = AUTOMATIC")
	for name, waiting := range map[string][]string{
		"plain":             {"INSERT INTO d.t VALUES (100, '')"},
		"tagged":            {"INSERT INTO d.t VALUES (100, '')", "SET gtid_next = 'AUTOMATIC:tail'; INSERT INTO d.t VALUES (101, '')"},
		"tagged first":      {"SET gtid_next = 'AUTOMATIC:tail'; INSERT INTO d.t VALUES (100, '')", "INSERT INTO d.t VALUES (101, '')"},
		"compressed":        {"SET binlog_transaction_compression = ON; INSERT INTO d.t VALUES (100, REPEAT('x', 1000000))", "DELETE FROM d.t WHERE id = 1"},
		"definition":        {"CREATE TABLE d.lost (id INT)", "INSERT INTO d.t VALUES (100, '')"},
		"definition change": {"ALTER TABLE d.t ADD COLUMN lost INT"},
		"account":           {"CREATE USER lost"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			promoted := s.executed()
			tail := s.crash(waiting)
			if found := s.cut(promoted); !found.Equal(tail) {
				t.Errorf("cut off were %s, waiting were %s", found, tail)
			}
			s.start()
			if after := s.executed(); !after.Equal(promoted) {
				t.Errorf("executed are %s, promoted were %s", after, promoted)
			}
			if n := s.get("SELECT COUNT(*) FROM d.t WHERE id < 100 AND (SELECT COUNT(*) FROM d.t WHERE id >= 100) = 0"); n != "3" {
				t.Errorf("%s rows of 3, or some that were cut off", n)
			}
			if n := s.get("SELECT (SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'lost') + (SELECT COUNT(*) FROM mysql.user WHERE user = 'lost')" +
				" + (SELECT COUNT(*) FROM information_schema.columns WHERE column_name = 'lost')"); n != "0" {
				t.Error("a definition that was cut off is there")
			}
		})
	}
}

// crash kills mysqld while the statements wait, each in a session of its own, and returns what they would have become.
func (s *server) crash(statements []string) gtid.Set {
	s.t.Helper()
	s.exec("SET GLOBAL rpl_semi_sync_source_enabled = ON")
	for i, statement := range statements {
		conn, err := s.db.Conn(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		go func() { _, _ = conn.ExecContext(context.Background(), statement) }()
		s.await("it waits", func() bool { return strings.Count(s.get("SELECT @@GLOBAL.gtid_owned"), "#") == i+1 })
	}
	before := s.executed()
	s.await("it is written", func() bool { return !s.inFile(len(statements)).IsEmpty() })
	s.kill()
	return s.inFile(len(statements)).Subtract(before)
}

// inFile returns all transactions of the last file if at least n of them are not executed; else none.
func (s *server) inFile(n int) gtid.Set {
	file, size := s.lastFile()
	defer func() { _ = file.Close() }()
	r, err := newReader(file, size)
	if err != nil {
		s.t.Fatal(err)
	}
	var all spans
	count := 0
	for {
		e, err := r.next()
		if err != nil {
			s.t.Fatal(err)
		}
		if e == nil {
			break
		}
		var tail Tail
		if e.kind == typeGTID || e.kind == typeTaggedGTID {
			count++
			if err := tail.add(e, gtid.Set{}, &all); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	set, err := all.set()
	if err != nil {
		s.t.Fatal(err)
	}
	if count < n {
		return gtid.Set{}
	}
	return set
}

func (s *server) lastFile() (*os.File, int64) {
	s.t.Helper()
	path, err := LastFile(filepath.Join(s.dir, "data"), "binlog")
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	return file, info.Size()
}

// cut saves what was not promoted, has mysqlbinlog read it, and truncates the file.
func (s *server) cut(promoted gtid.Set) gtid.Set {
	s.t.Helper()
	file, size := s.lastFile()
	defer func() { _ = file.Close() }()
	tail, err := FindTail(file, size, promoted)
	if err != nil || tail.IsEmpty() {
		s.t.Fatalf("%+v, %v", tail, err)
	}
	if all, err := FindTail(file, size, promoted.Union(tail.GTIDs)); err != nil || !all.IsEmpty() {
		s.t.Errorf("with everything promoted: %+v, %v", all, err)
	}
	var saved bytes.Buffer
	if err := WriteTail(&saved, file, tail); err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "tail")
	if err := os.WriteFile(path, saved.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, err := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "mysqlbinlog"), "--no-defaults", "--verify-binlog-checksum", path).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("WARNING")) || bytes.Contains(out, []byte("Warning")) {
		s.t.Errorf("mysqlbinlog: %v\n%s", err, out)
	}
	if n := bytes.Count(out, []byte("SET @@SESSION.GTID_NEXT= '")) - 1; uint64(n) != tail.GTIDs.Count() { // the last is AUTOMATIC
		s.t.Errorf("mysqlbinlog shows %d transactions of %d:\n%s", n, tail.GTIDs.Count(), out)
	}
	if err := file.Truncate(tail.Offset); err != nil {
		s.t.Fatal(err)
	}
	return tail.GTIDs
}
