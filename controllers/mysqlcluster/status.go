package mysqlcluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/conditions"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	eventSpecChanged   = "SpecChanged"
	eventStatusUpdated = "StatusUpdated"
	actionReconcile    = "Reconcile"
	actionReport       = "Report"
	// reportTimeout bounds the report where the reconcile itself was cancelled.
	reportTimeout = 10 * time.Second
)

// report writes the status, and only when it differs. It always runs; failed is the error of the steps, nil: none.
func report(ctx context.Context, s *scope, failed error) error {
	if s.live.statefulSets == nil {
		return nil // Nothing could be observed: there is nothing to report.
	}
	old := s.cluster.Status
	status := s.status(failed)
	if equality.Semantic.DeepEqual(old, status) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	updated := s.cluster.DeepCopy()
	updated.Status = status
	err := s.client.Status().Patch(ctx, updated, client.MergeFromWithOptions(s.cluster, client.MergeFromWithOptimisticLock{}), client.FieldOwner(naming.OwnerClusterLane))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("patch the status of MySQLCluster %s: %w", client.ObjectKeyFromObject(s.cluster), err)
	}
	s.announce(old, status)
	return nil
}

func (s *scope) status(failed error) v1.MySQLClusterStatus {
	status := *s.cluster.Status.DeepCopy()
	status.ObservedGeneration = s.cluster.Generation
	status.Replicas = int32(len(s.live.statefulSets))
	status.Selector = labels.SelectorFromSet(naming.ClusterSelector(s.cluster.Name)).String()
	status.Topology = s.topologySummary()
	status.Switchover = s.switchoverStatus()
	status.Instances = s.instanceStatuses()
	status.Version = s.newestRun()
	status.ReadyReplicas = 0
	for _, i := range status.Instances {
		if i.State == v1.InstanceRunning {
			status.ReadyReplicas++
		}
	}
	switch {
	case s.shape != nil:
		status.Revisions.Target, status.Image = s.shape.Revision(), s.shape.Image
	case s.target != nil:
		status.Revisions.Target, status.Image = s.target.Hash, s.target.Shape.Image
	}
	if end := conditions.CapEnds(s.live.topology, s.now); !end.IsZero() {
		s.requeueAfter(end.Sub(s.now))
	}
	status.Phase, status.Conditions = conditions.Evaluate(s.conditionInput(failed), s.cluster.Status.Conditions, s.now)
	status.Ready = meta.IsStatusConditionTrue(status.Conditions, v1.ConditionReady)
	if status.Ready && s.target != nil && s.plan.Done {
		status.Revisions.Stable = s.target.Hash
	}
	return status
}

func (s *scope) conditionInput(failed error) conditions.Input {
	problems := s.problems
	in := conditions.Input{
		Generation:         s.cluster.Generation,
		Deleting:           !s.cluster.DeletionTimestamp.IsZero(),
		Suspended:          s.cluster.Spec.Suspend,
		Instances:          s.wanted(),
		Leaving:            s.leaving(),
		Topology:           s.live.topology,
		Problems:           problems,
		Requests:           s.requests,
		Change:             s.plan.Message,
		CertificateProblem: s.certificateProblem,
		CertificateMessage: s.certificateMessage,
		EverReady:          s.everReady(),
	}
	if s.unjudged && in.Change == "" {
		in.Change = "checking the configuration of revision " + s.shape.Revision()
	}
	// Where the steps did not get as far as the certificates, what was known of them still holds.
	if c := meta.FindStatusCondition(s.cluster.Status.Conditions, v1.ConditionCertificatesValid); s.certificateMessage == "" && s.certificateProblem == nil {
		switch {
		case c != nil && c.Status == metav1.ConditionTrue:
			in.CertificateMessage = c.Message
		case c != nil:
			in.CertificateProblem = &conditions.Problem{Reason: c.Reason, Message: c.Message}
		default:
			in.CertificateProblem = &conditions.Problem{Reason: conditions.ReasonCreating, Message: "not made yet"}
		}
	}
	// A failing reconcile is tried again; what was Stalled before it is not known to be over.
	if c := meta.FindStatusCondition(s.cluster.Status.Conditions, v1.ConditionStalled); failed != nil && len(problems) == 0 && c != nil && c.Status == metav1.ConditionTrue {
		in.Problems = []conditions.Problem{{Reason: c.Reason, Message: c.Message}}
	}
	return in
}

