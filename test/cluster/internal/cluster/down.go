package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cgroup"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/network"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/process"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

// Down removes the cluster and everything that belongs to it. A cluster that does not exist is success.
func Down(name string, report *progress.Reporter) error {
	if err := errors.Join(plan.ValidateName(name), toolchain.RequireRoot()); err != nil {
		return err
	}
	root := StateRoot()
	s, err := load(root, name)
	if errors.Is(err, ErrNotFound) {
		if _, statErr := os.Stat(filepath.Join(root, name)); statErr != nil {
			report.Printf("there is no cluster %q", name)
			return nil
		}
		// `up` was interrupted before it chose an index: there is nothing but the directory.
		s, err = state{Cluster: plan.Cluster{Name: name, Index: -1, StateDir: filepath.Join(root, name)}}, nil
	}
	if err != nil {
		return err
	}
	unlock, err := lock(root, name, report)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.remove(report); err != nil {
		return err
	}
	if err := os.Remove(lockPath(root, name)); err != nil {
		return fmt.Errorf("remove lock: %w", err)
	}
	if err := os.Remove(root); err != nil && !errors.Is(err, unix.ENOTEMPTY) { // other clusters have their states there
		return fmt.Errorf("remove state root: %w", err)
	}
	report.Printf("cluster %q is gone", name)
	return nil
}

// remove takes everything away in an order that can be begun again at any point: the state file, which says what there is, goes last.
func (s state) remove(report *progress.Reporter) error {
	report.Printf("removing cluster %q", s.Name)
	if err := s.killAll(); err != nil {
		return err
	}
	if s.Index >= 0 {
		if err := network.RemoveBridge(s.Cluster); err != nil {
			return err
		}
	}
	if err := unmountBelow(s.StateDir); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.StateDir)
	if err != nil {
		return fmt.Errorf("remove state: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == stateFile {
			continue
		}
		if err := os.RemoveAll(s.Path(entry.Name())); err != nil {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	if err := os.RemoveAll(s.StateDir); err != nil {
		return fmt.Errorf("remove state: %w", err)
	}
	return nil
}

// killAll ends the recorded processes and then whatever else is in the cluster's cgroup.
func (s state) killAll() error {
	files, err := filepath.Glob(s.Path("pids", "*.json"))
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	var errs []error
	for _, file := range files {
		record, err := process.Load(file)
		if err == nil {
			err = record.Kill(killTimeout)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := cgroup.Remove(s.CgroupRoot(), killTimeout); err != nil {
		return err
	}
	return cgroup.RemoveIfEmpty(filepath.Dir(s.CgroupRoot()))
}

// unmountBelow is for mounts that somebody made by hand: the cluster's own are in its nodes' mount namespaces and ended with them.
// Without it, removing the directory would remove what is mounted there.
func unmountBelow(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	for _, target := range slices.Backward(mountsBelow(string(data), dir)) {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
	return nil
}

func mountsBelow(mountinfo, dir string) []string {
	var found []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		target := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[4])
		if target == dir || strings.HasPrefix(target, dir+"/") {
			found = append(found, target)
		}
	}
	return found
}
