package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

func podEvent(name, component string, change func(*corev1.Pod)) watch.Event {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{naming.LabelComponent: component}}}
	if change != nil {
		change(pod)
	}
	return watch.Event{Type: watch.Modified, Object: pod}
}

func topologyEvent(change func(*porpoisev1.MySQLTopologyStatus)) watch.Event {
	t := &porpoisev1.MySQLTopology{Spec: porpoisev1.MySQLTopologySpec{Acks: 1}}
	change(&t.Status)
	return watch.Event{Type: watch.Modified, Object: t}
}

func running(p *corev1.Pod) {
	p.Spec.NodeName = "node"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mysqld", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func readyCluster() watch.Event {
	c := clusterOf(benchNamespace, benchCluster, 3)
	c.Status.ReadyReplicas = 3
	c.Status.Conditions = []metav1.Condition{{Type: porpoisev1.ConditionReady, Status: metav1.ConditionTrue}}
	return watch.Event{Type: watch.Modified, Object: c}
}

// state of a record as the topology lane writes it.
func state(reason string, routed bool) func(*porpoisev1.MySQLTopologyStatus) {
	return func(s *porpoisev1.MySQLTopologyStatus) {
		s.Primary, s.Reason, s.Routed = "bench-0", reason, routed
		s.History = []porpoisev1.EpochRecord{{Epoch: 1}}
		s.Instances = []porpoisev1.TopologyInstance{{Name: "bench-0", State: porpoisev1.InstanceRunning}}
	}
}

func TestEachMilestoneIsReachedInItsTurn(t *testing.T) {
	started := topologyEvent(func(s *porpoisev1.MySQLTopologyStatus) {
		s.Primary, s.Reason = "bench-0", porpoisev1.TopologyInitializing
		s.Instances = []porpoisev1.TopologyInstance{{Name: "bench-0", State: porpoisev1.InstanceStarting}}
	})
	placed := func(p *corev1.Pod) { p.Spec.NodeName = "node" }
	// After each of these groups exactly one more milestone is reached.
	groups := [][]watch.Event{
		{podEvent("c", "config-check", nil)},
		{podEvent("a", "instance", nil), podEvent("b", "instance", nil), podEvent("d", "instance", nil)},
		{podEvent("a", "instance", placed), podEvent("b", "instance", placed), podEvent("d", "instance", placed)},
		{podEvent("a", "instance", running), podEvent("b", "instance", running), podEvent("d", "instance", running)},
		{topologyEvent(func(*porpoisev1.MySQLTopologyStatus) {})},
		{started},
		{topologyEvent(state(porpoisev1.TopologyOpening, false))},
		{topologyEvent(state(porpoisev1.TopologyWaitingForMembers, false))},
		{topologyEvent(state(porpoisev1.TopologyDegraded, true))},
		{topologyEvent(state(porpoisev1.TopologyHealthy, true))},
		{readyCluster()},
	}
	if len(groups) != len(milestones) {
		t.Fatalf("%d groups for %d milestones", len(groups), len(milestones))
	}
	s, tr := &seen{instances: 3}, &track{}
	for i, group := range groups {
		if tr.done() {
			t.Fatalf("done before %q", milestones[i].stage)
		}
		for n, event := range group {
			if tr[i] != 0 {
				t.Fatalf("%q was reached after %d of %d events", milestones[i].stage, n, len(group))
			}
			s.take(event)
			tr.look(s, time.Duration(i+1)*time.Second)
		}
		for j := range milestones {
			if got := tr[j] != 0; got != (j <= i) {
				t.Errorf("after group %d: %q reached: %t", i, milestones[j].stage, got)
			}
		}
	}
	if !tr.done() {
		t.Error("not done")
	}
	for i, seconds := range tr.stages() {
		if seconds != 1 {
			t.Errorf("%q took %v s, want 1", milestones[i].stage, seconds)
		}
	}
}

func TestStagesAddUpWhateverTheWatchesOrder(t *testing.T) {
	for name, tr := range map[string]track{
		"out of order":     {1, 5, 3, 4, 5, 6, 7, 8, 9, 11, 12},
		"after the end":    {1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 12},
		"some never shown": {1, 2, 0, 4, 5, 0, 7, 8, 9, 11, 12},
	} {
		for i := range tr {
			tr[i] *= time.Second //nolint:durationcheck // The table counts seconds.
		}
		total := 0.0
		for i, seconds := range tr.stages() {
			if seconds < 0 {
				t.Errorf("%s: %q took %v s", name, milestones[i].stage, seconds)
			}
			total += seconds
		}
		if total != 12 {
			t.Errorf("%s: the stages add up to %v s, want 12", name, total)
		}
	}
}

func TestADeletedPodTakesNothingBack(t *testing.T) {
	s := &seen{instances: 3}
	check := podEvent("c", "config-check", nil)
	s.take(check)
	check.Type = watch.Deleted
	s.take(check)
	if s.check == nil {
		t.Error("the check was forgotten")
	}
}
