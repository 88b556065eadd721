package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/mysql"
)

// rebuild replaces the data directory by a copy of the donor's, once what nobody else has is saved (INV-9). Until the copy is
// complete the old directory stays as it is, and comes back if there is to be no copy.
func (a *Agent) rebuild(cmd agentapi.Command) (kept bool, err error) {
	st := a.state.get()
	switch {
	case cmd.Donor.Instance == a.cfg.Instance:
		return false, refuse(agentapi.ErrInvalid, "donor: an instance cannot be cloned from itself")
	case st.Role == agentapi.RolePrimary && cmd.Epoch == st.Epoch || cmd.Primary != nil && cmd.Primary.Instance == a.cfg.Instance:
		return false, refuse(agentapi.ErrPrecondition, "this instance is the primary of epoch %d; it can be rebuilt only when another one is", cmd.Epoch)
	case st.Data != agentapi.DataReady:
		return false, refuse(agentapi.ErrPrecondition, "the data directory is %s: there is nothing to rebuild", st.Data)
	case st.MadeBy == cmd.OperationID:
		return false, nil
	}
	err = a.persist(cmd, func(s *state) {
		if s.Role == agentapi.RolePrimary {
			s.Role = agentapi.RoleNone // it was primary of another epoch
		}
	})
	if err != nil {
		return false, err
	}
	a.runOperation(cmd, func(ctx context.Context, progress func(string)) error {
		r := &rebuilding{Agent: a, cmd: cmd, held: a.isHeld(), progress: progress}
		if cmd.Quarantine != nil {
			r.want = *cmd.Quarantine
		}
		err := r.run(ctx)
		a.reportState()
		return err
	})
	return true, nil
}

// rebuilding is one rebuild under way.
type rebuilding struct {
	*Agent
	cmd agentapi.Command
	// want is the quarantine; held is whether mysqld was held before.
	want     gtid.Set
	held     bool
	progress func(string)
}

// run takes mysqld down, saves, and replaces.
func (a *rebuilding) run(ctx context.Context) error {
	if s := a.current(); s != nil {
		// A former primary takes no writes from here on, and what is certain to be refused costs no restart.
		if err := a.endWrites(ctx, s, a.cfg.FenceBound); err != nil {
			return err
		}
		if err := a.checkSavable(ctx, s, a.want); err != nil {
			return err
		}
	}
	// Not ready from now on, so that mysqld is neither held nor started again by itself.
	if err := a.state.update(func(s *state) { s.Data = agentapi.DataCloning }); err != nil {
		return err
	}
	a.reportState()
	a.progress("stopping mysqld")
	// By the shutdown rule a kill is always right, and the caches of what is to be replaced are not worth a clean end.
	a.stopKilled("its data is to be replaced by a copy")
	a.hub.update(func(d *agentapi.Status) { d.Process.State = agentapi.ProcessStopped })
	if err := a.quarantine(ctx); err != nil {
		return a.giveUp(err)
	}
	old, free, err := a.room()
	if err != nil {
		return a.giveUp(err)
	}
	if need := old + old/10; free < need {
		return a.inPlace(ctx, fmt.Sprintf("%s are free, both directories need %s", bytesText(free), bytesText(need)))
	}
	err = a.beside(ctx)
	if mysql.IsCloneDiskSpace(err) {
		if err := a.abandonCopy(); err != nil {
			return a.giveUp(err)
		}
		return a.inPlace(ctx, err.Error())
	}
	if err != nil {
		return a.giveUp(err)
	}
	err = a.dataReady(ctx, a.progress)
	a.removeRemains()
	return err
}

// room returns the size of the data directory, holes included since a copy may have none, and what is free beside it.
func (a *Agent) room() (size, free int64, err error) {
	err = filepath.WalkDir(a.cfg.Paths.Data, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("measure the data directory: %w", explain(err))
	}
	var volume unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(a.cfg.Paths.Data), &volume); err != nil {
		return 0, 0, fmt.Errorf("measure the volume: %w", explain(err))
	}
	return size, int64(volume.Bavail) * volume.Bsize, nil
}

// beside makes the copy beside the old directory and swaps the two when it is complete. mysqld is ended then.
func (a *rebuilding) beside(ctx context.Context) error {
	st := a.state.get()
	made := &rebuildState{Incarnation: uuid.NewString(), MadeBy: a.cmd.OperationID}
	if err := a.state.update(func(s *state) { s.Rebuild = made }); err != nil {
		return err
	}
	a.hub.update(func(d *agentapi.Status) { d.Data.ServerUUID = "" })
	a.reportState()
	a.progress("making an empty data directory beside the old one")
	if err := a.makeDataDir(ctx); err != nil {
		return err
	}
	a.process.use(a.newDir())
	if err := a.cloneData(ctx, *a.cmd.Donor, a.progress); err != nil {
		return err
	}
	s, err := a.awaitSession(ctx, nil)
	if err != nil {
		return err
	}
	status, err := s.server.Status(ctx)
	if err != nil {
		return err
	}
	a.progress("swapping the data directories")
	a.stopCopy()
	if err := a.saveRest(ctx, status.GTIDExecuted); err != nil {
		return err
	}
	if err := a.finishDataDir(mark{ClusterID: st.ClusterID, Incarnation: made.Incarnation}, a.newDir()); err != nil {
		return err
	}
	if err := a.swapDataDirs(); err != nil {
		return err
	}
	if err := a.state.update(func(s *state) { s.becomeRebuilt() }); err != nil {
		return err
	}
	a.process.use(a.cfg.Paths.Data)
	return nil
}

