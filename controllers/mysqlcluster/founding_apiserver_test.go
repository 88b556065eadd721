//go:build apiserver

package mysqlcluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// TestPodsStartWhileTheConfigurationIsChecked: the pods of a new cluster are there before the verdict, but no instance can be
// initialised, and what was made goes with the cluster; after the verdict the volumes are kept ones.
func TestPodsStartWhileTheConfigurationIsChecked(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	w.set(func(w *world) { w.check = "" })
	cluster := newCluster(namespace)
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitPods(t, cluster, "")
	requireUnfounded(t, cluster)
	w.set(func(w *world) { w.check = checkPassed })
	waitRunning(t, cluster)
	if got := w.restarted(); len(got) != 0 {
		t.Errorf("restarted %v", got)
	}
	for _, claim := range claimsOf(t, cluster) {
		if claim.Annotations[naming.AnnotationBlank] != "" || len(claim.OwnerReferences) != 0 {
			t.Errorf("volume %s of a running cluster is marked blank or would go with it: %v %v", claim.Name, claim.Annotations, claim.OwnerReferences)
		}
	}
}

// TestRejectedAtFirst: a new cluster whose configuration is refused founds nothing, and follows the corrected one.
func TestRejectedAtFirst(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	w.set(func(w *world) {
		w.check = `{"ok":false,"reason":"ConfigRejected","message":"unknown variable 'nonsense=1'","version":"9.7.4"}`
	})
	cluster := newCluster(namespace)
	cluster.Spec.Config = map[string]v1.ConfigValue{"nonsense": "1"}
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "ConfigRejected", "unknown variable 'nonsense=1'")
	settled(t, namespace)
	requireUnfounded(t, cluster)
	w.set(func(w *world) { w.check = checkPassed })
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Config = nil })
	waitRunning(t, cluster)
	waitPods(t, cluster, cluster.Status.Revisions.Target)
}

// TestProgressingWhileAChangeIsChecked: whoever waits for the end of a change must not be told of it before it has begun.
func TestProgressingWhileAChangeIsChecked(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	w.set(func(w *world) { w.check = "" })
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"max_connections": "321"} })
	generation := cluster.Generation
	var early []string
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		c := meta.FindStatusCondition(cluster.Status.Conditions, v1.ConditionProgressing)
		if c == nil || c.ObservedGeneration < generation {
			return fmt.Errorf("generation %d is not observed yet", generation)
		}
		if c.Status != metav1.ConditionTrue {
			early = append(early, c.Message)
			return fmt.Errorf("not progressing: %s", c.Message)
		}
		return nil
	})
	if len(early) > 0 {
		t.Errorf("the new generation was called done before it was checked: %q", early)
	}
	waitCondition(t, cluster, v1.ConditionProgressing, metav1.ConditionTrue, "Updating", "checking the configuration")
	w.set(func(w *world) { w.check = checkPassed })
	waitRunning(t, cluster)
	waitCondition(t, cluster, v1.ConditionProgressing, metav1.ConditionFalse, "Stable")
}

// waitPods waits until every instance has a pod, at a revision if one is given.
func waitPods(t *testing.T, cluster *v1.MySQLCluster, revision string) {
	t.Helper()
	eventually(t, func() error {
		var pods corev1.PodList
		if err := admin.List(t.Context(), &pods, client.InNamespace(cluster.Namespace), client.MatchingLabels(naming.ClusterSelector(cluster.Name))); err != nil {
			return err
		}
		at := 0
		for _, pod := range pods.Items {
			if revision == "" || pod.Annotations[naming.AnnotationRevision] == revision {
				at++
			}
		}
		if at != 3 {
			return fmt.Errorf("%d of %d pods are at revision %q", at, len(pods.Items), revision)
		}
		return nil
	})
}

// requireUnfounded fails unless there is no record, and every volume goes with the cluster.
func requireUnfounded(t *testing.T, cluster *v1.MySQLCluster) {
	t.Helper()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), &v1.MySQLTopology{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a record: %v", err)
	}
	for _, claim := range claimsOf(t, cluster) {
		if claim.Annotations[naming.AnnotationBlank] != "true" || !metav1.IsControlledBy(&claim, cluster) {
			t.Errorf("volume %s would stay: annotations %v, owners %v", claim.Name, claim.Annotations, claim.OwnerReferences)
		}
	}
}

func claimsOf(t *testing.T, cluster *v1.MySQLCluster) []corev1.PersistentVolumeClaim {
	t.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := admin.List(t.Context(), &claims, client.InNamespace(cluster.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 3 {
		t.Fatalf("%d volumes, want 3", len(claims.Items))
	}
	return claims.Items
}
