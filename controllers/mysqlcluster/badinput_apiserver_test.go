//go:build apiserver

package mysqlcluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// TestRefusals: what one object alone shows to be wrong is refused by the API server; the message names field, value and
// what is allowed.
func TestRefusals(t *testing.T) {
	namespace := newNamespace(t)
	for name, tc := range map[string]struct {
		mutate func(*v1.MySQLCluster)
		want   []string
	}{
		"60 characters":   {func(c *v1.MySQLCluster) { c.Name = strings.Repeat("a", 60) }, []string{`metadata.name: "` + strings.Repeat("a", 60) + `" has 60 characters; at most 40 are allowed`}},
		"a dot":           {func(c *v1.MySQLCluster) { c.Name = "a.b" }, []string{`metadata.name: "a.b" contains a dot; lower-case letters, digits and dashes are allowed`}},
		"a digit first":   {func(c *v1.MySQLCluster) { c.Name = "1a" }, []string{`metadata.name: "1a" must begin with a lower-case letter`}},
		"many replicas":   {func(c *v1.MySQLCluster) { c.Spec.Replicas = 11 }, []string{"spec.replicas", "11", "less than or equal to 10"}},
		"negative":        {func(c *v1.MySQLCluster) { c.Spec.Replicas = -1 }, []string{"spec.replicas", "-1", "greater than or equal to 1"}},
		"acks":            {func(c *v1.MySQLCluster) { c.Spec.Replication.Acks = ptr.To[int32](3) }, []string{"spec.replication.acks: 3 must be less than spec.replicas 3"}},
		"acks of default": {func(c *v1.MySQLCluster) { c.Spec.Replicas, c.Spec.Replication.Acks = 0, ptr.To[int32](5) }, []string{"spec.replication.acks: 5 must be less than spec.replicas 3"}},
		"acks 0":          {func(c *v1.MySQLCluster) { c.Spec.Replication.Acks = ptr.To[int32](0) }, []string{"spec.replication.acks: 0 is allowed only with spec.replicas 1; with 3 instances at least 1 is needed"}},
		"version":         {func(c *v1.MySQLCluster) { c.Spec.Version = "latest" }, []string{"spec.version", "latest"}},
		"failover mode":   {func(c *v1.MySQLCluster) { c.Spec.Failover.Mode = "Auto" }, []string{"spec.failover.mode", `"Auto"`, `"Automatic", "Manual"`}},
		"many failovers":  {func(c *v1.MySQLCluster) { c.Spec.Failover.MaxFailovers = 1001 }, []string{"spec.failover.maxFailovers", "1001", "less than or equal to 1000"}},
		"no failovers":    {func(c *v1.MySQLCluster) { c.Spec.Failover.MaxFailovers = -1 }, []string{"spec.failover.maxFailovers", "-1", "greater than or equal to 1"}},
		"errant":          {func(c *v1.MySQLCluster) { c.Spec.Failover.ErrantTransactions = "Keep" }, []string{"spec.failover.errantTransactions", `"Keep"`, `"Rebuild", "Hold"`}},
		"small volume":    {func(c *v1.MySQLCluster) { c.Spec.Storage.Size = resource.MustParse("10Mi") }, []string{"spec.storage.size: 10Mi is too small; at least 1Gi is needed"}},
		"reclaim policy":  {func(c *v1.MySQLCluster) { c.Spec.Storage.ReclaimPolicy = "Recycle" }, []string{"spec.storage.reclaimPolicy", `"Recycle"`, `"Retain", "Delete"`}},
		"option name":     {func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"[client]": "x"} }, []string{"spec.config: [client] is not an option name"}},
		"two lines":       {func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"a": "1\nb=2"} }, []string{"spec.config.a: a value must be one line"}},
		"long value": {func(c *v1.MySQLCluster) {
			c.Spec.Config = map[string]v1.ConfigValue{"a": v1.ConfigValue(strings.Repeat("x", 1025))}
		}, []string{"spec.config.a", "1024"}},
		"operator's label": {func(c *v1.MySQLCluster) { c.Spec.Pod.Labels = map[string]v1.LabelValue{"porpoise.dev/role": "primary"} }, []string{"spec.pod.labels: porpoise.dev/role belongs to the operator"}},
		"operator's note": {func(c *v1.MySQLCluster) {
			c.Spec.Pod.Annotations = map[string]v1.AnnotationValue{"porpoise.dev/revision": "x"}
		}, []string{"spec.pod.annotations: porpoise.dev/revision belongs to the operator"}},
		"service's note": {func(c *v1.MySQLCluster) {
			c.Spec.Services.ReadWrite.Annotations = map[string]v1.AnnotationValue{"porpoise.dev/x": "x"}
		}, []string{"spec.services.readWrite", "annotations: porpoise.dev/x belongs to the operator"}},
		"service type": {func(c *v1.MySQLCluster) { c.Spec.Services.ReadWrite.Type = "ExternalName" }, []string{"spec.services.readWrite.type", `"ExternalName"`, `"ClusterIP", "NodePort", "LoadBalancer"`}},
		"empty source": {func(c *v1.MySQLCluster) {
			c.Spec.ConfigFrom = []v1.ConfigSource{{ConfigMapKeyRef: v1.ConfigMapKeyRef{Name: "x"}}}
		}, []string{"spec.configFrom[0].configMapKeyRef.key"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(namespace)
			cluster.Name = "refused"
			tc.mutate(cluster)
			err := admin.Create(t.Context(), cluster, client.DryRunAll)
			requireRefusal(t, err, tc.want)
		})
	}
}