func (s *scope) topologySummary() v1.TopologySummary {
	t := s.live.topology
	if t == nil {
		return v1.TopologySummary{}
	}
	summary := v1.TopologySummary{Primary: t.Status.Primary, Epoch: t.Status.Epoch}
	if q := t.Status.Quorum; q != nil {
		summary.RequiredAcks = q.RequiredAcks
		for _, member := range q.Members {
			summary.Members = append(summary.Members, member.Name)
		}
		s.byOrdinal(summary.Members)
	}
	return summary
}

func (s *scope) instanceStatuses() []v1.InstanceStatus {
	names := s.wanted()
	for name := range s.live.statefulSets {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var out []v1.InstanceStatus
	for _, name := range s.byOrdinal(names) {
		i := v1.InstanceStatus{Name: name, State: v1.InstancePending}
		if s.live.topology != nil {
			if t := topologyInstance(s.live.topology, name); t.Name != "" {
				i.Role, i.State, i.Version, i.Message = t.Role, t.State, t.Version, t.Message
			}
		}
		if pod := s.live.pods[name]; pod != nil {
			i.Node, i.Revision = pod.Spec.NodeName, pod.Annotations[naming.AnnotationRevision]
		}
		if problem, ok := s.trouble[name]; ok && i.State != v1.InstanceRunning {
			i.Message = problem.Message
		}
		if i.State == "" {
			i.State = v1.InstancePending
		}
		out = append(out, i)
	}
	return out
}

// announced are the conditions whose transitions are Events, and whether True is the bad state.
var announced = []struct {
	kind string
	bad  metav1.ConditionStatus
}{
	{v1.ConditionReady, metav1.ConditionFalse},
	{v1.ConditionProgressing, ""},
	{v1.ConditionStalled, metav1.ConditionTrue},
	{v1.ConditionCertificatesValid, metav1.ConditionFalse},
}

// announce makes Events of transitions; a status that stays the same is never announced twice.
func (s *scope) announce(old, status v1.MySQLClusterStatus) {
	if old.ObservedGeneration != status.ObservedGeneration {
		s.event(corev1.EventTypeNormal, eventSpecChanged, actionReconcile, fmt.Sprintf("following generation %d of the specification", status.ObservedGeneration), nil)
	}
	if old.Phase != status.Phase {
		s.event(corev1.EventTypeNormal, eventStatusUpdated, string(status.Phase), fmt.Sprintf("phase %s (was %s)", status.Phase, orNone(string(old.Phase))), nil)
	}
	s.announceTopology(old, status)
	for _, a := range announced {
		before, after := meta.FindStatusCondition(old.Conditions, a.kind), meta.FindStatusCondition(status.Conditions, a.kind)
		if after == nil || before != nil && before.Status == after.Status && (after.Status != a.bad || before.Reason == after.Reason) {
			continue
		}
		s.announceCondition(*after, after.Status == a.bad, before == nil)
	}
}

// announceCondition names the Event by the condition's reason where that says what is wrong, else by its type.
func (s *scope) announceCondition(c metav1.Condition, bad, first bool) {
	switch {
	case bad && c.Type == v1.ConditionReady && first:
		// It was never ready: that is no event.
	case bad && c.Type == v1.ConditionReady:
		s.event(corev1.EventTypeWarning, conditions.ReasonNotReady, c.Reason, c.Message, nil)
	case bad:
		s.event(corev1.EventTypeWarning, c.Reason, actionReport, c.Message, nil)
	case first && c.Status == metav1.ConditionFalse, c.Type == v1.ConditionCertificatesValid && first:
		// Nothing was wrong before either.
	case c.Type == v1.ConditionStalled:
		s.event(corev1.EventTypeNormal, "Unstalled", actionReport, c.Message, nil)
	case c.Type == v1.ConditionProgressing && c.Status == metav1.ConditionFalse:
		s.event(corev1.EventTypeNormal, "Settled", actionReport, c.Message, nil)
	default:
		s.event(corev1.EventTypeNormal, c.Type, c.Reason, c.Message, nil)
	}
}
