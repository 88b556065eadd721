package apply

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const owner = naming.OwnerClusterLane

func newApplier(t *testing.T, objects ...client.Object) (*Applier, *[]Verb) {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(s).WithReturnManagedFields().WithObjects(objects...).Build()
	verbs := &[]Verb{}
	return &Applier{Client: c, Live: c, Owner: owner, Observe: func(_ context.Context, w Write) { *verbs = append(*verbs, w.Verb) }}, verbs
}

func input() desired.Input {
	return desired.Input{
		Cluster: &v1.MySQLCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop", UID: "u-1"},
			Spec: v1.MySQLClusterSpec{
				Version: "9.7", Replicas: 3, Storage: v1.StorageSpec{Size: resource.MustParse("1024Mi")},
				Resources: v1.ResourcesSpec{Limits: v1.ComputeResources{Memory: ptr.To(resource.MustParse("2048Mi")), CPU: ptr.To(resource.MustParse("0.5"))}},
				Pod:       v1.PodSpec{Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}},
			},
		},
		ClusterID: "u-1", OperatorImage: "operator:v1", OperatorNamespace: "porpoise-system",
	}
}

func nobody(client.Object) bool { return false }

// children are all kinds that are built, so that a field which does not come back as it was applied is found for each.
func children(in desired.Input) map[string]struct {
	want Configuration
	live client.Object
} {
	shape := desired.ShapeOf(in.Cluster, "mysql:9.7.4", "a = 1\n")
	return map[string]struct {
		want Configuration
		live client.Object
	}{
		"statefulset":    {desired.StatefulSet(in, shape, "orders-0"), &appsv1.StatefulSet{}},
		"claim":          {desired.DataClaim(in, "orders-0", desired.Volume{Size: in.Cluster.Spec.Storage.Size}), &corev1.PersistentVolumeClaim{}},
		"service":        {desired.ServiceInstances(in), &corev1.Service{}},
		"serviceaccount": {desired.ServiceAccount(in), &corev1.ServiceAccount{}},
		"secret":         {desired.AccountSecret(in, "orders-app", desired.Account{Username: "app", Password: "p", Database: "app", CA: []byte("PEM")}), &corev1.Secret{}},
		"revision":       {desired.Revision(in, shape, desired.Verdict{Check: "c"}, 1), &appsv1.ControllerRevision{}},
		"topology":       {desired.Topology(in, v1.MySQLTopologySpec{Instances: []string{"orders-0"}, Acks: 1}), &v1.MySQLTopology{}},
	}
}

func TestApplyWritesOnlyDifferences(t *testing.T) {
	for name, child := range children(input()) {
		t.Run(name, func(t *testing.T) {
			a, verbs := newApplier(t)
			if wrote, err := a.Apply(t.Context(), child.want, nil, nobody); err != nil || !wrote {
				t.Fatalf("create: %t, %v", wrote, err)
			}
			_, key := identify(child.want)
			if err := a.Client.Get(t.Context(), key, child.live); err != nil {
				t.Fatal(err)
			}
			if wrote, err := a.Apply(t.Context(), child.want, child.live, nobody); err != nil || wrote {
				t.Fatalf("the same again: wrote %t, %v", wrote, err)
			}
			if !slices.Equal(*verbs, []Verb{Created}) {
				t.Errorf("observed %v", *verbs)
			}
		})
	}
}

func TestApplyCorrectsDrift(t *testing.T) {
	in := input()
	shape := desired.ShapeOf(in.Cluster, "mysql:9.7.4", "")
	want := desired.StatefulSet(in, shape, "orders-0")
	key := client.ObjectKey{Namespace: "shop", Name: "orders-0"}
	for name, drift := range map[string]func(*appsv1.StatefulSet){
		"changed":      func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) },
		"nested":       func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "other" },
		"label":        func(s *appsv1.StatefulSet) { s.Labels[naming.LabelCluster] = "other" },
		"owner":        func(s *appsv1.StatefulSet) { s.OwnerReferences = nil },
		"removed list": func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Tolerations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newApplier(t)
			if _, err := a.Apply(t.Context(), want, nil, nobody); err != nil {
				t.Fatal(err)
			}
			live := &appsv1.StatefulSet{}
			if err := a.Client.Get(t.Context(), key, live); err != nil {
				t.Fatal(err)
			}
			drift(live)
			if err := a.Client.Update(t.Context(), live, client.FieldOwner("somebody")); err != nil {
				t.Fatal(err)
			}
			if wrote, err := a.Apply(t.Context(), want, live, nobody); err != nil || !wrote {
				t.Fatalf("drift: wrote %t, %v", wrote, err)
			}
			if err := a.Client.Get(t.Context(), key, live); err != nil {
				t.Fatal(err)
			}
			if same, err := Equal(want, live, owner); err != nil || !same {
				t.Errorf("not corrected: %v", err)
			}
		})
	}
}

