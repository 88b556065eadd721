package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/mycnf"
	"github.com/porpoise-dev/porpoise/internal/mysql"
)

const (
	// startBound is how long a bootstrap waits for mysqld to accept sessions.
	startBound = 5 * time.Minute
	// progressEvery is how often a clone's progress is reported.
	progressEvery = 500 * time.Millisecond
)

// initialize makes an empty data directory and starts mysqld on it.
func (a *Agent) initialize(cmd agentapi.Command) (kept bool, err error) {
	return a.bootstrap(cmd, agentapi.DataInitializing, func(ctx context.Context, progress func(string)) error {
		progress("making an empty data directory")
		if err := a.makeDataDir(ctx); err != nil {
			return err
		}
		st := a.state.get()
		if err := a.finishDataDir(mark{ClusterID: st.ClusterID, Incarnation: st.Incarnation}, a.newDir()); err != nil {
			return err
		}
		if err := a.installDataDir(); err != nil {
			return err
		}
		return a.dataReady(ctx, progress)
	})
}

// clone makes the data directory a copy of the donor's.
func (a *Agent) clone(cmd agentapi.Command) (kept bool, err error) {
	if cmd.Donor.Instance == a.cfg.Instance {
		return false, refuse(agentapi.ErrInvalid, "donor: an instance cannot be cloned from itself")
	}
	return a.bootstrap(cmd, agentapi.DataCloning, func(ctx context.Context, progress func(string)) error {
		return a.cloneInPlace(ctx, *cmd.Donor, progress)
	})
}

// cloneInPlace makes the copy where it is to stay: the directory has no mark until it is complete, so that a kill in between
// is seen as Failed.
func (a *Agent) cloneInPlace(ctx context.Context, donor agentapi.Peer, progress func(string)) error {
	progress("making an empty data directory")
	if err := a.makeDataDir(ctx); err != nil {
		return err
	}
	if err := a.installDataDir(); err != nil {
		return err
	}
	if err := a.cloneData(ctx, donor, progress); err != nil {
		a.stopKilled("the clone failed")
		return err
	}
	st := a.state.get()
	if err := a.finishDataDir(mark{ClusterID: st.ClusterID, Incarnation: st.Incarnation}, a.cfg.Paths.Data); err != nil {
		return err
	}
	return a.dataReady(ctx, progress)
}

// bootstrap checks that nothing can be lost, records what is about to be made, and makes it in the background.
func (a *Agent) bootstrap(cmd agentapi.Command, making agentapi.DataState, work func(context.Context, func(string)) error) (bool, error) {
	st := a.state.get()
	switch st.Data {
	case agentapi.DataEmpty, agentapi.DataFailed:
	case agentapi.DataReady:
		if st.MadeBy == cmd.OperationID {
			return false, nil
		}
		return false, refuse(agentapi.ErrPrecondition, "the data directory holds incarnation %s of this cluster already", st.Incarnation)
	default:
		return false, refuse(agentapi.ErrPrecondition, "the data directory is %s", st.Data)
	}
	err := a.persist(cmd, func(s *state) {
		s.Data, s.DataError, s.Incarnation, s.MadeBy = making, "", uuid.NewString(), cmd.OperationID
		s.Role = agentapi.RoleNone
		s.WasPrimary, s.Settled, s.CutTail = false, false, ""
	})
	if err != nil {
		return false, err
	}
	a.runOperation(cmd, func(ctx context.Context, progress func(string)) error {
		err := a.notMade(making, work(ctx, progress))
		a.reportState()
		return err
	})
	return true, nil
}

// notMade records that the data directory could not be made.
func (a *Agent) notMade(making agentapi.DataState, err error) error {
	if err == nil || a.state.get().Data != making {
		return err
	}
	return errors.Join(err, a.state.update(func(s *state) { s.Data, s.DataError = agentapi.DataFailed, err.Error() }))
}

func (a *Agent) newDir() string { return a.cfg.Paths.Data + newSuffix }

// makeDataDir runs mysqld --initialize-insecure into a directory beside the data directory. The only account that can log
// in afterwards, root without password, is dropped in the same run.
func (a *Agent) makeDataDir(ctx context.Context) error {
	dir := a.newDir()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the remains of an earlier attempt: %w", explain(err))
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("make the data directory: %w", explain(err))
	}
	if err := a.cfg.own(dir); err != nil {
		return err
	}
	initFile := filepath.Join(a.cfg.Paths.Run, "initialize.sql")
	if err := a.cfg.writeForMysqld(initFile, "DROP USER IF EXISTS 'root'@'localhost';\n"); err != nil {
		return fmt.Errorf("write the first statements: %w", err)
	}
	params, err := a.cfg.optionFile(dir, initFile)
	if err != nil {
		return err
	}
	optionFile := filepath.Join(a.cfg.Paths.Run, "initialize.cnf")
	if err := a.cfg.writeForMysqld(optionFile, mycnf.RenderInitialize(params)); err != nil {
		return fmt.Errorf("write the option file for mysqld --initialize: %w", err)
	}
	logs, err := a.runMysqld(ctx, "--defaults-file="+optionFile, "--initialize-insecure")
	if err != nil {
		return fmt.Errorf("mysqld --initialize-insecure: %w: %s", err, logs.last(logPatience))
	}
	return nil
}

