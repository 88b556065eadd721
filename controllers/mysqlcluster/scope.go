package mysqlcluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/apply"
	"github.com/porpoise-dev/porpoise/internal/clip"
	"github.com/porpoise-dev/porpoise/internal/conditions"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/rollout"
)

// Delays until the next look at what no watch tells of.
const (
	// conflictDelay lets a stale cache catch up.
	conflictDelay = 200 * time.Millisecond
	// problemDelay is for problems whose end no watch tells of, such as a quota.
	problemDelay = 10 * time.Second
	// missingPodDelay is how long a StatefulSet may take to make its pod before it is asked why.
	missingPodDelay = 3 * time.Second
	// settleDelay is how long a pod may be unschedulable before that is called a problem; volumes are bound meanwhile.
	settleDelay = 5 * time.Second
)

// scope is one reconcile of one cluster.
type scope struct {
	*Reconciler
	cluster *v1.MySQLCluster
	in      desired.Input
	live    observed
	now     time.Time

	// problems, the most important first; each is reported once.
	problems []conditions.Problem
	// requests of people that cannot be read.
	requests []conditions.Problem
	// invalid is true when the specification must not be followed.
	invalid bool
	// foreign is true when volumes are not this cluster's: no instance may be touched.
	foreign bool

	// shape that the specification resolves to; nil: it does not.
	shape        *desired.Shape
	resolvedFrom string
	// unjudged is true while the shape has no verdict.
	unjudged bool
	// target is the newest accepted revision, which instances are to run; nil: none yet.
	target *desired.StoredRevision
	// tentative is true while the target is still being checked: its pods may be made, but nothing is written to a volume.
	tentative bool
	// plan of the rollout.
	plan rollout.Decision
	// trouble says of an instance what keeps its pod from running.
	trouble map[string]conditions.Problem

	certificateProblem *conditions.Problem
	// trust is the bundle by which clients and instances verify each other, in PEM.
	trust              []byte
	certificateMessage string

	requeue time.Duration
}

func newScope(r *Reconciler, cluster *v1.MySQLCluster) *scope {
	return &scope{
		Reconciler: r,
		cluster:    cluster,
		now:        r.options.Clock.Now(),
		trouble:    map[string]conditions.Problem{},
		in: desired.Input{
			Cluster:           cluster,
			OperatorImage:     r.options.OperatorImage,
			OperatorNamespace: r.options.OperatorNamespace,
		},
	}
}

// requeueAfter asks for another reconcile, at the latest after d.
func (s *scope) requeueAfter(d time.Duration) {
	if s.requeue == 0 || d < s.requeue {
		s.requeue = d
	}
}

// problem records what a person must correct.
func (s *scope) problem(reason, message string) {
	p := conditions.Problem{Reason: reason, Message: message}
	if !slices.Contains(s.problems, p) {
		s.problems = append(s.problems, p)
	}
}

// apply makes an object what is desired. A refusal that only a person can end becomes a problem, and is no error, so that
// one child that cannot be made does not keep the others from being healed.
func (s *scope) apply(ctx context.Context, want apply.Configuration, live client.Object) error {
	_, err := s.applier.Apply(ctx, want, live, s.owned)
	return s.absorb(err)
}

// create makes an object that must not be made twice.
func (s *scope) create(ctx context.Context, want apply.Configuration) error {
	return s.absorb(s.applier.Create(ctx, want, s.owned))
}

// applySecret makes a Secret what is desired. Where the cache has none its content was made up just now, and must not
// replace that of one which exists.
func (s *scope) applySecret(ctx context.Context, want apply.Configuration, live *corev1.Secret) error {
	if live == nil {
		return s.create(ctx, want)
	}
	return s.apply(ctx, want, live)
}

// absorb turns an error that only a person can end into a problem.
func (s *scope) absorb(err error) error {
	problem, ok := classify(err)
	if !ok {
		return err
	}
	s.problem(problem.Reason, problem.Message)
	s.requeueAfter(problemDelay)
	return nil
}

// Reasons of refusals.
const (
	reasonObjectExists  = "ObjectExists"
	reasonQuotaExceeded = "QuotaExceeded"
	reasonForbidden     = "Forbidden"
	reasonRefused       = "Refused"
)

// classify tells whether an error is the API server's refusal of what was asked for, and names it.
func classify(err error) (conditions.Problem, bool) {
	switch {
	case err == nil:
		return conditions.Problem{}, false
	case errors.Is(err, apply.ErrForeign):
		return conditions.Problem{Reason: reasonObjectExists, Message: err.Error() + "; rename or delete it"}, true
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return conditions.Problem{Reason: reasonQuotaExceeded, Message: err.Error()}, true
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return conditions.Problem{}, false
	case apierrors.IsForbidden(err):
		return conditions.Problem{Reason: reasonForbidden, Message: err.Error()}, true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return conditions.Problem{Reason: reasonRefused, Message: err.Error()}, true
	}
	return conditions.Problem{}, false
}

// owned tells whether an object may be taken over: the cluster controls it, or it is a volume of this cluster's name
// (a kept one has no owner; whose data it holds is checked apart).
func (s *scope) owned(object client.Object) bool {
	if metav1.IsControlledBy(object, s.cluster) {
		return true
	}
	_, claim := object.(*corev1.PersistentVolumeClaim)
	return claim && object.GetLabels()[naming.LabelCluster] == s.cluster.Name && metav1.GetControllerOf(object) == nil
}

// wanted returns the names of the wanted instances. While the specification is invalid these are those that exist.
func (s *scope) wanted() []string {
	if s.invalid {
		if s.live.topology != nil {
			return slices.Clone(s.live.topology.Spec.Instances)
		}
		return nil
	}
	return desired.Instances(s.cluster)
}

// leaving returns the names of instances that exist and are not wanted, by ordinal.
func (s *scope) leaving() []string {
	wanted := s.wanted()
	var names []string
	for name := range s.live.statefulSets {
		if !slices.Contains(wanted, name) {
			names = append(names, name)
		}
	}
	return s.byOrdinal(names)
}

func (s *scope) byOrdinal(names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		x, errX := naming.Ordinal(s.cluster.Name, a)
		y, errY := naming.Ordinal(s.cluster.Name, b)
		if errX != nil || errY != nil {
			return strings.Compare(a, b)
		}
		return x - y
	})
	return names
}

// everReady tells whether the cluster has been ready before.
func (s *scope) everReady() bool { return s.cluster.Status.Revisions.Stable != "" }

// hadPrimary tells whether there has been a primary.
func (s *scope) hadPrimary() bool {
	return s.live.topology != nil && s.live.topology.Status.Primary != ""
}

// maxNote is what the note of an Event may hold.
const maxNote = 1024

// event announces something. Events of one reason, action and related object are counted as one series, of which only the
// first note is kept: related is what the note is about beside the cluster, nil: nothing.
func (s *scope) event(kind, reason, action, note string, related *corev1.ObjectReference) {
	if related == nil {
		s.events.Eventf(s.cluster, nil, kind, reason, action, "%s", clip.Text(note, maxNote))
		return
	}
	s.events.Eventf(s.cluster, related, kind, reason, action, "%s", clip.Text(note, maxNote))
}

// child refers to an object of the cluster by kind and name.
func (s *scope) child(apiVersion, kind, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: s.cluster.Namespace, Name: name}
}
