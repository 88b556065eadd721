package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// seen is what is known of a cluster that is being made.
type seen struct {
	instances int
	cluster   *porpoisev1.MySQLCluster
	topology  *porpoisev1.MySQLTopology
	// pods of instances by name, and that of the configuration check, which goes away when it has served.
	pods  map[string]*corev1.Pod
	check *corev1.Pod
}

// milestone is a claim that holds from some moment on.
type milestone struct {
	// stage names what ends with it.
	stage   string
	reached func(*seen) bool
}

// milestones of a creation, in the order in which they are reached. Each holds in all later states too, so that one that
// no watch showed by itself is found with the next.
var milestones = []milestone{
	{"accept: check the spec, make certificates and accounts", func(s *seen) bool { return s.check != nil }},
	{"make objects: claims, StatefulSets, Services", func(s *seen) bool { return len(s.pods) >= s.instances }},
	{"schedule: volumes bound, pods placed", func(s *seen) bool { return s.allPods(podScheduled) }},
	{"start containers: install the agent, start it", func(s *seen) bool { return s.allPods(mysqldRuns) }},
	{"check: what is left of it when the containers run, and the record", func(s *seen) bool { return s.topology != nil }},
	{"initialise: mysqld --initialize on all instances at once", func(s *seen) bool { return s.promoting() || s.pastInitialize() }},
	{"start the primary's mysqld, record it and the members", (*seen).promoting},
	{"promote: open the primary for its agent", func(s *seen) bool { return s.promoting() && s.topology.Status.Reason != porpoisev1.TopologyOpening }},
	{"replicas follow; acks in force, passed and recorded; clients let in", (*seen).routed},
	{"the other replicas follow", func(s *seen) bool { return s.routed() && s.topology.Status.Reason == porpoisev1.TopologyHealthy }},
	{"report Ready: roles on pods, readiness, status", (*seen).ready},
}

func (s *seen) ready() bool { return s.cluster != nil && env.AllReady(s.cluster) }

func (s *seen) allPods(claim func(*corev1.Pod) bool) bool {
	for _, p := range s.pods {
		if !claim(p) {
			return false
		}
	}
	return len(s.pods) >= s.instances
}

// promoting: the first primary's mysqld runs, and it stands in the record.
func (s *seen) promoting() bool { return s.topology != nil && len(s.topology.Status.History) > 0 }

// pastInitialize: the instance that is to be primary has its data.
func (s *seen) pastInitialize() bool {
	if s.topology == nil {
		return false
	}
	for _, i := range s.topology.Status.Instances {
		if i.Name == s.topology.Status.Primary {
			return i.State == porpoisev1.InstanceStarting || i.State == porpoisev1.InstanceJoining || i.State == porpoisev1.InstanceRunning
		}
	}
	return false
}

// routed: clients reach the primary, and each commit is acknowledged as often as wanted.
func (s *seen) routed() bool { return s.topology != nil && s.topology.Status.Routed }

func podScheduled(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }

func mysqldRuns(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == "mysqld" {
			return c.State.Running != nil
		}
	}
	return false
}

// addPod takes in a pod of the cluster.
func (s *seen) addPod(pod *corev1.Pod) {
	switch pod.Labels[naming.LabelComponent] {
	case "instance":
		if s.pods == nil {
			s.pods = map[string]*corev1.Pod{}
		}
		s.pods[pod.Name] = pod
	case "config-check":
		s.check = pod
	}
}

// track notes when each milestone was first seen to be reached.
type track [11]time.Duration

// look notes what is reached at a time since the start; zero: not yet.
func (t *track) look(s *seen, at time.Duration) {
	for i, m := range milestones {
		if t[i] == 0 && m.reached(s) {
			t[i] = at
		}
	}
}

// done says whether the last milestone is reached.
func (t *track) done() bool { return t[len(t)-1] != 0 }

// stages are the seconds that each stage took; they add up to the whole. Watches of different kinds are not in step, so
// one that seems to have ended before an earlier one took no time, and none ended after the last.
func (t *track) stages() []float64 {
	out := make([]float64, len(t))
	var before time.Duration
	for i, at := range t {
		at = min(max(at, before), t[len(t)-1])
		out[i] = (at - before).Seconds()
		before = at
	}
	return out
}