// TestRefusedChanges: what may not change, or only one way.
func TestRefusedChanges(t *testing.T) {
	namespace := newNamespace(t)
	for name, tc := range map[string]struct {
		mutate func(*v1.MySQLCluster)
		want   []string // nil: allowed
	}{
		"shrink":      {func(c *v1.MySQLCluster) { c.Spec.Storage.Size = resource.MustParse("1Gi") }, []string{"spec.storage.size: 1Gi is less than 2Gi; a volume cannot shrink"}},
		"grow":        {func(c *v1.MySQLCluster) { c.Spec.Storage.Size = resource.MustParse("3000Mi") }, nil},
		"class":       {func(c *v1.MySQLCluster) { c.Spec.Storage.StorageClassName = ptr.To("other") }, []string{"spec.storage.storageClassName: cannot be changed"}},
		"no class":    {func(c *v1.MySQLCluster) { c.Spec.Storage.StorageClassName = nil }, []string{"spec.storage.storageClassName: cannot be changed"}},
		"taken back":  {func(c *v1.MySQLCluster) { c.Spec.Version = "9.7" }, nil},
		"older":       {func(c *v1.MySQLCluster) { c.Spec.Version = "8.4" }, []string{"spec.version: 8.4 is an older series than 9.7.4, which has run"}},
		"older minor": {func(c *v1.MySQLCluster) { c.Spec.Version = "9.6.9" }, []string{"spec.version: 9.6.9 is an older series than 9.7.4, which has run"}},
		"newer":       {func(c *v1.MySQLCluster) { c.Spec.Version = "10.0" }, nil},
		"by number":   {func(c *v1.MySQLCluster) { c.Spec.Version = "9.10" }, nil},
		"policy":      {func(c *v1.MySQLCluster) { c.Spec.Storage.ReclaimPolicy = v1.ReclaimDelete }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(namespace)
			cluster.Name = "c-" + strings.ReplaceAll(name, " ", "-")
			cluster.Spec.Suspend = true
			cluster.Spec.Version = "9.8" // Asked for, and never run.
			cluster.Spec.Storage.Size = resource.MustParse("2Gi")
			cluster.Spec.Storage.StorageClassName = ptr.To("fast")
			if err := admin.Create(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			// The lane's own first report may come in between, and takes away what the status says here.
			eventually(t, func() error {
				if err := reportVersion(t, cluster, "9.7.4"); err != nil {
					return err
				}
				base := cluster.DeepCopy()
				tc.mutate(cluster)
				err := admin.Patch(t.Context(), cluster, client.MergeFrom(base), client.DryRunAll)
				if tc.want == nil {
					return err
				}
				return refusal(err, tc.want)
			})
		})
	}
}

// reportVersion makes the status say which version has run.
func reportVersion(t *testing.T, cluster *v1.MySQLCluster, version string) error {
	t.Helper()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return err
	}
	cluster.Status.Version = version
	return admin.Status().Update(t.Context(), cluster)
}

func requireRefusal(t *testing.T, err error, want []string) {
	t.Helper()
	if wrong := refusal(err, want); wrong != nil {
		t.Error(wrong)
	}
}

// refusal returns what is wrong with a refusal that is to say all parts.
func refusal(err error, want []string) error {
	if err == nil {
		return errors.New("accepted")
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			return fmt.Errorf("%q does not say %q", err.Error(), part)
		}
	}
	return nil
}

