package mysqlcluster

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/rollout"
)

const (
	reasonUpdateStuck = "UpdateStuck"
	eventRestarting   = "Restarting"
	eventRemoving     = "Removing"
	actionRestart     = "Restart"
	actionRemove      = "Remove"
)

// planRollout decides which instance gets the target next. It decides only; the steps after it act.
func planRollout(_ context.Context, s *scope) (Result, error) {
	s.troubles()
	if s.live.topology != nil {
		s.plan.Restarting = s.live.topology.Spec.Restarting
	}
	if s.target == nil || s.foreign {
		return Continue(), nil
	}
	in := rollout.Input{Target: s.target.Hash}
	if s.live.topology != nil {
		in.Restarting, in.RestartReady = s.live.topology.Spec.Restarting, s.live.topology.Status.RestartReady
	}
	for _, name := range s.wanted() {
		if s.live.statefulSets[name] != nil {
			in.Instances = append(in.Instances, s.rolloutInstance(name))
		}
	}
	s.plan = rollout.Plan(in)
	if s.plan.Stuck {
		s.problem(reasonUpdateStuck, s.plan.Message)
	} else if s.plan.Message != "" {
		s.requeueAfter(rollout.ProgressDeadline / 10)
	}
	return Continue(), nil
}

func (s *scope) rolloutInstance(name string) rollout.Instance {
	set := s.live.statefulSets[name]
	i := rollout.Instance{
		Name:             name,
		Template:         set.Annotations[naming.AnnotationRevision],
		TemplateObserved: set.Status.ObservedGeneration >= set.Generation,
	}
	if pod := s.live.pods[name]; pod != nil {
		i.HasPod = true
		i.Revision = pod.Annotations[naming.AnnotationRevision]
		i.PodAge = s.now.Sub(pod.CreationTimestamp.Time)
	}
	if t := s.live.topology; t != nil {
		i.Primary = t.Status.Primary == name
		state := topologyInstance(t, name).State
		i.Running = state == v1.InstanceRunning && i.HasPod
		i.Broken = state == v1.InstanceBroken
		i.Member = i.Primary || isMember(t, name)
	}
	// A container that cannot run is no evidence against an instance that serves; it may be somebody's sidecar. And one that
	// never had anything to do follows a corrected specification at once, without any handshake.
	_, trouble := s.trouble[name]
	i.Broken = i.Broken || trouble && !i.Running || s.unfounded()
	return i
}

func topologyInstance(t *v1.MySQLTopology, name string) v1.TopologyInstance {
	for _, i := range t.Status.Instances {
		if i.Name == name {
			return i
		}
	}
	return v1.TopologyInstance{}
}

func isMember(t *v1.MySQLTopology, name string) bool {
	return t.Status.Quorum != nil && slices.ContainsFunc(t.Status.Quorum.Members, func(m v1.QuorumMember) bool { return m.Name == name })
}

// instances keeps the StatefulSet of every instance, each by the revision that it is at.
func instances(ctx context.Context, s *scope) (Result, error) {
	if s.foreign {
		return Continue(), nil
	}
	for _, name := range append(s.wanted(), s.leaving()...) {
		if err := s.keepInstance(ctx, name); err != nil {
			return Result{}, err
		}
	}
	return Continue(), nil
}

func (s *scope) keepInstance(ctx context.Context, name string) error {
	set := s.live.statefulSets[name]
	shape := s.shapeOf(name, set)
	if shape == nil || s.live.claims[naming.DataClaim(name)] == nil && s.invalid {
		return nil
	}
	if set != nil && !set.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := s.applyConfigMap(ctx, *shape); err != nil {
		return err
	}
	return s.apply(ctx, desired.StatefulSet(s.in, *shape, name), set)
}

// shapeOf returns what an instance is to be built from: the target when it is new or its turn has come, else the revision
// that it is at. nil: that is not known, so that it must be left alone.
func (s *scope) shapeOf(name string, set *appsv1.StatefulSet) *desired.Shape {
	if set == nil || slices.Contains(s.plan.Update, name) {
		if s.target == nil {
			return nil
		}
		return &s.target.Shape
	}
	at := set.Annotations[naming.AnnotationRevision]
	if s.target != nil && s.target.Hash == at {
		return &s.target.Shape
	}
	if stored, ok := s.live.revisions[at]; ok {
		return &stored.Shape
	}
	return nil
}

