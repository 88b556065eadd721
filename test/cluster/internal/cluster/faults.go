package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/network"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/toolchain"
)

// open loads a cluster and takes its lock.
func open(name string, report *progress.Reporter) (state, func(), error) {
	if err := errors.Join(plan.ValidateName(name), toolchain.RequireRoot()); err != nil {
		return state{}, nil, err
	}
	s, err := load(StateRoot(), name)
	if err != nil {
		return state{}, nil, err
	}
	unlock, err := lock(StateRoot(), name, report)
	return s, unlock, err
}

func (s state) node(number int) (plan.Node, error) {
	if number < 1 || number > s.Nodes {
		return plan.Node{}, fmt.Errorf("node %d: cluster %q has nodes 1 to %d", number, s.Name, s.Nodes)
	}
	return s.Node(number), nil
}

// StopNode is a power failure: everything on the node ends at once and its network is gone. Disks stay.
func StopNode(name string, number int, report *progress.Reporter) error {
	s, unlock, err := open(name, report)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := s.node(number)
	if err != nil {
		return err
	}
	if err := s.clearNode(n); err != nil {
		return err
	}
	report.Printf("%s of cluster %q is off", n.Name(), name)
	return nil
}

// StartNode switches a stopped node on and waits until Kubernetes calls it ready.
func StartNode(ctx context.Context, name string, number int, report *progress.Reporter) error {
	s, unlock, err := open(name, report)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := s.node(number)
	if err != nil {
		return err
	}
	apiReady := make(chan struct{})
	close(apiReady)
	if err := s.ensureNode(ctx, n, toolchain.Binaries{Dir: s.BinaryDir}, apiReady); err != nil {
		return err
	}
	ready := func(ctx context.Context) error {
		api, err := s.api()
		if err != nil {
			return err
		}
		return s.nodesReady(ctx, api, []plan.Node{n})
	}
	if err := s.waitFor(ctx, n.Name(), 90*time.Second, ready); err != nil {
		return err
	}
	report.Printf("%s of cluster %q is ready", n.Name(), name)
	return nil
}

// SetCable cuts a node off from the network, both ways, or plugs it in again. Everything on the node goes on running.
func SetCable(name string, number int, plugged bool, report *progress.Reporter) error {
	s, unlock, err := open(name, report)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := s.node(number)
	if err != nil {
		return err
	}
	if err := network.SetCable(n, plugged); err != nil {
		return err
	}
	verb := "cut off from the network"
	if plugged {
		verb = "back on the network"
	}
	report.Printf("%s of cluster %q is %s", n.Name(), name, verb)
	return nil
}

// Load imports image archives (docker or OCI) into every running node.
func Load(ctx context.Context, name string, archives []string, report *progress.Reporter) error {
	s, unlock, err := open(name, report)
	if err != nil {
		return err
	}
	defer unlock()
	group, ctx := errgroup.WithContext(ctx)
	loaded := 0
	for _, n := range s.AllNodes() {
		if !s.isRunning(n.Name()) {
			report.Printf("%s is off and does not get the images", n.Name())
			continue
		}
		loaded++
		group.Go(func() error {
			for _, archive := range archives {
				if err := s.importImage(ctx, n, archive); err != nil {
					return err
				}
				report.Printf("%s has %s", n.Name(), archive)
			}
			return nil
		})
	}
	if loaded == 0 {
		return fmt.Errorf("cluster %q has no running node: run `up`", name)
	}
	return group.Wait()
}
