package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/network"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
)

const (
	stateFile        = "cluster.json"
	defaultStateRoot = "/var/lib/porpoise-cluster"
)

// StateRoot is the directory of all clusters' states.
func StateRoot() string {
	if dir := os.Getenv("PORPOISE_STATE"); dir != "" {
		return filepath.Clean(dir)
	}
	return defaultStateRoot
}

// state is what is remembered of a cluster.
type state struct {
	plan.Cluster
	// Resources limit what nodes offer to pods.
	Resources Resources `json:"resources"`
	// Registries are authorities (PEM) that the nodes trust, by the registry's HOST[:PORT].
	Registries map[string]string `json:"registries,omitempty"`
	// BinaryDir is the cache directory the cluster was last started from.
	BinaryDir   string `json:"binaryDir"`
	Snapshotter string `json:"snapshotter"`
}

// ErrNotFound says that there is no cluster of that name.
var ErrNotFound = errors.New("no such cluster")

func load(root, name string) (state, error) {
	data, err := os.ReadFile(filepath.Join(root, name, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("cluster %q in %s: %w", name, root, ErrNotFound)
	}
	if err != nil {
		return state{}, fmt.Errorf("read state of cluster %q: %w", name, err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, fmt.Errorf("parse state of cluster %q: %w", name, err)
	}
	s.StateDir = filepath.Join(root, name) // the directory may have been moved
	return s, nil
}

func (s state) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state of cluster %q: %w", s.Name, err)
	}
	if err := os.MkdirAll(s.StateDir, 0o755); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return writeFile(s.Path(stateFile), append(data, '\n'), 0o644)
}

// allocate chooses an index for a new cluster and takes it by saving the state, while no other process can.
func allocate(root, name string, nodes int, resources Resources) (state, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return state{}, fmt.Errorf("make state directory: %w", err)
	}
	dir, err := os.Open(root)
	if err != nil {
		return state{}, fmt.Errorf("open state directory: %w", err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return state{}, fmt.Errorf("lock %s: %w", root, err)
	}
	names, err := List(root)
	if err != nil {
		return state{}, err
	}
	taken := map[int]bool{}
	for _, other := range names {
		if s, err := load(root, other); err == nil {
			taken[s.Index] = true
		}
	}
	inUse, err := network.InUse()
	if err != nil {
		return state{}, err
	}
	index, err := plan.FreeIndex(inUse, taken)
	if err != nil {
		return state{}, err
	}
	s := state{Resources: resources, Cluster: plan.Cluster{
		Name: name, Index: index, Nodes: nodes, StateDir: filepath.Join(root, name)}}
	return s, s.save()
}

// List names the clusters that have a state.
func List(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "*", stateFile))
	if err != nil {
		return nil, fmt.Errorf("list clusters in %s: %w", root, err)
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return names, nil
}

// lock keeps two commands from changing one cluster at once. The file is removed by `down`, so a lock counts only if the path
// still leads to the locked file.
func lock(root, name string, report *progress.Reporter) (func(), error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	path := lockPath(root, name)
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			report.Printf("waiting for another command on cluster %q", name)
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				f.Close()
				return nil, fmt.Errorf("lock %s: %w", path, err)
			}
		}
		mine, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, there) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
}

func lockPath(root, name string) string { return filepath.Join(root, name+".lock") }

func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.WriteFile(path+".new", data, mode); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return os.Rename(path+".new", path)
}

// chooseSnapshotter tries whether the state directory's file system can carry an overlay.
func chooseSnapshotter(dir string) (string, error) {
	trial, err := os.MkdirTemp(dir, "overlay-trial-")
	if err != nil {
		return "", fmt.Errorf("try an overlay mount: %w", err)
	}
	defer os.RemoveAll(trial)
	var options []string
	for _, part := range []string{"lowerdir", "upperdir", "workdir"} {
		sub := filepath.Join(trial, part)
		if err := os.Mkdir(sub, 0o755); err != nil {
			return "", fmt.Errorf("try an overlay mount: %w", err)
		}
		options = append(options, part+"="+sub)
	}
	target := filepath.Join(trial, "lowerdir")
	if err := unix.Mount("overlay", target, "overlay", 0, strings.Join(options, ",")); err != nil {
		return "native", nil
	}
	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
		return "", fmt.Errorf("end the trial of an overlay mount: %w", err)
	}
	return "overlayfs", nil
}
