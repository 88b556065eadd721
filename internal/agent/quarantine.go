package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/porpoise-dev/porpoise/internal/binlog"
	"github.com/porpoise-dev/porpoise/internal/clip"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

const (
	// quarantineDir in the state directory holds transactions of data directories that were replaced: as a binary log, and,
	// with dumpSuffix, readable.
	quarantineDir    = "quarantine"
	quarantineSuffix = ".binlog"
	dumpSuffix       = ".sql"
	// keptQuarantines is how many of them are kept, the newest.
	keptQuarantines = 10
	// maxSetText bounds a set of transactions in a text for people.
	maxSetText = 512
)

// checkSavable asks the running mysqld whether all of the set can be in its binary logs.
func (a *Agent) checkSavable(ctx context.Context, s *session, want gtid.Set) error {
	if want.IsEmpty() {
		return nil
	}
	status, err := s.server.Status(ctx)
	if err != nil {
		return err
	}
	return checkFound(want, status.GTIDExecuted.Subtract(status.GTIDPurged), status.GTIDPurged)
}

// checkFound refuses to go on where something cannot be saved (INV-9).
func checkFound(want, found, purged gtid.Set) error {
	missing := want.Subtract(found)
	lost := missing.Intersect(purged)
	switch {
	case missing.IsEmpty():
		return nil
	case !lost.IsEmpty():
		return fmt.Errorf("%s cannot be saved: they were purged from the binary logs. Nothing was destroyed. A person must decide: take out of the data what is needed, then delete the instance's volume", transactions(lost))
	}
	return fmt.Errorf("%s cannot be saved: they are not in the binary logs. Nothing was destroyed", transactions(missing))
}

// transactions prints a set for people.
func transactions(s gtid.Set) string {
	return fmt.Sprintf("%d transactions (%s)", s.Count(), clip.Text(s.String(), maxSetText))
}

// quarantine saves what no other instance has, out of the binary logs of a mysqld that does not run.
func (a *rebuilding) quarantine(ctx context.Context) error {
	if a.want.IsEmpty() {
		return a.state.update(func(s *state) { s.Quarantined = "" })
	}
	a.progress("saving " + transactions(a.want) + " that no other instance has")
	paths, err := binlog.Files(a.cfg.Paths.Data, binlogName)
	if err != nil {
		return err
	}
	found, err := binlog.Search(ctx, paths, a.want)
	if err != nil {
		return fmt.Errorf("look for what no other instance has: %w", err)
	}
	if err := checkFound(a.want, found.GTIDs, found.Before); err != nil {
		return err
	}
	path, err := a.saveFindings(ctx, found)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s that no other instance has were saved in %s", transactions(found.GTIDs), path)
	if err := a.state.update(func(s *state) { s.Quarantined = text }); err != nil {
		return err
	}
	a.reportState()
	return nil
}

