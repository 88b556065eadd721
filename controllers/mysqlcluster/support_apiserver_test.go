//go:build apiserver

package mysqlcluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

func items(t *testing.T, list client.ObjectList) []client.Object {
	t.Helper()
	objects, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]client.Object, 0, len(objects))
	for _, object := range objects {
		typed, ok := object.(client.Object)
		if !ok {
			t.Fatalf("%T is not an object", object)
		}
		out = append(out, typed)
	}
	return out
}

// fullSpec sets every field in which a default of Kubernetes could hide.
func fullSpec() v1.MySQLClusterSpec {
	return v1.MySQLClusterSpec{
		Version:          "9.7",
		Image:            "porpoise.dev/mysql:9.7.4",
		ImagePullPolicy:  corev1.PullIfNotPresent,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Replicas:         3,
		Storage:          v1.StorageSpec{Size: resource.MustParse("2048Mi"), StorageClassName: ptr.To("fast"), ReclaimPolicy: v1.ReclaimDelete},
		Config:           map[string]v1.ConfigValue{"max_connections": "500"},
		ConfigFrom:       []v1.ConfigSource{{ConfigMapKeyRef: v1.ConfigMapKeyRef{Name: "tuned", Key: "my.cnf"}}},
		Replication:      v1.ReplicationSpec{Acks: ptr.To[int32](1)},
		Failover:         v1.FailoverSpec{Mode: v1.FailoverManual, MaxFailovers: 9, ErrantTransactions: v1.ErrantHold},
		Resources: v1.ResourcesSpec{
			Requests: v1.ComputeResources{CPU: ptr.To(resource.MustParse("0.5")), Memory: ptr.To(resource.MustParse("1024Mi"))},
			Limits:   v1.ComputeResources{CPU: ptr.To(resource.MustParse("2000m")), Memory: ptr.To(resource.MustParse("2048Mi"))},
		},
		Pod: v1.PodSpec{
			Labels:       map[string]v1.LabelValue{"team": "shop"},
			Annotations:  map[string]v1.AnnotationValue{"example.org/note": "hello"},
			NodeSelector: map[string]string{"disk": "ssd"},
			Tolerations: []corev1.Toleration{
				{Key: "dedicated", Operator: corev1.TolerationOpExists},
				{Key: "gone", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)},
			},
			Affinity: &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
					Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}}},
				}}},
				PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
				}}},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway}},
		},
		Services: v1.ServicesSpec{
			ReadWrite: v1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]v1.AnnotationValue{"example.org/lb": "internal"}},
			ReadOnly:  v1.ServiceSpec{Type: corev1.ServiceTypeNodePort},
		},
	}
}