// topology tells the topology lane what is wanted. It keeps its record while the specification is invalid.
func topology(ctx context.Context, s *scope) (Result, error) {
	spec := desired.TopologySpec(s.cluster)
	if s.invalid && s.live.topology != nil {
		spec = *s.live.topology.Spec.DeepCopy()
	}
	spec.Restarting = s.plan.Restarting
	// What people ask for in an emergency does not wait for a correct specification.
	s.wishes(&spec)
	if s.foreign || s.live.topology == nil && !s.mayFound() {
		return Continue(), nil
	}
	return Continue(), s.apply(ctx, desired.Topology(s.in, spec), s.live.topology)
}

// mayFound tells whether the record may be made, upon which the topology lane initialises instances: their configuration
// is accepted, and every volume is seen without the mark of a blank one. Without the second a volume could be deleted with
// the cluster although it holds data.
func (s *scope) mayFound() bool {
	if s.invalid || s.target == nil || s.tentative {
		return false
	}
	for _, name := range s.wanted() {
		if claim := s.live.claims[naming.DataClaim(name)]; claim == nil || isBlank(claim) {
			return false
		}
	}
	return true
}

// restart deletes the pods that the plan replaces. They come back at the revision of their template.
func restart(ctx context.Context, s *scope) (Result, error) {
	for _, name := range s.plan.Delete {
		pod := s.live.pods[name]
		if pod == nil || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if err := s.applier.DeleteUID(ctx, pod); err != nil {
			return Result{}, err
		}
		s.event(corev1.EventTypeNormal, eventRestarting, actionRestart, fmt.Sprintf("replacing the pod of %s by revision %s", name, s.target.Hash),
			s.child("v1", "Pod", pod.Name))
	}
	return Continue(), nil
}

// remove deletes instances that are no longer wanted, once the topology lane has let go of them.
func remove(ctx context.Context, s *scope) (Result, error) {
	for _, name := range s.leaving() {
		if !s.released(name) {
			continue
		}
		if err := s.removeInstance(ctx, name); err != nil {
			return Result{}, err
		}
	}
	return Continue(), nil
}

// released tells whether an instance may be removed: it is not wanted, and the topology lane has let go of it.
func (s *scope) released(name string) bool {
	t := s.live.topology
	return !s.invalid && !s.foreign && t != nil && !slices.Contains(s.wanted(), name) &&
		t.Status.ObservedGeneration >= t.Generation && !slices.Contains(t.Spec.Instances, name) &&
		t.Status.Primary != name && !isMember(t, name) && !changesPrimary(t)
}

// changesPrimary tells whether another primary is being made: until it is open its predecessor, which nothing in the record
// names any more, may be the only other one that holds everything.
func changesPrimary(t *v1.MySQLTopology) bool {
	switch t.Status.Phase {
	case v1.TopologyDraining, v1.TopologyFencing, v1.TopologyPromoting:
		return true
	}
	return false
}

func (s *scope) removeInstance(ctx context.Context, name string) error {
	set := s.live.statefulSets[name]
	if set.DeletionTimestamp.IsZero() {
		s.event(corev1.EventTypeNormal, eventRemoving, actionRemove, fmt.Sprintf("removing instance %s", name), s.child("apps/v1", "StatefulSet", name))
	}
	var objects []client.Object
	if claim := s.live.claims[naming.DataClaim(name)]; claim != nil && s.cluster.Spec.Storage.ReclaimPolicy == v1.ReclaimDelete {
		objects = append(objects, claim)
	}
	if secret := s.live.secrets[naming.SecretInstanceTLS(name)]; secret != nil {
		objects = append(objects, secret)
	}
	// The StatefulSet is last: while it is there, what is left of the instance is found and removed again.
	for _, object := range append(objects, client.Object(set)) {
		if err := s.applier.DeleteUID(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