// saveRest saves what the old binary logs hold beyond the copy and the quarantine. Of a mysqld that was held nobody knew what
// that is, and a replica may have been a moment ahead of the donor: nothing that the copy lacks is destroyed unsaved (INV-9).
func (a *rebuilding) saveRest(ctx context.Context, copied gtid.Set) error {
	paths, err := binlog.Files(a.cfg.Paths.Data, binlogName)
	if err != nil {
		return err
	}
	held, err := binlog.Search(ctx, paths, gtid.Set{})
	if errors.Is(err, binlog.ErrRefused) && !a.state.get().WasPrimary {
		// Its transactions came from others, and the manager has compared them; what is broken may be why it is rebuilt.
		a.log.Info("The binary logs that are replaced cannot be compared with the copy", "reason", err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for what the copy lacks: %w", err)
	}
	rest := held.Held.Subtract(copied).Subtract(a.want)
	if rest.IsEmpty() {
		return nil
	}
	a.progress("saving " + transactions(rest) + " that the copy lacks")
	found, err := binlog.Search(ctx, paths, rest)
	if err != nil {
		return fmt.Errorf("look for what the copy lacks: %w", err)
	}
	if err := checkFound(rest, found.GTIDs, found.Before); err != nil {
		return err
	}
	path, err := a.saveFindings(ctx, found)
	if err != nil {
		return err
	}
	return a.state.update(func(s *state) {
		s.Quarantined = strings.TrimPrefix(s.Quarantined+fmt.Sprintf("; %s that the copy lacks were saved in %s", transactions(rest), path), "; ")
	})
}

// saveFindings writes the transactions to a file of its own; when it returns without error that is on disk. Beside it comes a
// dump for people, where there is the program for it.
func (a *Agent) saveFindings(ctx context.Context, found *binlog.Findings) (string, error) {
	dir := filepath.Join(a.cfg.Paths.State, quarantineDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the quarantine's directory: %w", explain(err))
	}
	if err := syncDir(a.cfg.Paths.State); err != nil {
		return "", fmt.Errorf("make the quarantine's directory: %w", err)
	}
	stem := filepath.Join(dir, time.Now().UTC().Format(tailTime)+"-"+readServerUUID(a.cfg.Paths.Data))
	err := writeDurableFrom(stem+quarantineSuffix, func(to *os.File) error {
		buffered := bufio.NewWriterSize(to, 1<<18)
		if err := found.Write(ctx, buffered); err != nil {
			return err
		}
		return buffered.Flush()
	})
	if err != nil {
		return "", fmt.Errorf("save transactions in quarantine: %w", err)
	}
	a.log.Info("Saved transactions in quarantine", "transactions", found.GTIDs.Count(), "gtids", found.GTIDs.String(), "file", stem+quarantineSuffix)
	if err := a.dump(ctx, stem); err != nil {
		a.log.Info("There is no readable dump of the quarantine", "file", stem+quarantineSuffix, "reason", err.Error())
	}
	a.pruneQuarantine(dir)
	return stem + quarantineSuffix, nil
}

// dump writes what mysqlbinlog shows of a saved file beside it.
func (a *Agent) dump(ctx context.Context, stem string) error {
	program, err := a.cfg.mysqlbinlog()
	if err != nil {
		return err
	}
	return writeDurableFrom(stem+dumpSuffix, func(to *os.File) error {
		// Pdeathsig is sent when the thread that forked ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var failure bytes.Buffer
		cmd := exec.CommandContext(ctx, program, "--no-defaults", "--verbose", "--base64-output=DECODE-ROWS", stem+quarantineSuffix)
		cmd.Stdout, cmd.Stderr, cmd.Dir = to, &failure, a.cfg.Paths.Run
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		if err := a.reaper.start(cmd); err != nil {
			return fmt.Errorf("start mysqlbinlog: %w", err)
		}
		defer a.reaper.forget(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("mysqlbinlog: %w: %s", err, clip.Text(strings.TrimSpace(failure.String()), maxSetText))
		}
		return nil
	})
}

// mysqlbinlog returns the program that belongs to the server, which lies beside it, or elsewhere in the path.
func (c Config) mysqlbinlog() (string, error) {
	const name = "mysqlbinlog"
	if server, err := exec.LookPath(c.Mysqld); err == nil {
		if beside := filepath.Join(filepath.Dir(server), name); isProgram(beside) {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// pruneQuarantine keeps the newest.
func (a *Agent) pruneQuarantine(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+quarantineSuffix))
	if err != nil || len(names) <= keptQuarantines {
		return
	}
	slices.Sort(names)
	for _, name := range names[:len(names)-keptQuarantines] {
		dumped := strings.TrimSuffix(name, quarantineSuffix) + dumpSuffix
		if err := errors.Join(os.Remove(name), removeIfThere(dumped)); err != nil {
			a.log.Info("Removing an old quarantine failed", "file", name, "reason", err.Error())
			continue
		}
		a.log.Info("Removed an old quarantine", "file", name, "kept", keptQuarantines)
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
