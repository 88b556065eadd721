package mysqlcluster

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// observed is what the cache has of one cluster.
type observed struct {
	topology     *v1.MySQLTopology
	statefulSets map[string]*appsv1.StatefulSet
	claims       map[string]*corev1.PersistentVolumeClaim
	// pods of instances, by instance, and those of checks, by name.
	pods   map[string]*corev1.Pod
	checks map[string]*corev1.Pod

	secrets         map[string]*corev1.Secret
	services        map[string]*corev1.Service
	serviceAccounts map[string]*corev1.ServiceAccount
	budgets         map[string]*policyv1.PodDisruptionBudget
	policies        map[string]*networkingv1.NetworkPolicy
	configMaps      map[string]*metav1.PartialObjectMetadata

	revisionObjects map[string]*appsv1.ControllerRevision
	// revisions by hash.
	revisions map[string]desired.StoredRevision
}

// observe reads everything that carries the cluster's label.
func observe(ctx context.Context, s *scope) (Result, error) {
	o := &s.live
	topology := &v1.MySQLTopology{}
	switch err := s.client.Get(ctx, client.ObjectKeyFromObject(s.cluster), topology); {
	case err == nil:
		o.topology = topology
	case !apierrors.IsNotFound(err):
		return Result{}, fmt.Errorf("get MySQLTopology: %w", err)
	}
	if o.topology != nil && o.topology.Status.Routed {
		s.in.Primary = o.topology.Status.Primary
	}
	if err := observeChildren(ctx, s); err != nil {
		return Result{}, err
	}
	if former := s.formerChild(); former != "" {
		if s.now.Sub(s.cluster.CreationTimestamp.Time) > formerDelay {
			s.problem(reasonObjectExists, former+" still belongs to a deleted MySQLCluster of the same name; remove what keeps it from going")
		}
		return Wait("waiting for the children of a deleted cluster of this name to go", time.Second), nil
	}
	observeRevisions(ctx, s)
	return Continue(), nil
}

// formerDelay is how long the children of a deleted cluster of the same name may take to go before that is a problem.
const formerDelay = 30 * time.Second

// formerChild names a child of a deleted cluster of the same name, which the garbage collector has not removed yet; empty:
// there is none.
func (s *scope) formerChild() string {
	var objects []client.Object
	if s.live.topology != nil {
		objects = append(objects, s.live.topology)
	}
	for _, set := range s.live.statefulSets {
		objects = append(objects, set)
	}
	for _, claim := range s.live.claims {
		objects = append(objects, claim)
	}
	for _, secret := range s.live.secrets {
		objects = append(objects, secret)
	}
	for _, service := range s.live.services {
		objects = append(objects, service)
	}
	for _, object := range objects {
		owner := metav1.GetControllerOf(object)
		if owner != nil && owner.Kind == "MySQLCluster" && owner.UID != s.cluster.UID {
			return fmt.Sprintf("%T %s", object, object.GetName())[1:]
		}
	}
	return ""
}

func observeChildren(ctx context.Context, s *scope) error {
	o := &s.live
	var (
		statefulSets    appsv1.StatefulSetList
		revisions       appsv1.ControllerRevisionList
		claims          corev1.PersistentVolumeClaimList
		pods            corev1.PodList
		secrets         corev1.SecretList
		services        corev1.ServiceList
		serviceAccounts corev1.ServiceAccountList
		budgets         policyv1.PodDisruptionBudgetList
		policies        networkingv1.NetworkPolicyList
		configMaps      metav1.PartialObjectMetadataList
	)
	configMaps.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	of := []client.ListOption{client.InNamespace(s.cluster.Namespace), client.MatchingLabels{naming.LabelCluster: s.cluster.Name}}
	for _, list := range []client.ObjectList{&statefulSets, &revisions, &claims, &pods, &secrets, &services, &serviceAccounts, &budgets, &policies, &configMaps} {
		if err := s.client.List(ctx, list, of...); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	o.statefulSets = byName(statefulSets.Items)
	o.revisionObjects = byName(revisions.Items)
	o.claims = byName(claims.Items)
	o.secrets = byName(secrets.Items)
	o.services = byName(services.Items)
	o.serviceAccounts = byName(serviceAccounts.Items)
	o.budgets = byName(budgets.Items)
	o.policies = byName(policies.Items)
	o.configMaps = byName(configMaps.Items)
	o.pods, o.checks = map[string]*corev1.Pod{}, map[string]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch pod.Labels[naming.LabelComponent] {
		case desired.ComponentInstance:
			o.pods[pod.Labels[naming.LabelInstance]] = pod
		case desired.ComponentCheck:
			o.checks[pod.Name] = pod
		}
	}
	return nil
}

// observeRevisions reads the anchors. One that was changed by somebody is treated as if it were not there.
func observeRevisions(ctx context.Context, s *scope) {
	s.live.revisions = map[string]desired.StoredRevision{}
	for _, object := range s.live.revisionObjects {
		// StatefulSets have revisions too, which carry the labels of their pods.
		if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "StatefulSet" {
			continue
		}
		stored, err := desired.ReadRevision(object)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("Ignoring a revision", "reason", err.Error())
			continue
		}
		s.live.revisions[stored.Hash] = stored
	}
}

// newestAccepted returns the revision that was asked for last among those that may reach instances.
func (s *scope) newestAccepted() *desired.StoredRevision {
	var newest *desired.StoredRevision
	for _, revision := range s.live.revisions {
		if revision.Verdict.Rejected == "" && (newest == nil || revision.Number > newest.Number) {
			newest = &revision
		}
	}
	return newest
}

// byName indexes a list's items.
func byName[T any, P interface {
	*T
	client.Object
}](items []T) map[string]P {
	out := make(map[string]P, len(items))
	for i := range items {
		object := P(&items[i])
		out[object.GetName()] = object
	}
	return out
}
