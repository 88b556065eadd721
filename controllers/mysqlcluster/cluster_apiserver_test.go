//go:build apiserver

package mysqlcluster_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

func equalStatus(a, b v1.MySQLTopologyStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// create makes a cluster and waits until it is ready.
func create(t *testing.T, cluster *v1.MySQLCluster) {
	t.Helper()
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitRunning(t, cluster)
}

func waitRunning(t *testing.T, cluster *v1.MySQLCluster) {
	t.Helper()
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		s := cluster.Status
		if s.Phase != v1.PhaseRunning || !s.Ready || s.Revisions.Stable != s.Revisions.Target || s.ObservedGeneration != cluster.Generation {
			return fmt.Errorf("status is %+v", s)
		}
		return nil
	})
}

// children returns every object of a cluster, by kind and name.
func children(t *testing.T, namespace string) map[string]client.Object {
	t.Helper()
	out := map[string]client.Object{}
	for _, list := range []client.ObjectList{
		&appsv1.StatefulSetList{}, &appsv1.ControllerRevisionList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{},
		&corev1.ServiceList{}, &corev1.ServiceAccountList{}, &corev1.ConfigMapList{}, &policyv1.PodDisruptionBudgetList{},
		&networkingv1.NetworkPolicyList{}, &v1.MySQLTopologyList{},
	} {
		if err := admin.List(t.Context(), list, client.InNamespace(namespace), client.HasLabels{naming.LabelCluster}); err != nil {
			t.Fatal(err)
		}
		for _, object := range items(t, list) {
			kind := strings.TrimSuffix(strings.Split(fmt.Sprintf("%T", list), ".")[1], "List")
			out[kind+"/"+object.GetName()] = object
		}
	}
	return out
}

func TestChildrenAndOwnership(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	got := children(t, namespace)
	want := []string{
		"MySQLTopology/orders", "NetworkPolicy/orders-instances", "PodDisruptionBudget/orders", "ServiceAccount/orders-instance",
		"Service/orders-instances", "Service/orders-ro", "Service/orders-rw",
		"Secret/orders-admin", "Secret/orders-app", "Secret/orders-ca", "Secret/orders-manager-tls", "Secret/orders-viewer-tls",
	}
	for i := range 3 {
		name := naming.Instance("orders", i)
		want = append(want, "StatefulSet/"+name, "PersistentVolumeClaim/"+name, "Secret/"+name+"-tls")
	}
	for _, name := range want {
		object := got[name]
		if object == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if strings.HasPrefix(name, "PersistentVolumeClaim/") {
			if len(object.GetOwnerReferences()) != 0 {
				t.Errorf("%s has an owner, and would go with the cluster", name)
			}
		} else if !metav1.IsControlledBy(object, cluster) {
			t.Errorf("%s is not controlled by the cluster: %v", name, object.GetOwnerReferences())
		}
		delete(got, name)
	}
	for name := range got {
		if !strings.HasPrefix(name, "ConfigMap/orders-config-") && !strings.HasPrefix(name, "ControllerRevision/orders-revision-") {
			t.Errorf("%s is not expected", name)
		}
	}
	if len(got) != 2 {
		t.Errorf("want one ConfigMap and one ControllerRevision, got %v", slices.Collect(maps.Keys(got)))
	}
	waitEvent(t, cluster, "Ready", "orders-0 takes writes")
	waitEvent(t, cluster, "RevisionAccepted", "mysqld 9.7.4")

	// The policy can be changed either way.
	for policy, owners := range map[v1.ReclaimPolicy]int{v1.ReclaimDelete: 1, v1.ReclaimRetain: 0} {
		mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Storage.ReclaimPolicy = policy })
		eventually(t, func() error {
			claim := &corev1.PersistentVolumeClaim{}
			if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "orders-2"}, claim); err != nil {
				return err
			}
			if len(claim.OwnerReferences) != owners {
				return fmt.Errorf("policy %s: owners %v", policy, claim.OwnerReferences)
			}
			return nil
		})
	}
}