// TestApplyRemovesWhatIsNoLongerDesired: a field that was applied and is desired no more counts as a difference.
func TestApplyRemovesWhatIsNoLongerDesired(t *testing.T) {
	in := input()
	a, _ := newApplier(t)
	in.Cluster.Spec.Storage.ReclaimPolicy = v1.ReclaimDelete
	key := client.ObjectKey{Namespace: "shop", Name: "orders-0"}
	claim := func() *corev1.PersistentVolumeClaim {
		live := &corev1.PersistentVolumeClaim{}
		if err := a.Client.Get(t.Context(), key, live); err != nil {
			t.Fatal(err)
		}
		return live
	}
	size := in.Cluster.Spec.Storage.Size
	if _, err := a.Apply(t.Context(), desired.DataClaim(in, "orders-0", desired.Volume{Size: size}), nil, nobody); err != nil {
		t.Fatal(err)
	}
	if len(claim().OwnerReferences) != 1 {
		t.Fatal("a claim to be deleted with its cluster has no owner")
	}
	in.Cluster.Spec.Storage.ReclaimPolicy = v1.ReclaimRetain
	if wrote, err := a.Apply(t.Context(), desired.DataClaim(in, "orders-0", desired.Volume{Size: size}), claim(), nobody); err != nil || !wrote {
		t.Fatalf("wrote %t, %v", wrote, err)
	}
	if len(claim().OwnerReferences) != 0 {
		t.Error("a claim to be kept still has an owner")
	}
}

func TestApplyRefusesForeignObjects(t *testing.T) {
	in := input()
	a, verbs := newApplier(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-rw"}})
	_, err := a.Apply(t.Context(), desired.ServiceReadWrite(in), nil, nobody)
	if !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
	if len(*verbs) != 0 {
		t.Errorf("wrote %v", *verbs)
	}
	if wrote, err := a.Apply(t.Context(), desired.ServiceReadWrite(in), nil, func(client.Object) bool { return true }); err != nil || !wrote {
		t.Errorf("an object of the cluster that the cache lacks: wrote %t, %v", wrote, err)
	}
}

// TestCreateNeverOverwrites: a cache that is behind must not cost what was generated before.
func TestCreateNeverOverwrites(t *testing.T) {
	in := input()
	account := func(password string) Configuration {
		return desired.AccountSecret(in, "orders-app", desired.Account{Username: "app", Password: password})
	}
	a, verbs := newApplier(t)
	mine := func(client.Object) bool { return true }
	if err := a.Create(t.Context(), account("first"), mine); err != nil {
		t.Fatal(err)
	}
	if err := a.Create(t.Context(), account("second"), mine); !errors.Is(err, ErrBehind) {
		t.Errorf("got %v, want ErrBehind", err)
	}
	if err := a.Create(t.Context(), account("third"), nobody); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
	stored := &corev1.Secret{}
	if err := a.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "orders-app"}, stored); err != nil {
		t.Fatal(err)
	}
	if got := string(stored.Data["password"]); got != "first" || len(*verbs) != 1 {
		t.Errorf("password %q after %v, want the first one", got, *verbs)
	}
}

func TestDeleteNeedsTheSameObject(t *testing.T) {
	a, verbs := newApplier(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", UID: "u-2"}})
	live := &corev1.ConfigMap{}
	if err := a.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "x"}, live); err != nil {
		t.Fatal(err)
	}
	stale := live.DeepCopy()
	stale.ResourceVersion = "1"
	if err := a.Delete(t.Context(), stale); err == nil {
		t.Error("a changed object is deleted")
	}
	if err := a.Delete(t.Context(), live); err != nil {
		t.Error(err)
	}
	if err := a.Delete(t.Context(), live); err != nil {
		t.Errorf("an object that is gone: %v", err)
	}
	if !slices.Equal(*verbs, []Verb{Deleted}) {
		t.Errorf("observed %v", *verbs)
	}
}