// TestRecordRules: the record cannot go back.
func TestRecordRules(t *testing.T) {
	topology := &v1.MySQLTopology{
		ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "alone"},
		Spec:       v1.MySQLTopologySpec{ClusterID: "id", Instances: []string{"alone-0"}},
	}
	if err := admin.Create(t.Context(), topology); err != nil {
		t.Fatal(err)
	}
	topology.Status = v1.MySQLTopologyStatus{Epoch: 5, Quorum: &v1.Quorum{Generation: 7}}
	if err := admin.Status().Update(t.Context(), topology); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*v1.MySQLTopology){
		"status.epoch: may not fall":             func(m *v1.MySQLTopology) { m.Status.Epoch = 4 },
		"status.quorum.generation: may not fall": func(m *v1.MySQLTopology) { m.Status.Quorum.Generation = 6 },
	} {
		worse := topology.DeepCopy()
		change(worse)
		requireRefusal(t, admin.Status().Update(t.Context(), worse, client.DryRunAll), []string{want})
	}
	worse := topology.DeepCopy()
	worse.Spec.ClusterID = "another"
	requireRefusal(t, admin.Update(t.Context(), worse, client.DryRunAll), []string{"spec.clusterID: cannot be changed"})
}

// TestMissingConfigMapHeals: the instances go on as they are, and follow as soon as the ConfigMap is there.
func TestMissingConfigMapHeals(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	mutate(t, cluster, func(c *v1.MySQLCluster) {
		c.Spec.ConfigFrom = []v1.ConfigSource{{ConfigMapKeyRef: v1.ConfigMapKeyRef{Name: "tuned", Key: "my.cnf"}}}
	})
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "ConfigMapNotFound", `spec.configFrom[0].configMapKeyRef.name: ConfigMap "tuned" does not exist`)
	waitEvent(t, cluster, "ConfigMapNotFound", `"tuned"`)
	waitCondition(t, cluster, v1.ConditionReady, metav1.ConditionTrue, "")
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tuned"}, Data: map[string]string{"other": ""}}
	if err := admin.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "ConfigMapKeyNotFound", `has no key "my.cnf"; it has: other`)
	if got := w.restarted(); len(got) > 0 {
		t.Errorf("restarted %v", got)
	}
	mutate(t, source, func(c *corev1.ConfigMap) { c.Data["my.cnf"] = "[mysqld]\nserver_id = 7\n" })
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "ConfigRejected", "server_id", "spec.configFrom[0]")
	mutate(t, source, func(c *corev1.ConfigMap) { c.Data["my.cnf"] = "[mysqld]\nmax_connections = 321\n" })
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionFalse, "")
	waitRunning(t, cluster)
	if got := w.restarted(); len(got) != 3 {
		t.Errorf("restarted %v, want all three", got)
	}
}

// TestRejectedConfig: what mysqld refuses reaches no instance, and is not asked again.
func TestRejectedConfig(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	w.set(func(w *world) {
		w.check = `{"ok":false,"reason":"ConfigRejected","message":"unknown variable 'nonsense=1'","version":"9.7.4"}`
	})
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"nonsense": "1"} })
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "ConfigRejected", "spec.config: image", "unknown variable 'nonsense=1'")
	waitEvent(t, cluster, "RevisionRejected", "unknown variable 'nonsense=1'")
	waitCondition(t, cluster, v1.ConditionReady, metav1.ConditionTrue, "")
	settled(t, namespace)
	var pods corev1.PodList
	if err := admin.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{naming.LabelComponent: "config-check"}); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 0 {
		t.Errorf("%d checks are left", len(pods.Items))
	}
	before := len(spy.in(namespace))
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Annotations = map[string]string{"a": "b"} })
	settled(t, namespace)
	if after := spy.in(namespace); len(after) != before {
		t.Errorf("the rejected configuration was tried again: %v", after[before:])
	}
	w.set(func(w *world) { w.check = checkPassed })
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Config = nil })
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionFalse, "")
	if got := w.restarted(); len(got) != 0 {
		t.Errorf("restarted %v", got)
	}
}

func TestOwnedOptionAndUnknownVersion(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	cluster.Spec.Version = "9.9"
	cluster.Spec.Config = map[string]v1.ConfigValue{"gtid-mode": "OFF"}
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "UnknownVersion",
		`spec.version: "9.9": not known to this operator; allowed are 8.4, 9.7`, "spec.config", "gtid")
	waitEvent(t, cluster, "UnknownVersion", "9.9")
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if cluster.Status.Phase != v1.PhasePending {
			return fmt.Errorf("phase %s", cluster.Status.Phase)
		}
		return nil
	})
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Image, c.Spec.Config = "example.org/mysql:9.9", nil })
	waitRunning(t, cluster)
}

