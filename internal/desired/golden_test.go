package desired

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// plainInput is the shortest specification there is.
func plainInput() Input {
	return Input{
		Cluster: &v1.MySQLCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop", UID: "11111111-2222-3333-4444-555555555555"},
			Spec: v1.MySQLClusterSpec{
				Version:  "9.7",
				Replicas: 3,
				Storage:  v1.StorageSpec{Size: resource.MustParse("10Gi")},
			},
		},
		ClusterID:         "11111111-2222-3333-4444-555555555555",
		OperatorImage:     "porpoise.dev/porpoise-operator:v1",
		OperatorNamespace: "porpoise-system",
	}
}

// fullInput sets every field.
func fullInput() Input {
	in := plainInput()
	in.Primary = "orders-1"
	in.Cluster.Spec = v1.MySQLClusterSpec{
		Version:          "9.7",
		Image:            "registry.example/mysql:9.7.4",
		ImagePullPolicy:  corev1.PullIfNotPresent,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Replicas:         5,
		Storage: v1.StorageSpec{
			Size: resource.MustParse("20480Mi"), StorageClassName: ptr.To("fast"), ReclaimPolicy: v1.ReclaimDelete,
		},
		Replication: v1.ReplicationSpec{Acks: ptr.To[int32](1)},
		Failover:    v1.FailoverSpec{Mode: v1.FailoverManual, MaxFailovers: 7, ErrantTransactions: v1.ErrantHold},
		Resources: v1.ResourcesSpec{
			Requests: v1.ComputeResources{CPU: ptr.To(resource.MustParse("0.5")), Memory: ptr.To(resource.MustParse("1024Mi"))},
			Limits:   v1.ComputeResources{Memory: ptr.To(resource.MustParse("2Gi"))},
		},
		Pod: v1.PodSpec{
			Labels:            map[string]v1.LabelValue{"team": "shop"},
			Annotations:       map[string]v1.AnnotationValue{"example.org/note": "hello"},
			NodeSelector:      map[string]string{"disk": "ssd"},
			Tolerations:       []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
			PriorityClassName: "databases",
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule,
			}},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
				}},
			}},
		},
		Services: v1.ServicesSpec{ReadWrite: v1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]v1.AnnotationValue{"example.org/lb": "internal"},
		}},
		Suspend: true,
	}
	return in
}

const goldenConfig = "max_connections = 500\n"

func shapeFor(in Input) Shape {
	image := in.Cluster.Spec.Image
	if image == "" {
		image = "porpoise.dev/mysql:9.7.4"
	}
	return ShapeOf(in.Cluster, image, goldenConfig)
}

// wishesOf is what a full specification wants at a moment at which everything is asked for.
func wishesOf(in Input) v1.MySQLTopologySpec {
	spec := TopologySpec(in.Cluster)
	spec.Restarting = "orders-2"
	if in.Cluster.Spec.Suspend {
		spec.Switchover = &v1.SwitchoverRequest{ID: "orders-1@v2", To: "orders-1"}
		spec.AcceptDataLoss = &v1.DataLossAcceptance{ID: "ann@2026-05-01T12:00:00Z", By: "ann", At: metav1.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	}
	return spec
}

func TestGolden(t *testing.T) {
	for name, in := range map[string]Input{"plain": plainInput(), "full": fullInput()} {
		shape := shapeFor(in)
		verdict := Verdict{Check: "0123456789", ServerVersion: "9.7.4", ResolvedFrom: "9.7"}
		storage := in.Cluster.Spec.Storage
		for file, object := range map[string]any{
			"configmap":          ConfigMap(in, shape),
			"service-rw":         ServiceReadWrite(in),
			"service-ro":         ServiceReadOnly(in),
			"service-instances":  ServiceInstances(in),
			"serviceaccount":     ServiceAccount(in),
			"pdb":                PodDisruptionBudget(in),
			"networkpolicy":      NetworkPolicy(in),
			"claim":              DataClaim(in, "orders-1", Volume{Size: storage.Size, Class: storage.StorageClassName}),
			"claim-blank":        DataClaim(in, "orders-1", Volume{Size: storage.Size, Class: storage.StorageClassName, Blank: true}),
			"secret-app":         AccountSecret(in, "orders-app", Account{Username: "app", Password: "s3cr/t", Database: "app", CA: []byte("PEM")}),
			"secret-admin":       AccountSecret(in, "orders-admin", Account{Username: "admin", Password: "s3cr/t", CA: []byte("PEM")}),
			"secret-certificate": CertificateSecret(in, "orders-1-tls", "orders-1", map[string][]byte{"tls.crt": []byte("certificate")}),
			"topology":           Topology(in, wishesOf(in)),
			"statefulset":        StatefulSet(in, shape, "orders-1"),
			"checkpod":           CheckPod(in, shape, "9.7"),
			"revision":           Revision(in, shape, verdict, 3),
		} {
			t.Run(name+"/"+file, func(t *testing.T) { compareGolden(t, filepath.Join("testdata", name, file+".yaml"), object) })
		}
	}
}

func compareGolden(t *testing.T, path string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./internal/desired -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-golden +built):\n%s", path, diff)
	}
}
