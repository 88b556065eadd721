package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/kubeapi"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/network"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/render"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

// Options are the choices of `up`.
type Options struct {
	Name string
	// Nodes is 0 when the user did not say: 1 for a new cluster, as many as there are for an existing one.
	Nodes     int
	Resources Resources

	// registries are those of the cluster that is made anew.
	registries map[string]string
}

// Up makes the cluster run. See the package comment.
func Up(ctx context.Context, o Options, report *progress.Reporter) error {
	if err := errors.Join(plan.ValidateName(o.Name), validateNodes(o.Nodes), toolchain.RequireRoot()); err != nil {
		return err
	}
	if err := toolchain.EnsurePackages(ctx, report); err != nil {
		return err
	}
	binaries, err := toolchain.Ensure(ctx, report)
	if err != nil {
		return err
	}
	root := StateRoot()
	unlock, err := lock(root, o.Name, report)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := load(root, o.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		return create(ctx, root, o, binaries, report)
	case err != nil:
		return err
	}
	return revive(ctx, s, o, binaries, report)
}

func validateNodes(nodes int) error {
	if nodes == 0 {
		return nil
	}
	return plan.ValidateNodes(nodes)
}

func create(ctx context.Context, root string, o Options, binaries toolchain.Binaries, report *progress.Reporter) error {
	s, err := allocate(root, o.Name, max(o.Nodes, 1), o.Resources)
	if err != nil {
		return err
	}
	s.Registries = o.registries
	report.Printf("creating cluster %q: Kubernetes %s, %d node(s), API at %s", s.Name, toolchain.KubernetesVersion, s.Nodes, s.APIServerURL())
	return s.bringUp(ctx, binaries, report)
}

// revive makes an existing cluster complete; a cluster that cannot be repaired is made anew.
func revive(ctx context.Context, s state, o Options, binaries toolchain.Binaries, report *progress.Reporter) error {
	if o.Nodes != 0 && o.Nodes < s.Nodes {
		return fmt.Errorf("cluster %q has %d nodes and cannot shrink to %d: run `down` first", s.Name, s.Nodes, o.Nodes)
	}
	grows := o.Nodes > s.Nodes
	s.Nodes = max(s.Nodes, o.Nodes)
	if len(o.Resources.Memory)+len(o.Resources.CPU) > 0 {
		s.Resources = o.Resources // takes effect on nodes that are started from now on
	}
	if !grows && s.problem(ctx) == nil {
		report.Printf("cluster %q is running (KUBECONFIG=%s)", s.Name, s.Kubeconfig())
		return nil
	}
	report.Printf("repairing cluster %q", s.Name)
	err := s.bringUp(ctx, binaries, report)
	if err == nil || ctx.Err() != nil {
		return err
	}
	report.Printf("it cannot be repaired and is made anew. The reason: %v", err)
	if err := s.remove(report); err != nil {
		return err
	}
	o.Nodes, o.Resources, o.registries = s.Nodes, s.Resources, s.Registries
	return create(ctx, filepath.Dir(s.StateDir), o, binaries, report)
}

