//go:build mysql

package gtid

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bootDeadline is generous: the machine may be busy, and nothing waits for it when all is well.
const bootDeadline = 2 * time.Minute

type mysqldProcess struct {
	socket, errorLog string
	exited           chan struct{}
	waitErr          error // set before exited is closed
}

// runMysqld initializes a data directory and starts mysqld on it, on a socket alone.
func runMysqld(t *testing.T, path string) *mysqldProcess {
	// Not t.TempDir: its name holds the test's, and a socket's path has at most 107 bytes.
	dir, err := os.MkdirTemp("", "gtid")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := &mysqldProcess{
		socket:   filepath.Join(dir, "s"),
		errorLog: filepath.Join(dir, "error.log"),
		exited:   make(chan struct{}),
	}
	arguments := []string{
		"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--log-error=" + p.errorLog,
		"--secure-file-priv=NULL", "--innodb-redo-log-capacity=8388608", "--innodb-buffer-pool-size=16777216",
	}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "--user=root")
	}
	initialize := exec.CommandContext(t.Context(), path, append(arguments, "--initialize-insecure")...)
	if out, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("initialize mysqld: %v\n%s%s", err, out, p.readLog())
	}
	command := exec.Command(path, append(arguments, "--socket="+p.socket, "--pid-file="+filepath.Join(dir, "pid"),
		"--skip-networking", "--mysqlx=OFF", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--server-id=1")...)
	// If the test binary dies, so does mysqld.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.waitErr = command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		// Nothing on the disk is wanted any more, so there is nothing to shut down cleanly.
		if err := command.Process.Kill(); err != nil {
			t.Errorf("stop mysqld: %v", err)
		}
		<-p.exited
	})
	return p
}

func (p *mysqldProcess) awaitReady(t *testing.T, db *sql.DB) {
	deadline := time.After(bootDeadline)
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		err := db.PingContext(t.Context())
		if err == nil {
			break
		}
		select {
		case <-retry.C:
		case <-p.exited:
			t.Fatalf("mysqld ended while it started: %v\n%s", p.waitErr, p.readLog())
		case <-deadline:
			t.Fatalf("mysqld does not answer after %s: %v\n%s", bootDeadline, err, p.readLog())
		}
	}
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	t.Logf("mysqld %s", version)
	if !strings.HasPrefix(version, "9.7.") {
		t.Fatalf("mysqld is %s; this test holds what 9.7 does", version)
	}
}

func (p *mysqldProcess) readLog() string {
	text, err := os.ReadFile(p.errorLog)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
