// Package cgroup makes, fills and removes directories in the machine's cgroup hierarchies, of version 1 (several mounts, one for each
// controller) and version 2 (one mount). Callers name a group by its path, "/porpoise-cluster/x"; the package keeps it the same in
// every hierarchy.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Hierarchy is one mounted tree of groups.
type Hierarchy struct {
	Mount   string
	Version int
	// Controllers are the mount options of version 1, among them "cpuset".
	Controllers []string
}

// Hierarchies lists what is mounted. On version 1 machines the extra, controller-less "unified" mount is left out.
func Hierarchies() ([]Hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list cgroup mounts: %w", err)
	}
	defer f.Close()
	var found []Hierarchy
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if h, ok := parseMount(lines.Text()); ok {
			found = append(found, h)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list cgroup mounts: %w", err)
	}
	found = choose(found)
	if len(found) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted below /sys/fs/cgroup")
	}
	return found, nil
}

func parseMount(line string) (Hierarchy, bool) {
	left, right, ok := strings.Cut(line, " - ")
	fields, kind := strings.Fields(left), strings.Fields(right)
	if !ok || len(fields) < 5 || len(kind) < 3 || !strings.HasPrefix(fields[4], "/sys/fs/cgroup") {
		return Hierarchy{}, false
	}
	switch kind[0] {
	case "cgroup":
		return Hierarchy{Mount: fields[4], Version: 1, Controllers: strings.Split(kind[2], ",")}, true
	case "cgroup2":
		return Hierarchy{Mount: fields[4], Version: 2}, true
	}
	return Hierarchy{}, false
}

func choose(found []Hierarchy) []Hierarchy {
	isV1 := func(h Hierarchy) bool { return h.Version == 1 }
	if slices.ContainsFunc(found, isV1) {
		return slices.DeleteFunc(found, func(h Hierarchy) bool { return !isV1(h) })
	}
	return found
}

// Create makes the group and its parents in every hierarchy and makes it usable: cpuset groups of version 1 start without
// processors and refuse processes, groups of version 2 start without controllers.
func Create(path string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := createIn(h, path); err != nil {
			return fmt.Errorf("create cgroup %s in %s: %w", path, h.Mount, err)
		}
	}
	return nil
}

func createIn(h Hierarchy, path string) error {
	dir := h.Mount
	for _, element := range strings.Split(strings.Trim(path, "/"), "/") {
		parent := dir
		dir = filepath.Join(dir, element)
		if h.Version == 2 {
			if err := delegate(parent); err != nil {
				return err
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if slices.Contains(h.Controllers, "cpuset") {
			if err := inheritCPUSet(parent, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegate switches on, for the children of dir, every controller that dir has.
func delegate(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(data)) {
		// One at a time: a controller that cannot be delegated (cpu with real-time processes, say) must not cost the others.
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
		if err != nil && slices.Contains([]string{"cpu", "memory", "pids"}, controller) {
			return fmt.Errorf("hand controller %s to children of %s: %w", controller, dir, err)
		}
	}
	return nil
}

func inheritCPUSet(parent, child string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(child, file))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(have)) != "" {
			continue
		}
		value, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(child, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Join moves a process into the group, in every hierarchy.
func Join(path string, pid int) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		file := filepath.Join(h.Mount, path, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("move process %d to cgroup %s: %w", pid, path, err)
		}
	}
	return nil
}

// Processes lists the processes in the group and all groups below it.
func Processes(path string) ([]int, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, h := range hierarchies {
		err := filepath.WalkDir(filepath.Join(h.Mount, path), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Name() != "cgroup.procs" {
				return ignoreGone(err)
			}
			data, err := os.ReadFile(file)
			for _, field := range strings.Fields(string(data)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
					seen[pid] = true
				}
			}
			return ignoreGone(err)
		})
		if err != nil {
			return nil, fmt.Errorf("list processes of cgroup %s: %w", path, err)
		}
	}
	pids := make([]int, 0, len(seen))
	for pid := range seen {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids, nil
}

// ignoreGone drops the errors of reading a group while it is being removed.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// Remove kills every process in the group and below, and removes the directories. A group that does not exist is success.
func Remove(path string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		pids, err := Processes(path)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it was in our group a moment ago; that it is gone is what we want
		}
		if len(pids) == 0 {
			if err = removeDirs(path); err == nil {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("remove cgroup %s: processes %v are still there after %s", path, pids, timeout), err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// removeDirs removes the group bottom-up in every hierarchy.
func removeDirs(path string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(h.Mount, path), func(dir string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, dir)
			}
			return ignoreGone(err)
		})
		if err != nil {
			return err
		}
		for _, dir := range slices.Backward(dirs) {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("remove %s: %w", dir, err)
			}
		}
	}
	return nil
}

// RemoveIfEmpty removes the group only where it has neither processes nor children.
func RemoveIfEmpty(path string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		err := unix.Rmdir(filepath.Join(h.Mount, path))
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("remove cgroup %s in %s: %w", path, h.Mount, err)
		}
	}
	return nil
}