// TestQuiet: a cluster in its desired state causes no write, also when it is reconciled again.
func TestQuiet(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	cluster.Spec = fullSpec()
	if err := admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tuned"}, Data: map[string]string{"my.cnf": "[mysqld]\ninnodb_io_capacity = 2000\n"},
	}); err != nil {
		t.Fatal(err)
	}
	create(t, cluster)
	settled(t, namespace)
	before := spy.in(namespace)
	for i := range 5 {
		// An annotation of the user's causes a reconcile and changes nothing that is desired.
		mutate(t, cluster, func(c *v1.MySQLCluster) { c.Annotations = map[string]string{"example.org/touched": fmt.Sprint(i)} })
		settled(t, namespace)
	}
	if after := spy.in(namespace); len(after) != len(before) {
		t.Errorf("%d writes without a change:\n%s", len(after)-len(before), strings.Join(after[len(before):], "\n"))
	}
}

// settled waits until the lane has had nothing to do for a second, nor written anything.
func settled(t *testing.T, namespace string) {
	t.Helper()
	last, since := -1, time.Now()
	eventually(t, func() error {
		if n := len(spy.in(namespace)); n != last || busy(t) {
			last, since = n, time.Now()
		}
		if quiet := time.Since(since); quiet < time.Second {
			return fmt.Errorf("the last work was %s ago", quiet)
		}
		return nil
	})
}

// busy tells whether the lane reconciles something or has something queued.
func busy(t *testing.T) bool {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen, work := 0, 0.0
	for _, family := range families {
		if name := family.GetName(); name != "controller_runtime_active_workers" && name != "workqueue_depth" {
			continue
		}
		for _, metric := range family.GetMetric() {
			seen++
			work += metric.GetGauge().GetValue()
		}
	}
	if seen < 2 {
		t.Fatalf("%d of the metrics that tell whether the lane works are there, want 2", seen)
	}
	return work > 0
}

// TestFieldOwners: no field of a child has two writers among the lanes.
func TestFieldOwners(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	create(t, newCluster(namespace))
	for name, object := range children(t, namespace) {
		managers := map[string]bool{}
		for _, entry := range object.GetManagedFields() {
			if entry.Manager == naming.OwnerClusterLane && entry.Operation == metav1.ManagedFieldsOperationApply {
				if strings.Contains(entry.FieldsV1.GetRawString(), `"f:status"`) {
					t.Errorf("%s: the cluster lane applies status", name)
				}
			}
			managers[entry.Manager+"/"+string(entry.Operation)+"/"+entry.Subresource] = true
		}
		if !managers[naming.OwnerClusterLane+"/Apply/"] {
			t.Errorf("%s is not applied by the cluster lane: %v", name, managers)
		}
	}
}

func TestDeletedChildrenComeBack(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	for name, object := range children(t, namespace) {
		if strings.HasPrefix(name, "PersistentVolumeClaim/") || strings.HasPrefix(name, "MySQLTopology/") {
			continue
		}
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			again, ok := object.DeepCopyObject().(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", object)
			}
			if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), again); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if again.GetUID() == object.GetUID() {
				return fmt.Errorf("%s is still the same", name)
			}
			return nil
		})
	}
	waitEvent(t, cluster, "SecretRecreated", "orders-ca", "stay valid")
	waitEvent(t, cluster, "SecretRecreated", "orders-app")
	waitEvent(t, cluster, "SecretRecreated", "orders-1-tls")
	waitRunning(t, cluster)
}