// stopCopy ends mysqld on the copy cleanly: it has never been open for writes, and nobody waits there.
func (a *Agent) stopCopy() {
	c := a.process.halt()
	if c == nil {
		return
	}
	c.signal(syscall.SIGTERM)
	if !c.waitFor(a.cfg.StopBound) {
		c.signal(syscall.SIGKILL)
		<-c.done
	}
}

// swapDataDirs puts the new directory, which is complete, in the old one's place. A kill between the two renames is settled
// at the next start (settleRebuild).
func (a *Agent) swapDataDirs() error {
	data := a.cfg.Paths.Data
	if err := os.RemoveAll(data + oldSuffix); err != nil {
		return fmt.Errorf("remove the remains of an earlier rebuild: %w", explain(err))
	}
	if err := os.Rename(data, data+oldSuffix); err != nil {
		return fmt.Errorf("move the old data directory away: %w", explain(err))
	}
	if err := os.Rename(a.newDir(), data); err != nil {
		return fmt.Errorf("install the new data directory: %w", errors.Join(explain(err), explain(os.Rename(data+oldSuffix, data))))
	}
	return syncDir(filepath.Dir(data))
}

// inPlace removes the old directory first, as there is no room for both. From then on a copy can be made again and
// again, and nothing is lost by it: what nobody else has is saved.
func (a *rebuilding) inPlace(ctx context.Context, why string) error {
	if a.held && a.cmd.Quarantine == nil {
		return a.giveUp(fmt.Errorf("the old data cannot be removed before the copy is complete, since what it holds beyond the copy shows only then, and there is no room for both (%s): grow spec.storage.size", why))
	}
	a.log.Info("Removing the old data before the copy is made", "why", why, "operation", a.cmd.OperationID)
	a.progress("no room for both: removing the old data first (" + why + ")")
	data := a.cfg.Paths.Data
	// Without its mark the directory is not complete: a kill from here on is seen as Failed.
	if err := os.Remove(filepath.Join(data, markFile)); err != nil {
		return a.giveUp(fmt.Errorf("remove the old data directory's mark: %w", explain(err)))
	}
	err := syncDir(data)
	if err == nil {
		err = a.state.update(func(s *state) {
			s.Rebuild = &rebuildState{Incarnation: uuid.NewString(), MadeBy: a.cmd.OperationID}
			s.becomeRebuilt()
			s.Data = agentapi.DataCloning
		})
	}
	if err == nil {
		a.hub.update(func(d *agentapi.Status) { d.Data.ServerUUID = "" })
		a.reportState()
		err = explain(os.RemoveAll(data))
	}
	if err == nil {
		err = a.cloneInPlace(ctx, *a.cmd.Donor, a.progress)
	}
	return a.notMade(agentapi.DataCloning, err)
}

// abandonCopy ends mysqld on the copy, removes that, and forgets it.
func (a *rebuilding) abandonCopy() error {
	a.stopKilled("there will be no copy beside the old data")
	a.process.use(a.cfg.Paths.Data)
	if err := os.RemoveAll(a.newDir()); err != nil {
		return fmt.Errorf("remove what there is of the copy: %w", explain(err))
	}
	return a.state.update(func(s *state) { s.Rebuild = nil })
}

// giveUp goes back to the data directory that is there, and returns the cause. Where the swap came so far that this is
// the new one, it goes on with that.
func (a *rebuilding) giveUp(cause error) error {
	a.stopKilled("the rebuild failed")
	a.process.use(a.cfg.Paths.Data)
	st := a.state.get()
	err := settleRebuild(a.cfg.Paths.Data, &st)
	if err == nil {
		st.Data = agentapi.DataReady
		err = a.state.update(func(s *state) { *s = st })
	}
	if err != nil {
		// The agent's next start settles it.
		return errors.Join(cause, fmt.Errorf("go back to the data directory: %w", err))
	}
	a.removeRemains()
	a.hub.update(func(d *agentapi.Status) { d.Data.ServerUUID = "" })
	a.reportState()
	if a.held {
		a.process.held()
		return cause
	}
	a.process.boot()
	return cause
}

// removeRemains removes what earlier attempts left beside the data directory, which must be complete.
func (a *Agent) removeRemains() {
	for _, suffix := range []string{newSuffix, oldSuffix} {
		if err := os.RemoveAll(a.cfg.Paths.Data + suffix); err != nil {
			a.log.Info("Removing the remains of a data directory failed", "directory", a.cfg.Paths.Data+suffix, "reason", err.Error())
		}
	}
}
