package env

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Local drives the local cluster of test/cluster, a module of its own, through its command line.
type Local struct {
	name     string
	run      runner
	timeline *Timeline
}

// Name of the local cluster.
func (l *Local) Name() string { return l.name }

func (l *Local) binary() string { return filepath.Join(l.run.root, "bin", "cluster") }

// build makes the program once, so that each call costs nothing but its work.
func (l *Local) build(ctx context.Context) error {
	_, err := l.run.run(ctx, nil, "cluster-build", "go", "build", "-C", "test/cluster", "-o", l.binary(), ".")
	return err
}

func (l *Local) call(ctx context.Context, step *Step, args ...string) (string, error) {
	return l.run.run(ctx, step, "cluster-"+args[0], append([]string{l.binary(), "--name", l.name}, args...)...)
}

// Up creates or repairs the cluster, of this many nodes (0: 1, or as many as it has), and returns the path of its kubeconfig.
func (l *Local) Up(ctx context.Context, nodes int) (string, error) {
	what := "Kubernetes: local cluster " + l.name
	step := l.timeline.Begin("%s", what)
	if err := l.build(ctx); err != nil {
		return "", step.Fail(err)
	}
	args := []string{"up"}
	if nodes > 0 {
		args = append(args, "--nodes", strconv.Itoa(nodes))
	}
	if _, err := l.call(ctx, step, args...); err != nil {
		return "", step.Fail(err)
	}
	path, err := l.call(ctx, step, "kubeconfig")
	if err != nil {
		return "", step.Fail(err)
	}
	step.Done("runs; kubeconfig %s", path)
	return path, nil
}

// load brings image archives to every node.
func (l *Local) load(ctx context.Context, archives []string) error {
	step := l.timeline.Begin("Images: load into the nodes")
	if _, err := l.call(ctx, step, append([]string{"load"}, archives...)...); err != nil {
		return step.Fail(err)
	}
	step.Done("%d archives", len(archives))
	return nil
}

// TrustRegistry lets the nodes pull from a registry, HOST[:PORT], whose certificate the authority in a file (PEM) signed.
func (l *Local) TrustRegistry(ctx context.Context, host, authorityFile string) error {
	if err := l.build(ctx); err != nil {
		return err
	}
	if _, err := l.call(ctx, nil, "trust-registry", host, authorityFile); err != nil {
		return fmt.Errorf("trust registry %s: %w", host, err)
	}
	return nil
}

// Down removes the cluster with everything that belongs to it.
func (l *Local) Down(ctx context.Context) error {
	step := l.timeline.Begin("Kubernetes: remove local cluster %s", l.name)
	if err := l.build(ctx); err != nil {
		return step.Fail(err)
	}
	if _, err := l.call(ctx, step, "down"); err != nil {
		return step.Fail(err)
	}
	step.Done("nothing of it is left")
	return nil
}

// InNode prepares a program of this machine that runs in a node's network, where Services' addresses lead where they do for
// pods. Ending its context kills it.
func (l *Local) InNode(ctx context.Context, number int, program ...string) *exec.Cmd {
	return exec.CommandContext(ctx, l.binary(), append([]string{"--name", l.name, "in-node", strconv.Itoa(number), "--"}, program...)...)
}

// StopNode switches a node off: kubelet, containerd and all containers die at once. Nodes are numbered from 1.
func (l *Local) StopNode(ctx context.Context, number int) error {
	return l.node(ctx, "stop-node", number)
}

// StartNode switches a stopped node on and waits until it is ready.
func (l *Local) StartNode(ctx context.Context, number int) error {
	return l.node(ctx, "start-node", number)
}

// CutNode cuts a node from the network; its containers go on running.
func (l *Local) CutNode(ctx context.Context, number int) error {
	return l.node(ctx, "cut-node", number)
}

// HealNode puts a cut-off node back on the network.
func (l *Local) HealNode(ctx context.Context, number int) error {
	return l.node(ctx, "heal-node", number)
}

func (l *Local) node(ctx context.Context, action string, number int) error {
	if err := l.build(ctx); err != nil {
		return err
	}
	if _, err := l.call(ctx, nil, action, strconv.Itoa(number)); err != nil {
		return fmt.Errorf("%s %d: %w", action, number, err)
	}
	return nil
}

// NewLocal drives the local cluster of options without touching it.
func NewLocal(o Options) (*Local, error) {
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	return &Local{name: o.LocalName, run: r, timeline: NewTimeline(o.Out)}, nil
}

func newRunner(o Options) (runner, error) {
	root, err := findRoot()
	if err != nil {
		return runner{}, err
	}
	r := runner{root: root, logDir: o.LogDir}
	if r.logDir == "" {
		r.logDir = filepath.Join(root, "bin", "logs")
	}
	return r, nil
}
