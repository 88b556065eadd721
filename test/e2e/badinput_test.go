//go:build e2e

package e2e

import (
	"context"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Every test here makes a cluster with something wrong in it, waits for the condition and the Event that name it, corrects
// it, and waits for the cluster to become ready.

func TestBadImageWithoutMySQL(t *testing.T) {
	t.Parallel()
	// The operator's image is in every node and holds no mysqld, nor even a shell.
	deployment, err := operatorDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	operator := deployment.Spec.Template.Spec.Containers[0].Image
	c := create(t, manifest(newNamespace(t, "e2e-bad-image"), "bad", 1, func(c *porpoisev1.MySQLCluster) { c.Spec.Image = operator }))
	c.waitStalled(t, "ImageWithoutMysqld", operator)
	c.change(t, func(c *porpoisev1.MySQLCluster) { c.Spec.Image = "" })
	c.waitReady(t, creation)
	c.waitHealed(t)
}

func TestBadVersion(t *testing.T) {
	t.Parallel()
	c := create(t, manifest(newNamespace(t, "e2e-bad-version"), "bad", 1, func(c *porpoisev1.MySQLCluster) { c.Spec.Version = "8.1" }))
	c.waitStalled(t, "UnknownVersion", "8.1", "9.7")
	c.change(t, func(c *porpoisev1.MySQLCluster) { c.Spec.Version = "9.7" })
	c.waitReady(t, creation)
	c.waitHealed(t)
}

func TestBadStorageClass(t *testing.T) {
	t.Parallel()
	const wanted = "porpoise-e2e-absent"
	namespace := newNamespace(t, "e2e-bad-storage-class")
	c := create(t, manifest(namespace, "bad", 1, func(c *porpoisev1.MySQLCluster) {
		c.Spec.Storage.StorageClassName = new(wanted)
	}))
	c.waitStalled(t, "StorageClassNotFound", "spec.storage.storageClassName", wanted)
	createStorageClass(t, wanted)
	c.waitReady(t, creation)
	c.waitHealed(t)
}

// createStorageClass makes a class that does what the default one does.
func createStorageClass(t *testing.T, name string) {
	t.Helper()
	classes := &storagev1.StorageClassList{}
	if err := kubernetes.Client.List(t.Context(), classes); err != nil {
		t.Fatalf("list StorageClasses: %v", err)
	}
	for _, class := range classes.Items {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		class.ObjectMeta = metav1.ObjectMeta{Name: name}
		if err := client.IgnoreAlreadyExists(kubernetes.Client.Create(t.Context(), &class)); err != nil {
			t.Fatalf("create StorageClass %s: %v", name, err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(kubernetes.Client.Delete(context.Background(), &class)); err != nil {
				t.Errorf("delete StorageClass %s: %v", name, err)
			}
		})
		return
	}
	t.Fatal("the tests need a default StorageClass; there is none")
}

func TestBadConfigMap(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, "e2e-bad-configmap")
	c := create(t, manifest(namespace, "bad", 1, func(c *porpoisev1.MySQLCluster) {
		c.Spec.ConfigFrom = []porpoisev1.ConfigSource{{ConfigMapKeyRef: porpoisev1.ConfigMapKeyRef{Name: "tuned", Key: "my.cnf"}}}
	}))
	c.waitStalled(t, "ConfigMapNotFound", "spec.configFrom[0].configMapKeyRef", `"tuned"`)
	options := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tuned"},
		Data:       map[string]string{"other.cnf": "max_connections = 77\n"},
	}
	if err := kubernetes.Client.Create(t.Context(), options); err != nil {
		t.Fatalf("create ConfigMap tuned: %v", err)
	}
	c.waitStalled(t, "ConfigMapKeyNotFound", `"my.cnf"`, "other.cnf")
	options.Data["my.cnf"] = "[mysqld]\nmax_connections = 88\n"
	if err := kubernetes.Client.Update(t.Context(), options); err != nil {
		t.Fatalf("update ConfigMap tuned: %v", err)
	}
	c.waitReady(t, creation)
	c.waitHealed(t)
	waitValue(t, c.readWrite(), "SELECT @@max_connections", "88")
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	c := create(t, manifest(newNamespace(t, "e2e-bad-config"), "bad", 1, func(c *porpoisev1.MySQLCluster) {
		c.Spec.Config = map[string]porpoisev1.ConfigValue{"character_set_server": "klingon"}
	}))
	c.waitStalled(t, "ConfigRejected", "klingon")
	for _, claim := range c.claims(t) {
		if claim.Annotations[naming.AnnotationBlank] != "true" || len(claim.OwnerReferences) == 0 {
			t.Errorf("volume %s of a cluster whose configuration was never found good would stay", claim.Name)
		}
	}
	c.change(t, func(c *porpoisev1.MySQLCluster) { c.Spec.Config["character_set_server"] = "utf8mb4" })
	c.waitReady(t, creation)
	c.waitHealed(t)
}

