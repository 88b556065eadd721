package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cgroup"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/network"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/process"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

const (
	containerdTimeout = 30 * time.Second
	killTimeout       = 20 * time.Second
)

// bootingNode is a node whose containerd runs and whose kubelet waits for the word.
type bootingNode struct{ stdin io.WriteCloser }

// letGo starts kubelet and kube-proxy. They would only back off, for longer and longer, before the API server serves.
func (b bootingNode) letGo() error {
	if b.stdin == nil { // the node was running already
		return nil
	}
	_, err := io.WriteString(b.stdin, "go\n")
	return errors.Join(err, b.stdin.Close())
}

// boot starts the node's process 1 and its network unless the node runs.
func (s state) boot(n plan.Node) (bootingNode, error) {
	if s.isRunning(n.Name()) {
		return bootingNode{}, nil
	}
	if err := s.clearNode(n); err != nil {
		return bootingNode{}, err
	}
	if err := s.ensureNodeFiles(n); err != nil {
		return bootingNode{}, err
	}
	for _, group := range []string{n.DaemonCgroup(), n.PodCgroup()} {
		if err := cgroup.Create(group); err != nil {
			return bootingNode{}, err
		}
	}
	running, err := process.Start(process.Spec{
		Args:    []string{filepath.Join(s.BinaryDir, "bin", "node"), filepath.Join(n.ConfigDir(), "node.json")},
		LogFile: filepath.Join(n.VarLog(), "node.log"), PIDFile: s.pidFile(n.Name()), Cgroup: n.DaemonCgroup(),
		Namespaces: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	})
	if err != nil {
		return bootingNode{}, err
	}
	if err := network.Connect(n, running.Record.PID); err != nil {
		return bootingNode{}, err
	}
	if _, err := io.WriteString(running.Go, "network\n"); err != nil {
		return bootingNode{}, fmt.Errorf("start %s: %w\n%s", n.Name(), err, toolchain.Tail(filepath.Join(n.VarLog(), "node.log"), 5))
	}
	return bootingNode{stdin: running.Go}, nil
}

// clearNode removes what an earlier life of the node may have left.
func (s state) clearNode(n plan.Node) error {
	record, err := process.Load(s.pidFile(n.Name()))
	if err != nil {
		return err
	}
	if err := record.Kill(killTimeout); err != nil {
		return fmt.Errorf("stop %s: %w", n.Name(), err)
	}
	if err := os.Remove(s.pidFile(n.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget %s: %w", n.Name(), err)
	}
	return cgroup.Remove(n.Cgroup(), killTimeout)
}

// inNode prepares a command that sees the node's files and network.
func (s state) inNode(ctx context.Context, n plan.Node, args ...string) (*exec.Cmd, error) {
	return s.enter(ctx, n, []string{"--mount", "--net"}, args)
}

// enter prepares a command in some of a node's namespaces.
func (s state) enter(ctx context.Context, n plan.Node, namespaces, args []string) (*exec.Cmd, error) {
	record, err := process.Load(s.pidFile(n.Name()))
	if err != nil {
		return nil, err
	}
	if !record.Alive() {
		return nil, fmt.Errorf("%s is not running", n.Name())
	}
	all := append([]string{"--target", strconv.Itoa(record.PID)}, namespaces...)
	return exec.CommandContext(ctx, "nsenter", append(append(all, "--"), args...)...), nil
}

// InNode runs a program of this machine in a node's network, with this process's input and output, until it ends.
func InNode(ctx context.Context, name string, number int, args []string) error {
	if err := errors.Join(plan.ValidateName(name), toolchain.RequireRoot()); err != nil {
		return err
	}
	s, err := load(StateRoot(), name)
	if err != nil {
		return err
	}
	n, err := s.node(number)
	if err != nil {
		return err
	}
	cmd, err := s.enter(ctx, n, []string{"--net"}, args)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s in the network of %s: %w", args[0], n.Name(), err)
	}
	return nil
}

func (s state) ctr(ctx context.Context, n plan.Node, args ...string) (*exec.Cmd, error) {
	return s.inNode(ctx, n, append([]string{"/usr/bin/ctr", "--address", plan.ContainerdSocket, "--namespace", "k8s.io"}, args...)...)
}

func (s state) waitContainerd(ctx context.Context, n plan.Node) error {
	socket := func(context.Context) error {
		// Connecting proves more than the file: it is there before containerd listens. /proc leads into the node's mounts.
		record, err := process.Load(s.pidFile(n.Name()))
		if err != nil {
			return err
		}
		_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(record.PID), "root", plan.ContainerdSocket))
		return err
	}
	if err := s.waitFor(ctx, "containerd on "+n.Name(), containerdTimeout, socket); err != nil {
		return fmt.Errorf("%w\n%s", err, toolchain.Tail(filepath.Join(n.VarLog(), "containerd.log"), 10))
	}
	return nil
}

// ensureSystemImages imports pause and CoreDNS unless the node has them.
func (s state) ensureSystemImages(ctx context.Context, n plan.Node, archives []string) error {
	if err := s.waitContainerd(ctx, n); err != nil {
		return err
	}
	marker := filepath.Join(n.VarLib(), "containerd", ".porpoise-images")
	have, err := os.ReadFile(marker)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for images on %s: %w", n.Name(), err)
	}
	want := strings.Join(archives, "\n")
	if string(have) == want {
		return nil
	}
	for _, archive := range archives {
		if err := s.importImage(ctx, n, archive); err != nil {
			return err
		}
	}
	return writeFile(marker, []byte(want), 0o644)
}

func (s state) importImage(ctx context.Context, n plan.Node, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("open image archive: %w", err)
	}
	defer f.Close()
	// The archive goes through stdin, since the node does not see all of the machine's files.
	cmd, err := s.ctr(ctx, n, "images", "import", "--snapshotter", s.Snapshotter, "-")
	if err != nil {
		return err
	}
	cmd.Stdin = f
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s into %s: %w\n%s", archive, n.Name(), err, output)
	}
	return nil
}
