package mysqlcluster

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/apply"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/leadership"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// defaultConcurrency is how many clusters are reconciled at once: enough that a slow one does not hold the others, few
// enough that the API server is not flooded.
const defaultConcurrency = 5

// indexConfigFrom finds the clusters that take options from a ConfigMap.
const indexConfigFrom = "spec.configFrom.name"

// ImageMap says which image holds a MySQL version.
type ImageMap = desired.ImageMap

// ParseImageMap reads an image map from YAML (see desired.ParseImageMap).
func ParseImageMap(raw []byte) (ImageMap, error) { return desired.ParseImageMap(raw) }

// Options of the cluster lane.
type Options struct {
	// OperatorImage holds the agent. Required.
	OperatorImage string
	// OperatorNamespace is where the manager runs. Required.
	OperatorNamespace string
	// Images says which image holds a MySQL version.
	Images ImageMap
	// MaxConcurrentReconciles; 0: five.
	MaxConcurrentReconciles int
	// Clock; nil: the real one.
	Clock clock.PassiveClock
	// ObserveWrite is told of every write to a child; nil: nobody.
	ObserveWrite func(ctx context.Context, write apply.Write)
	// Gate says when the lane leads, so that it keeps its caches and queue when it does not; nil: the manager's own election
	// starts and ends the controller.
	Gate *leadership.Gate
}

// CacheByObject says what the cluster lane needs cached: its own objects by label, and of ConfigMaps the metadata only,
// of everybody's, since configFrom may name any. Managed fields must stay: internal/apply compares with them.
func CacheByObject() map[client.Object]cache.ByObject {
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{naming.LabelManagedBy: naming.ManagedBy})}
	return map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}:             {Transform: cache.TransformStripManagedFields()},
		&corev1.Pod{}:                   own,
		&corev1.Secret{}:                own,
		&corev1.Service{}:               own,
		&corev1.ServiceAccount{}:        own,
		&corev1.PersistentVolumeClaim{}: own,
		&appsv1.StatefulSet{}:           own,
		&appsv1.ControllerRevision{}:    own,
		&policyv1.PodDisruptionBudget{}: own,
		&networkingv1.NetworkPolicy{}:   own,
	}
}

// SetupWithManager adds the cluster lane to a manager.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if opts.OperatorImage == "" || opts.OperatorNamespace == "" {
		return errors.New("set up the cluster lane: OperatorImage and OperatorNamespace are required")
	}
	if opts.MaxConcurrentReconciles == 0 {
		opts.MaxConcurrentReconciles = defaultConcurrency
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	r := NewReconciler(mgr, opts)
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1.MySQLCluster{}, indexConfigFrom, configSources); err != nil {
		return fmt.Errorf("set up the cluster lane: index %s: %w", indexConfigFrom, err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("mysqlcluster").
		For(&v1.MySQLCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&v1.MySQLTopology{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&appsv1.ControllerRevision{}).
		Owns(&corev1.Secret{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfConfigMap)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(clusterByLabel)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(clusterByLabel)).
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(r.allClusters)).
		WatchesRawSource(opts.Gate.Everything(func(ctx context.Context) ([]reconcile.Request, error) { return r.find(ctx) })).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.MaxConcurrentReconciles}).
		Complete(opts.Gate.Guard(r))
	if err != nil {
		return fmt.Errorf("set up the cluster lane: %w", err)
	}
	return nil
}

// NewReconciler makes the reconciler on a manager's clients, without a controller around it.
func NewReconciler(mgr ctrl.Manager, opts Options) *Reconciler {
	return &Reconciler{
		client:  mgr.GetClient(),
		live:    mgr.GetAPIReader(),
		events:  mgr.GetEventRecorder("porpoise-cluster"),
		options: opts,
		applier: &apply.Applier{
			Client:  mgr.GetClient(),
			Live:    mgr.GetAPIReader(),
			Owner:   naming.OwnerClusterLane,
			Observe: observeWrite(opts.ObserveWrite),
		},
		sources: newSourceCache(mgr.GetAPIReader()),
	}
}

func configSources(object client.Object) []string {
	cluster, ok := object.(*v1.MySQLCluster)
	if !ok {
		return nil
	}
	var names []string
	for _, source := range cluster.Spec.ConfigFrom {
		names = append(names, source.ConfigMapKeyRef.Name)
	}
	return names
}

// clusterByLabel maps an object to the cluster that its label names.
func clusterByLabel(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[naming.LabelCluster]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

func (r *Reconciler) clustersOfConfigMap(ctx context.Context, object client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(object.GetNamespace()), client.MatchingFields{indexConfigFrom: object.GetName()})
}

// allClusters: a StorageClass that appears or changes is rare, and may matter to any.
func (r *Reconciler) allClusters(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.list(ctx)
}

func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	requests, err := r.find(ctx, opts...)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Find the clusters that a changed object concerns")
	}
	return requests
}

func (r *Reconciler) find(ctx context.Context, opts ...client.ListOption) ([]reconcile.Request, error) {
	var clusters v1.MySQLClusterList
	if err := r.client.List(ctx, &clusters, opts...); err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	requests := make([]reconcile.Request, 0, len(clusters.Items))
	for _, cluster := range clusters.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&cluster)})
	}
	return requests, nil
}
