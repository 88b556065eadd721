package agent

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/binlog"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

const (
	// binlogName is the base name of binary logs, as package mycnf sets it.
	binlogName = "binlog"
	// tailsDir in the state directory holds what was cut off, tailSuffix is the end of each file's name.
	tailsDir   = "tails"
	tailSuffix = ".binlog"
	// keptTails is how many of them are kept, the newest.
	keptTails = 10
	// tailTime makes names that sort by time.
	tailTime = "20060102T150405.000000000Z"
)

// cutTail cuts off the end of the held mysqld's binary log that is not in the promoted set, after having saved it. It
// returns what DataStatus.CutTail is to say. Done twice, the second finds nothing to cut; interrupted between saving and cutting,
// the tail is saved a second time.
func (a *Agent) cutTail(promoted *gtid.Set) (string, error) {
	before := a.state.get().CutTail
	if strings.HasPrefix(before, notCut) {
		before = ""
	}
	if promoted == nil {
		return "", fmt.Errorf("%w: the command does not name the promoted set", binlog.ErrRefused)
	}
	path, err := binlog.LastFile(a.cfg.Paths.Data, binlogName)
	if err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("open the last binary log: %w", explain(err))
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("look at the last binary log: %w", err)
	}
	tail, err := binlog.FindTail(file, info.Size(), *promoted)
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if tail.IsEmpty() {
		return before, nil
	}
	saved, err := a.saveTail(file, tail)
	if err != nil {
		return "", fmt.Errorf("save the end of %s: %w", filepath.Base(path), err)
	}
	if err := a.renewServerUUID(); err != nil {
		return "", fmt.Errorf("give up the server UUID: %w", err)
	}
	if err := truncate(file, tail.Offset); err != nil {
		return "", fmt.Errorf("cut %s: %w", filepath.Base(path), err)
	}
	text := fmt.Sprintf("%d transactions that were never acknowledged (%s) were cut off; saved in %s", tail.GTIDs.Count(), tail.GTIDs, saved)
	a.log.Info("Cut the binary log", "file", filepath.Base(path), "from", tail.Offset, "size", info.Size(),
		"transactions", tail.GTIDs.Count(), "gtids", tail.GTIDs.String(), "saved", saved)
	return text, nil
}

// renewServerUUID makes mysqld take another server UUID when it starts. A replica that was not reached may hold what is cut
// off: under the former UUID its numbers would be given again some day, and that replica would skip other transactions for them.
func (a *Agent) renewServerUUID() error {
	err := os.Remove(filepath.Join(a.cfg.Paths.Data, autoCnf))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return explain(err)
	}
	a.hub.update(func(d *agentapi.Status) { d.Data.ServerUUID = "" })
	return syncDir(a.cfg.Paths.Data)
}

func truncate(file *os.File, size int64) error {
	if a, err := file.Stat(); err != nil || a.Size() <= size {
		return errors.Join(err, fmt.Errorf("it should be longer than %d bytes", size))
	}
	if err := file.Truncate(size); err != nil {
		return explain(err)
	}
	return explain(file.Sync())
}

// saveTail writes the tail to a file of its own; when it returns without error that is on disk (INV-9).
func (a *Agent) saveTail(file *os.File, tail binlog.Tail) (string, error) {
	dir := filepath.Join(a.cfg.Paths.State, tailsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", explain(err)
	}
	if err := syncDir(a.cfg.Paths.State); err != nil {
		return "", err
	}
	path := filepath.Join(dir, time.Now().UTC().Format(tailTime)+"-"+readServerUUID(a.cfg.Paths.Data)+tailSuffix)
	err := writeDurableFrom(path, func(to *os.File) error {
		buffered := bufio.NewWriterSize(to, 1<<18)
		if err := binlog.WriteTail(buffered, file, tail); err != nil {
			return err
		}
		return buffered.Flush()
	})
	if err != nil {
		return "", err
	}
	a.pruneTails(dir)
	return path, nil
}

// pruneTails keeps the newest.
func (a *Agent) pruneTails(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+tailSuffix))
	if err != nil || len(names) <= keptTails {
		return
	}
	slices.Sort(names)
	for _, name := range names[:len(names)-keptTails] {
		if err := os.Remove(name); err != nil {
			a.log.Info("Removing an old tail failed", "file", name, "reason", err.Error())
			continue
		}
		a.log.Info("Removed an old tail", "file", name, "kept", keptTails)
	}
}