// TestQuota: a quota that blocks pods is named, and what it says.
func TestQuota(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	if err := admin.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	// The quota controller is not there to say what is used.
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}
	if err := admin.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	cluster := newCluster(namespace)
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "QuotaExceeded", "exceeded quota: small")
	waitEvent(t, cluster, "QuotaExceeded", "exceeded quota: small")
	if err := admin.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	waitRunning(t, cluster)
}

func TestWrongStorageClass(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "example.org/none"}
	if err := admin.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, class) })
	cluster := newCluster(namespace)
	cluster.Spec.Storage.StorageClassName = ptr.To("missing")
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "StorageClassNotFound", `spec.storage.storageClassName: StorageClass "missing" not found; there are: slow`)
	waitEvent(t, cluster, "StorageClassNotFound", `"missing"`)
	missing := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "missing"}, Provisioner: "example.org/none"}
	if err := admin.Create(t.Context(), missing); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, missing) })
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionFalse, "")
}

// TestVolumeGrowth: a volume grows where its class allows it; where not, the class is named and nothing else stops.
func TestVolumeGrowth(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, Provisioner: "example.org/none"}
	if err := admin.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, class) })
	cluster := newCluster(namespace)
	cluster.Spec.Storage.StorageClassName = ptr.To("fixed")
	create(t, cluster)
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Storage.Size = resource.MustParse("2Gi") })
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "VolumeNotExpandable", "spec.storage.size: 2Gi", `StorageClass "fixed"`, "allowVolumeExpansion")
	mutate(t, class, func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = ptr.To(true) })
	eventually(t, func() error {
		claim := &corev1.PersistentVolumeClaim{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "orders-2"}, claim); err != nil {
			return err
		}
		if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "2Gi" {
			return fmt.Errorf("size %s", size.String())
		}
		return nil
	})
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionFalse, "")
}

// TestAdoption: volumes of an earlier cluster are not taken over unless that is asked for.
func TestAdoption(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	for i := range 3 {
		name := naming.Instance("orders", i)
		if err := admin.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: naming.InstanceLabels("orders", name),
				Annotations: map[string]string{naming.AnnotationClusterID: "earlier-life"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}},
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	cluster := newCluster(namespace)
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "VolumesOfAnotherCluster", "orders-0, orders-1, orders-2", "earlier-life", "porpoise.dev/adopt-volumes-of=earlier-life")
	waitEvent(t, cluster, "VolumesOfAnotherCluster", "earlier-life")
	settled(t, namespace)
	if got := children(t, namespace); got["StatefulSet/orders-0"] != nil || got["MySQLTopology/orders"] != nil {
		t.Error("an instance was made on another cluster's volume")
	}
	mutate(t, cluster, func(c *v1.MySQLCluster) {
		c.Annotations = map[string]string{naming.AnnotationAdopt: "earlier-life"}
	})
	waitRunning(t, cluster)
	topology := &v1.MySQLTopology{}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), topology); err != nil {
		t.Fatal(err)
	}
	if topology.Spec.ClusterID != "earlier-life" {
		t.Errorf("cluster id %s", topology.Spec.ClusterID)
	}
}

// TestForeignObject: an object of the user's under a wanted name is not taken over.
func TestForeignObject(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders-rw"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if err := admin.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	cluster := newCluster(namespace)
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "ObjectExists", "Service", "orders-rw", "rename or delete it")
	if err := admin.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	waitRunning(t, cluster)
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionFalse, "")
}

// TestSuspend: nothing is changed, the topology lane is told, and status goes on.
func TestSuspend(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Suspend, c.Spec.Replicas = true, 5 })
	waitCondition(t, cluster, v1.ConditionProgressing, metav1.ConditionFalse, "Suspended")
	topology := &v1.MySQLTopology{}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), topology); err != nil {
		t.Fatal(err)
	}
	if !topology.Spec.Suspend || len(topology.Spec.Instances) != 3 {
		t.Errorf("topology spec %+v", topology.Spec)
	}
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Suspend = false })
	waitRunning(t, cluster)
	if cluster.Status.Replicas != 5 {
		t.Errorf("%d replicas", cluster.Status.Replicas)
	}
}