// TestLostAuthorityKeepsLeaves: the Secret of the authority is deleted, and no instance's certificate changes.
func TestLostAuthorityKeepsLeaves(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	leaf, ca := &corev1.Secret{}, &corev1.Secret{}
	leafKey, caKey := client.ObjectKey{Namespace: namespace, Name: "orders-1-tls"}, client.ObjectKey{Namespace: namespace, Name: "orders-ca"}
	if err := admin.Get(t.Context(), leafKey, leaf); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), caKey, ca); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), ca); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		now := &corev1.Secret{}
		if err := admin.Get(t.Context(), leafKey, now); err != nil {
			return err
		}
		if !bytes.Equal(now.Data["tls.crt"], leaf.Data["tls.crt"]) {
			t.Fatal("the leaf was issued again")
		}
		if n := strings.Count(string(now.Data["ca.crt"]), "BEGIN CERTIFICATE"); n != 2 {
			return fmt.Errorf("the bundle has %d authorities, want the new one and the old one", n)
		}
		return nil
	})
	waitCondition(t, cluster, v1.ConditionCertificatesValid, metav1.ConditionTrue, "Valid", "valid until")
	// Garbage in a leaf's Secret is replaced.
	mutate(t, leaf, func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("garbage") })
	eventually(t, func() error {
		now := &corev1.Secret{}
		if err := admin.Get(t.Context(), leafKey, now); err != nil {
			return err
		}
		if !strings.Contains(string(now.Data["tls.crt"]), "BEGIN CERTIFICATE") {
			return fmt.Errorf("still garbage")
		}
		return nil
	})
	waitEvent(t, cluster, "CertificateIssued", "orders-1-tls")
}

// TestPasswordIsTheUsers: a password that the user sets stays, and the address for applications follows it.
func TestPasswordIsTheUsers(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	create(t, newCluster(namespace))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-app"}}
	mutate(t, secret, func(s *corev1.Secret) { s.Data["password"] = []byte("chosen") })
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if string(secret.Data["password"]) != "chosen" {
			t.Fatal("the password was overwritten")
		}
		if want := "mysql://app:chosen@orders-rw." + namespace + ".svc:3306/app"; string(secret.Data["uri"]) != want {
			return fmt.Errorf("uri is not %s", want)
		}
		return nil
	})
}

// TestRollout: a changed configuration reaches the replicas one at a time, and the primary last; a changed operator image
// is no change.
func TestRollout(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	first := cluster.Status.Revisions.Stable
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"max_connections": "321"} })
	waitRunning(t, cluster)
	if cluster.Status.Revisions.Stable == first {
		t.Fatal("the revision did not change")
	}
	if got, want := w.restarted(), []string{"orders-1", "orders-2", "orders-0"}; !slices.Equal(got, want) {
		t.Errorf("restarted %v, want %v", got, want)
	}
	for _, i := range cluster.Status.Instances {
		if i.Revision != cluster.Status.Revisions.Stable {
			t.Errorf("%s runs revision %s", i.Name, i.Revision)
		}
	}
	waitEvent(t, cluster, "Restarting", "orders-1")
	// Going back finds the earlier revision, which is not checked again.
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Config = nil })
	waitRunning(t, cluster)
	if cluster.Status.Revisions.Stable != first {
		t.Errorf("back to revision %s, want %s", cluster.Status.Revisions.Stable, first)
	}
}

func TestScale(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Replicas = 2 })
	waitRunning(t, cluster)
	eventually(t, func() error {
		got := children(t, namespace)
		if got["StatefulSet/orders-2"] != nil || got["Secret/orders-2-tls"] != nil {
			return fmt.Errorf("orders-2 is still there")
		}
		if got["PersistentVolumeClaim/orders-2"] == nil {
			t.Fatal("the volume of orders-2 was deleted, and the policy is Retain")
		}
		return nil
	})
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Replicas = 4 })
	waitRunning(t, cluster)
	if cluster.Status.Replicas != 4 || cluster.Status.ReadyReplicas != 4 {
		t.Errorf("status %+v", cluster.Status)
	}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "orders-3"}, &appsv1.StatefulSet{}); apierrors.IsNotFound(err) {
		t.Error("orders-3 is missing")
	}
}