// TestBadQuota: first the namespace allows no pod at all, later none besides those that run.
func TestBadQuota(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, "e2e-bad-quota")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := kubernetes.Client.Create(t.Context(), quota); err != nil {
		t.Fatalf("create ResourceQuota: %v", err)
	}
	waitQuota(t, quota)
	c := create(t, manifest(namespace, "bad", 1))
	c.waitStalled(t, "QuotaExceeded", "exceeded quota", "small")
	setQuota(t, quota, "5")
	c.waitReady(t, creation)
	c.waitHealed(t)

	lives := c.lives(t)
	setQuota(t, quota, "0")
	c.change(t, func(c *porpoisev1.MySQLCluster) { c.Spec.Replicas = 2 })
	c.waitStalled(t, "QuotaExceeded", "bad-1", "exceeded quota", "small")
	if after := c.lives(t); !maps.Equal(lives, after) {
		t.Errorf("pods changed: before %v, after %v", lives, after)
	}
	setQuota(t, quota, "5")
	c.waitReady(t, creation)
	c.waitHealed(t)
}

func setQuota(t *testing.T, quota *corev1.ResourceQuota, pods string) {
	t.Helper()
	old := quota.DeepCopy()
	quota.Spec.Hard[corev1.ResourcePods] = resource.MustParse(pods)
	if err := kubernetes.Client.Patch(t.Context(), quota, client.MergeFrom(old)); err != nil {
		t.Fatalf("patch ResourceQuota: %v", err)
	}
	waitQuota(t, quota)
}

// waitQuota waits until the quota's controller has seen it: only then it counts.
func waitQuota(t *testing.T, quota *corev1.ResourceQuota) {
	t.Helper()
	want := quota.Spec.Hard[corev1.ResourcePods]
	eventually(t, "the quota is in force", notice, func(ctx context.Context) (bool, string, error) {
		seen := &corev1.ResourceQuota{}
		err := kubernetes.Client.Get(ctx, client.ObjectKeyFromObject(quota), seen)
		got := seen.Status.Hard[corev1.ResourcePods]
		return seen.Status.Hard != nil && got.Cmp(want) == 0, "pods " + got.String(), err
	})
}

// TestBadResources: no node has room for an instance.
func TestBadResources(t *testing.T) {
	t.Parallel()
	c := create(t, manifest(newNamespace(t, "e2e-bad-resources"), "bad", 1, func(c *porpoisev1.MySQLCluster) {
		c.Spec.Resources.Requests.CPU = new(resource.MustParse("1k"))
	}))
	c.waitStalled(t, "Unschedulable", "Insufficient cpu")
	c.change(t, func(c *porpoisev1.MySQLCluster) { c.Spec.Resources.Requests.CPU = new(resource.MustParse("10m")) })
	c.waitReady(t, creation)
	c.waitHealed(t)
}

// TestBadName: a name whose derived names would be too long is refused at once.
func TestBadName(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("longname", 8)[:60]
	err := kubernetes.Client.Create(t.Context(), manifest("default", name, 3))
	if !apierrors.IsInvalid(err) {
		t.Fatalf("create MySQLCluster %s: got %v, want that it is invalid", name, err)
	}
	if word := lacking(err.Error(), []string{"metadata.name", name, "60 characters", "at most 40"}); word != "" {
		t.Errorf("the refusal does not say %q: %v", word, err)
	}
}
