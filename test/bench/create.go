package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/test/env"
)

// readyTimeout bounds one creation.
const readyTimeout = 5 * time.Minute

// createOptions of `bench create`.
type createOptions struct {
	runs, instances int
}

func (o *createOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.runs, "runs", 10, "creations to measure")
	f.IntVar(&o.instances, "instances", 3, "instances of the cluster")
}

func (*createOptions) quick() map[string]string { return map[string]string{"runs": "1"} }

func (o *createOptions) check() error {
	return errors.Join(between("runs", o.runs, 1, 1000), between("instances", o.instances, 2, 10))
}

// measure makes a cluster and removes it, again and again.
func (o *createOptions) measure(ctx context.Context, k *kubernetes) error {
	f := k.figure("create", fmt.Sprintf("Apply to Ready, %d instances", o.instances))
	if o.instances == 3 {
		f.Target = "at most 20 s"
	}
	f.Note("From the call that creates the MySQLCluster until its status says Ready with all instances, as watches show it; %d node(s); images are in the nodes; between runs the cluster and its volumes are removed", max(1, k.bench.env.Nodes))
	totals, stages, removals := []float64{}, make([][]float64, len(milestones)), []float64{}
	for run := range o.runs {
		if err := k.remove(ctx); err != nil {
			return err
		}
		t, err := k.createOnce(ctx, run+1, o)
		if err != nil {
			return err
		}
		total := 0.0
		for i, seconds := range t.stages() {
			stages[i] = append(stages[i], seconds)
			total += seconds
		}
		totals = append(totals, total)
		began := time.Now()
		if err := k.remove(ctx); err != nil {
			return err
		}
		removals = append(removals, time.Since(began).Seconds())
	}
	f.Add("Apply to Ready", "s", totals...)
	for i, m := range milestones {
		f.Add("… "+m.stage, "s", stages[i]...)
	}
	f.Add("Removal, volumes included", "s", removals...)
	return k.keepFigure(f)
}

// createOnce makes the cluster and follows it by watches until it is Ready.
func (k *kubernetes) createOnce(ctx context.Context, run int, o *createOptions) (*track, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("MySQLCluster %s was not Ready within %s", benchCluster, readyTimeout))
	defer cancel()
	step := k.env.Timeline.Begin("Run %d of %d: create MySQLCluster %s", run, o.runs, benchCluster)
	events, err := k.events(ctx)
	if err != nil {
		return nil, step.Fail(err)
	}
	s, t := &seen{instances: o.instances}, &track{}
	began := time.Now()
	if err := k.env.Client.Create(ctx, clusterOf(benchNamespace, benchCluster, o.instances)); err != nil {
		return nil, step.Fail(fmt.Errorf("create MySQLCluster %s: %w", benchCluster, err))
	}
	for !t.done() {
		select {
		case <-ctx.Done():
			return nil, step.Fail(context.Cause(ctx))
		case event, ok := <-events:
			at := time.Since(began)
			if !ok || event.Type == watch.Error {
				return nil, step.Fail(fmt.Errorf("watch MySQLCluster %s: the watch ended: %v", benchCluster, event.Object))
			}
			s.take(event)
			t.look(s, at)
			if s.cluster != nil {
				step.Update(env.Describe(s.cluster))
			}
		}
	}
	step.Done("Ready after %.2f s", t[len(t)-1].Seconds())
	return t, nil
}

// take updates what is known.
func (s *seen) take(event watch.Event) {
	if event.Type == watch.Deleted {
		return // What was reached stays reached.
	}
	switch object := event.Object.(type) {
	case *porpoisev1.MySQLCluster:
		s.cluster = object
	case *porpoisev1.MySQLTopology:
		s.topology = object
	case *corev1.Pod:
		s.addPod(object)
	}
}

// events joins the watches of all kinds that tell how far a creation is. It is closed when one of them ends.
func (k *kubernetes) events(ctx context.Context) (<-chan watch.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan watch.Event)
	ended := make(chan struct{}, 3)
	for _, list := range []client.ObjectList{&porpoisev1.MySQLClusterList{}, &porpoisev1.MySQLTopologyList{}, &corev1.PodList{}} {
		w, err := k.watch.Watch(ctx, list, client.InNamespace(benchNamespace))
		if err != nil {
			cancel()
			return nil, fmt.Errorf("watch %T: %w", list, err)
		}
		go func() {
			defer func() { ended <- struct{}{} }()
			defer w.Stop()
			for event := range w.ResultChan() {
				select {
				case out <- event:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	go func() {
		<-ended
		cancel()
		<-ended
		<-ended
		close(out)
	}()
	return out, nil
}