// bringUp is the list of all steps. The API server and the nodes' containerd start side by side.
func (s state) bringUp(ctx context.Context, binaries toolchain.Binaries, report *progress.Reporter) error {
	var err error
	s.BinaryDir = binaries.Dir
	if s.Snapshotter, err = chooseSnapshotter(s.StateDir); err != nil {
		return err
	}
	if err := errors.Join(s.save(), s.ensureControlFiles(), network.EnsureBridge(s.Cluster)); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	apiReady := make(chan struct{})
	group.Go(func() error {
		if err := s.ensureAPI(groupCtx, report); err != nil {
			return err
		}
		close(apiReady)
		return s.ensureControllers()
	})
	for _, n := range append(s.AllNodes(), s.Gateway()) {
		group.Go(func() error { return s.ensureNode(groupCtx, n, binaries, apiReady) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// After the nodes have its image: a kubelet that misses one tries again only ten seconds later.
	if err := s.applySystem(ctx); err != nil {
		return err
	}
	if err := s.ensureProcess(render.Provisioner); err != nil { // it has no rights before
		return err
	}
	report.Printf("control plane runs; waiting for nodes and DNS")
	if err := s.waitComplete(ctx); err != nil {
		return err
	}
	report.Printf("cluster %q is ready after %s: export KUBECONFIG=%s", s.Name, report.Elapsed(), s.Kubeconfig())
	return nil
}

// ensureNode starts the node. Its kubelet registers while the images are still being imported.
func (s state) ensureNode(ctx context.Context, n plan.Node, binaries toolchain.Binaries, apiReady <-chan struct{}) error {
	booting, err := s.boot(n)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if !n.IsGateway() {
		group.Go(func() error { return s.ensureSystemImages(ctx, n, binaries.Images()) })
	}
	group.Go(func() error {
		select {
		case <-apiReady:
			return booting.letGo()
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return group.Wait()
}

func (s state) waitComplete(ctx context.Context) error {
	err := s.waitFor(ctx, "the cluster", 90*time.Second, s.problem, controlPlane()...)
	if err == nil {
		return nil
	}
	for _, n := range s.AllNodes() {
		for _, daemon := range []string{"node", "kubelet"} {
			log := filepath.Join(n.VarLog(), daemon+".log")
			err = fmt.Errorf("%w\nend of %s:\n%s", err, log, toolchain.Tail(log, 5))
		}
	}
	return err
}

// problem names the first thing that keeps the cluster from being complete, or is nil.
func (s state) problem(ctx context.Context) error {
	names := controlPlane()
	for _, n := range append(s.AllNodes(), s.Gateway()) {
		names = append(names, n.Name())
	}
	for _, name := range names {
		if !s.isRunning(name) {
			return fmt.Errorf("%s is not running", name)
		}
	}
	for _, n := range append(s.AllNodes(), s.Gateway()) {
		if !network.IsPlugged(n) {
			return fmt.Errorf("%s is cut off from the network", n.Name())
		}
	}
	return s.problemInAPI(ctx)
}

func (s state) problemInAPI(ctx context.Context) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	if err := s.nodesReady(ctx, api, s.AllNodes()); err != nil {
		return err
	}
	dns, err := api.ReadyPods(ctx, "kube-system", "k8s-app%3Dkube-dns")
	if err != nil {
		return err
	}
	for _, n := range s.AllNodes() {
		if !dns[n.Name()] {
			return fmt.Errorf("DNS on %s is not ready", n.Name())
		}
	}
	return missingObjects(ctx, []string{
		"/api/v1/namespaces/default/serviceaccounts/default",
		"/apis/storage.k8s.io/v1/storageclasses/standard",
	}, api.Exists)
}

// nodesReady does not believe a Ready that an earlier life of a node left in the API: it must be younger than the node's process 1.
func (s state) nodesReady(ctx context.Context, api *kubeapi.Client, nodes []plan.Node) error {
	known, err := api.Nodes(ctx)
	if err != nil {
		return err
	}
	byName := map[string]kubeapi.Node{}
	for _, k := range known {
		byName[k.Name] = k
	}
	for _, n := range nodes {
		booted, err := os.Stat(s.pidFile(n.Name()))
		if err != nil {
			return fmt.Errorf("look up when %s was started: %w", n.Name(), err)
		}
		switch k, registered := byName[n.Name()]; {
		case !registered:
			return fmt.Errorf("node %s has not registered yet", n.Name())
		case !k.Heartbeat.After(booted.ModTime()):
			return fmt.Errorf("node %s has not reported since it was started", n.Name())
		case !k.Ready:
			return fmt.Errorf("node %s is not ready: %s", n.Name(), k.Reason)
		}
	}
	return nil
}

func missingObjects(ctx context.Context, paths []string, exists func(context.Context, string) (bool, error)) error {
	var missing []string
	for _, path := range paths {
		found, err := exists(ctx, path)
		if err != nil {
			return err
		}
		if !found {
			missing = append(missing, path)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("not there yet: %s", strings.Join(missing, ", "))
	}
	return nil
}