// runMysqld runs the server binary to its end. It dies with the agent.
func (a *Agent) runMysqld(ctx context.Context, arguments ...string) (*mysqldLog, error) {
	// Pdeathsig is sent when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	logs := newMysqldLog(a.log)
	read, write, err := os.Pipe()
	if err != nil {
		return logs, fmt.Errorf("make a pipe for mysqld's log: %w", err)
	}
	cmd := exec.CommandContext(ctx, a.cfg.Mysqld, arguments...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = write, write, a.cfg.Paths.Run
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: a.cfg.Credential}
	err = a.reaper.start(cmd)
	_ = write.Close()
	go func() {
		logs.copy(read)
		_ = read.Close()
	}()
	if err != nil {
		return logs, err
	}
	defer a.reaper.forget(cmd.Process.Pid)
	return logs, cmd.Wait()
}

// finishDataDir writes the mark and makes everything in the directory durable; from then on it is complete.
func (a *Agent) finishDataDir(m mark, dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the data directory: %w", explain(err))
	}
	defer func() { _ = f.Close() }()
	// mysqld --initialize ran without flushing; one call for the whole filesystem is faster than a thousand.
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the data directory: %w", explain(err))
	}
	if err := writeMark(dir, m); err != nil {
		return err
	}
	return a.cfg.own(filepath.Join(dir, markFile))
}

// installDataDir puts the new directory in the data directory's place, which holds nothing that is complete: the state
// says Initializing or Cloning, and a directory with a mark is never removed here.
func (a *Agent) installDataDir() error {
	target := a.cfg.Paths.Data
	m, err := readMark(target)
	if err != nil {
		return err
	}
	if m != nil {
		return fmt.Errorf("replace %s: it is complete (incarnation %s)", target, m.Incarnation)
	}
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("remove the remains of an earlier attempt: %w", explain(err))
	}
	if err := os.Rename(a.newDir(), target); err != nil {
		return fmt.Errorf("install the data directory: %w", explain(err))
	}
	return syncDir(filepath.Dir(target))
}

// dataReady records that the directory is complete, and waits for mysqld to serve.
func (a *Agent) dataReady(ctx context.Context, progress func(string)) error {
	if err := a.state.update(func(s *state) { s.Data, s.DataError = agentapi.DataReady, "" }); err != nil {
		return err
	}
	a.reportState()
	progress("starting mysqld")
	a.process.begin()
	_, err := a.awaitSession(ctx, nil)
	return err
}

// awaitSession waits for a session with a life of mysqld other than the given one.
func (a *Agent) awaitSession(ctx context.Context, not *child) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for {
		doc, changed := a.hub.watch()
		if s := a.current(); s != nil && s.child != not && doc.Process.State == agentapi.ProcessRunning {
			return s, nil
		}
		if doc.Process.State == agentapi.ProcessHeld || doc.Process.State == agentapi.ProcessCrashed && doc.Process.LastExit != "" {
			return nil, fmt.Errorf("mysqld does not start: it is %s: %s", doc.Process.State, doc.Process.LastExit)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for mysqld to accept sessions: %w", ctx.Err())
		}
	}
}

// cloneData copies the donor's data into the running, empty server, and brings it up again as a server without a past
// of its own.
func (a *Agent) cloneData(ctx context.Context, donor agentapi.Peer, progress func(string)) error {
	a.process.begin()
	s, err := a.awaitSession(ctx, nil)
	if err != nil {
		return err
	}
	a.process.expectExit(true)
	result := make(chan error, 1)
	go func() { result <- s.server.CloneFrom(ctx, a.source(donor)) }()
	if err := a.watchClone(ctx, s, donor, result, progress); err != nil {
		return err
	}
	progress("restarting on the copy")
	s, err = a.awaitSession(ctx, s.child)
	if err != nil {
		return err
	}
	if err := s.server.CloneResult(ctx); err != nil {
		return err
	}
	// The donor's channel came with the data; its relay logs did not.
	return s.server.ResetReplica(ctx)
}

// watchClone waits for the end of the copy. mysqld ends by itself then; whether the copy is good, it says after its restart.
func (a *Agent) watchClone(ctx context.Context, s *session, donor agentapi.Peer, result <-chan error, progress func(string)) error {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-result:
			if err != nil && !mysql.IsCloneRestart(err) && !mysql.IsConnectionLost(err) {
				a.process.expectExit(false)
				return err
			}
			if !s.child.waitFor(startBound) {
				return errors.New("mysqld did not end after the clone")
			}
			return nil
		case <-ticker.C:
			if done, total, err := s.server.CloneProgress(ctx); err == nil {
				progress(fmt.Sprintf("%s of %s from %s", bytesText(done), bytesText(total), donor.Instance))
			}
		case <-ctx.Done():
			return fmt.Errorf("clone from %s: %w", donor.Instance, ctx.Err())
		}
	}
}

// stopKilled ends mysqld and keeps it ended; for a directory that holds nothing worth a clean shutdown.
func (a *Agent) stopKilled(why string) {
	if c := a.process.halt(); c != nil {
		a.log.Info("Killing mysqld", "why", why)
		c.signal(syscall.SIGKILL)
		<-c.done
	}
}

func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/unit, "KMGTPE"
	for value >= unit {
		value, units = value/unit, units[1:]
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[:1] + "iB"
}
