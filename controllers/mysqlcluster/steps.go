package mysqlcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/apply"
)

// Reconciler is the cluster lane.
type Reconciler struct {
	client  client.Client
	live    client.Reader
	events  events.EventRecorder
	applier *apply.Applier
	sources *sourceCache
	options Options
}

// Result is how a step ended: it goes on to the next one, or nothing more is to be done now.
type Result struct {
	stop   bool
	reason string
	after  time.Duration
}

// Continue goes on with the next step.
func Continue() Result { return Result{} }

// Wait stops here until something changes, at the latest for after.
func Wait(reason string, after time.Duration) Result {
	return Result{stop: true, reason: reason, after: after}
}

// Done stops here: the remaining steps do not apply.
func Done(reason string) Result { return Result{stop: true, reason: reason} }

// step is one named part of a reconcile.
type step struct {
	name string
	run  func(context.Context, *scope) (Result, error)
}

// steps of a reconcile, in order. The report is not among them since it always runs.
var steps = []step{
	{"Observe", observe},
	{"Ending", ending},
	{"Validate", validate},
	{"Identify", identify},
	{"Suspended", suspended},
	{"Certificates", certificates},
	{"Accounts", accounts},
	{"Access", access},
	{"Resolve", resolve},
	{"Accept", accept},
	{"Volumes", volumes},
	{"Plan", planRollout},
	{"Instances", instances},
	{"Topology", topology},
	{"Restart", restart},
	{"Remove", remove},
	{"Tidy", tidy},
	{"Diagnose", diagnose},
}

// Reconcile brings one cluster nearer to its specification.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &v1.MySQLCluster{}
	if err := r.client.Get(ctx, request.NamespacedName, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get MySQLCluster %s: %w", request, err)
	}
	s := newScope(r, cluster)
	err := s.run(ctx)
	if reportErr := report(ctx, s, err); reportErr != nil {
		err = errors.Join(err, reportErr)
	}
	if err != nil {
		if apierrors.IsConflict(err) || errors.Is(err, apply.ErrBehind) {
			// The cache is behind; what it lacks arrives by a watch, and trying again at once would only conflict again.
			return ctrl.Result{RequeueAfter: conflictDelay}, nil
		}
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			// The namespace is going, and the cluster with it: nothing can be made, and nothing is wrong.
			return ctrl.Result{RequeueAfter: problemDelay}, nil
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// run goes through the steps until one stops or fails.
func (s *scope) run(ctx context.Context) error {
	for _, step := range steps {
		result, err := step.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if result.after > 0 {
			s.requeueAfter(result.after)
		}
		if result.stop {
			ctrl.LoggerFrom(ctx).V(1).Info("Stopped", "step", step.name, "reason", result.reason)
			return nil
		}
	}
	return nil
}
