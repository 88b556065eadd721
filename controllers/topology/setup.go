package topology

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/leadership"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Options of the lane.
type Options struct {
	// MaxConcurrentReconciles: default 16. A reconcile holds no worker while an agent works.
	MaxConcurrentReconciles int
	// NameSuffix distinguishes the controllers' names when one process runs several lanes, as tests do.
	NameSuffix string
	// Gate says when the lane leads, so that it keeps its caches, queue and streams when it does not; nil: the manager's own
	// election starts and ends the controller.
	Gate *leadership.Gate
}

// CacheByObject restricts a manager's cache to what this lane reads: pods of instances, and Secrets of clusters, of which
// only metadata is ever cached.
func CacheByObject() map[client.Object]cache.ByObject {
	exists, err := labels.NewRequirement(naming.LabelCluster, selection.Exists, nil)
	if err != nil {
		panic("the label's name is a constant: " + err.Error())
	}
	ours := labels.NewSelector().Add(*exists)
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:    {Label: ours},
		&corev1.Secret{}: {Label: ours},
	}
}

// SetupWithManager adds the lane to a manager: the controller, which needs leadership, and the streams, which every
// replica of the manager keeps, so that the next leader knows all agents at once.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if opts.MaxConcurrentReconciles <= 0 {
		opts.MaxConcurrentReconciles = 16
	}
	r := newReconciler(mgr)
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("add the streams' end to the manager: %w", err)
	}
	opts.Gate.OnBegin(func() {
		r.memory.reset()
		r.executor.reset()
	})
	streams := &streamKeeper{Reconciler: r}
	err := watches(ctrl.NewControllerManagedBy(mgr).Named("topology-streams" + opts.NameSuffix).
		WithOptions(controller.Options{NeedLeaderElection: ptr.To(false), MaxConcurrentReconciles: 4})).
		Complete(streams)
	if err != nil {
		return fmt.Errorf("set up the topology lane's streams: %w", err)
	}
	err = watches(ctrl.NewControllerManagedBy(mgr).Named("topology" + opts.NameSuffix).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: opts.MaxConcurrentReconciles,
			// The default grows to 16 minutes: a topology that waits for its record must not sleep that long.
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](20*time.Millisecond, 5*time.Second),
		})).
		WatchesRawSource(r.events).
		WatchesRawSource(opts.Gate.Everything(r.everything)).
		Complete(opts.Gate.Guard(r))
	if err != nil {
		return fmt.Errorf("set up the topology lane: %w", err)
	}
	return nil
}

// everything lists the topologies, all of which a term of leading begins with.
func (r *Reconciler) everything(ctx context.Context) ([]reconcile.Request, error) {
	var found v1.MySQLTopologyList
	if err := r.client.List(ctx, &found); err != nil {
		return nil, fmt.Errorf("list topologies: %w", err)
	}
	requests := make([]reconcile.Request, 0, len(found.Items))
	for i := range found.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return requests, nil
}

// watches adds what both controllers are triggered by.
func watches(b *builder.Builder) *builder.Builder {
	return b.For(&v1.MySQLTopology{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(byClusterLabel), builder.WithPredicates(predicate.NewPredicateFuncs(isInstance))).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(byClusterLabel), builder.WithPredicates(predicate.NewPredicateFuncs(isManagerTLS)))
}

func byClusterLabel(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[naming.LabelCluster]}}}
}

func isInstance(obj client.Object) bool {
	l := obj.GetLabels()
	return l[naming.LabelCluster] != "" && l[naming.LabelInstance] != ""
}

func isManagerTLS(obj client.Object) bool {
	cluster := obj.GetLabels()[naming.LabelCluster]
	return cluster != "" && strings.HasPrefix(obj.GetName(), cluster) && obj.GetName() == naming.SecretManagerTLS(cluster)
}

// newReconciler wires the lane's parts. Streams live until the manager ends.
func newReconciler(mgr ctrl.Manager) *Reconciler {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Reconciler{
		client:      mgr.GetClient(),
		live:        mgr.GetAPIReader(),
		recorder:    mgr.GetEventRecorder("porpoise-topology"),
		events:      &trigger{},
		memory:      newMemory(),
		credentials: newCredentials(mgr.GetClient(), mgr.GetAPIReader()),
		stopStreams: cancel,
		now:         time.Now,
	}
	r.pool = agentclient.NewPool(ctx, r.heard)
	r.streamCount = &streamCount{count: r.pool.Streams}
	r.executor = newExecutor(r.pool, r.events.enqueue)
	return r
}

// Start waits for the manager's end and ends the streams. It is how the lane's parts that run on standbys too are part of
// the manager.
func (r *Reconciler) Start(ctx context.Context) error {
	remove := streams.add(r.streamCount)
	<-ctx.Done()
	remove()
	r.stopStreams()
	return nil
}

// NeedLeaderElection is false: standbys keep their streams warm.
func (r *Reconciler) NeedLeaderElection() bool { return false }

var _ manager.LeaderElectionRunnable = &Reconciler{}

// trigger is a source of reconciles for what agents report. It never blocks: the queue joins what is the same, and before
// there is a queue (on a standby) nothing is kept, since leadership begins with a reconcile of everything.
type trigger struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// Start takes the controller's queue.
func (t *trigger) Start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.queue.Store(&q)
	return nil
}

func (t *trigger) enqueue(key types.NamespacedName) {
	if q := t.queue.Load(); q != nil {
		(*q).Add(reconcile.Request{NamespacedName: key})
	}
}

// heard is told of each document and each silence.
func (r *Reconciler) heard(key types.NamespacedName, kind agentclient.Kind) {
	if kind == agentclient.Event || r.memory.waits(key) {
		r.events.enqueue(key)
	}
}

// streamKeeper keeps the streams, on leaders and standbys alike.
type streamKeeper struct{ *Reconciler }

// Reconcile makes the streams of one cluster be what its pods ask for.
func (k *streamKeeper) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var topo v1.MySQLTopology
	if err := k.client.Get(ctx, req.NamespacedName, &topo); err != nil {
		if client.IgnoreNotFound(err) == nil {
			k.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	k.streamCount.keep(req.NamespacedName, topo.Status.Phase)
	pods, err := k.pods(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, k.keepStreams(ctx, req.NamespacedName, pods)
}

// controllerOf returns the reference to the object that controls another one; nil: none.
func controllerOf(obj client.Object) *metav1.OwnerReference { return metav1.GetControllerOf(obj) }
