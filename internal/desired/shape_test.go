package desired

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// TestRevisionFollowsShape: every input that shapes an instance changes the revision, nothing else does.
func TestRevisionFollowsShape(t *testing.T) {
	base := shapeFor(fullInput()).Revision()
	for name, tc := range map[string]struct {
		mutate  func(*Input)
		restart bool
	}{
		"image":              {func(in *Input) { in.Cluster.Spec.Image = "registry.example/mysql:9.7.5" }, true},
		"pull policy":        {func(in *Input) { in.Cluster.Spec.ImagePullPolicy = corev1.PullAlways }, true},
		"pull secret":        {func(in *Input) { in.Cluster.Spec.ImagePullSecrets[0].Name = "other" }, true},
		"memory limit":       {func(in *Input) { in.Cluster.Spec.Resources.Limits.Memory = ptr.To(resource.MustParse("3Gi")) }, true},
		"pod label":          {func(in *Input) { in.Cluster.Spec.Pod.Labels["team"] = "other" }, true},
		"pod annotation":     {func(in *Input) { in.Cluster.Spec.Pod.Annotations["example.org/note"] = "bye" }, true},
		"node selector":      {func(in *Input) { in.Cluster.Spec.Pod.NodeSelector["disk"] = "hdd" }, true},
		"toleration":         {func(in *Input) { in.Cluster.Spec.Pod.Tolerations[0].Key = "other" }, true},
		"affinity":           {func(in *Input) { in.Cluster.Spec.Pod.Affinity = nil }, true},
		"spread":             {func(in *Input) { in.Cluster.Spec.Pod.TopologySpreadConstraints = nil }, true},
		"priority":           {func(in *Input) { in.Cluster.Spec.Pod.PriorityClassName = "" }, true},
		"memory otherwise":   {func(in *Input) { in.Cluster.Spec.Resources.Limits.Memory = ptr.To(resource.MustParse("2048Mi")) }, false},
		"operator image":     {func(in *Input) { in.OperatorImage = "porpoise.dev/porpoise-operator:v2" }, false},
		"primary":            {func(in *Input) { in.Primary = "orders-0" }, false},
		"replicas":           {func(in *Input) { in.Cluster.Spec.Replicas = 4 }, false},
		"acks":               {func(in *Input) { in.Cluster.Spec.Replication.Acks = ptr.To[int32](2) }, false},
		"volume size":        {func(in *Input) { in.Cluster.Spec.Storage.Size = resource.MustParse("30Gi") }, false},
		"service":            {func(in *Input) { in.Cluster.Spec.Services.ReadWrite.Type = corev1.ServiceTypeNodePort }, false},
		"version same image": {func(in *Input) { in.Cluster.Spec.Version = "9.7.4" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := fullInput()
			tc.mutate(&in)
			if changed := shapeFor(in).Revision() != base; changed != tc.restart {
				t.Errorf("revision changed = %t, want %t", changed, tc.restart)
			}
		})
	}
	if ShapeOf(fullInput().Cluster, "registry.example/mysql:9.7.4", "max_connections = 501\n").Revision() == base {
		t.Error("another configuration has the same revision")
	}
}

func TestCheckHash(t *testing.T) {
	shape := shapeFor(fullInput())
	base := shape.CheckHash("9.7")
	if shape.CheckHash("9.7.4") == base {
		t.Error("another version has the same check")
	}
	other := shape
	other.Pod.PriorityClassName = "x"
	if other.CheckHash("9.7") != base {
		t.Error("a pod field, which mysqld never sees, asks for another check")
	}
	other = shape
	other.Resources.Limits.Memory = ptr.To(resource.MustParse("4Gi"))
	if other.CheckHash("9.7") == base {
		t.Error("another memory limit, from which the buffer pool is sized, has the same check")
	}
}

func TestRevisionRoundTrip(t *testing.T) {
	in := fullInput()
	shape := shapeFor(in)
	verdict := Verdict{Check: "c", Rejected: "ConfigRejected", Message: "unknown variable", ServerVersion: "9.7.4", ResolvedFrom: "9.7"}
	built := Revision(in, shape, verdict, 7)
	object := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: *built.Name, Annotations: built.Annotations},
		Data:       runtime.RawExtension{Raw: built.Data.Raw},
		Revision:   *built.Revision,
	}
	stored, err := ReadRevision(object)
	if err != nil {
		t.Fatal(err)
	}
	if stored.Verdict != verdict || stored.Number != 7 || stored.Hash != shape.Revision() || stored.Shape.Revision() != shape.Revision() {
		t.Errorf("read back %+v", stored)
	}
	object.Data.Raw = []byte(`{"image":"other"}`)
	if _, err := ReadRevision(object); err == nil {
		t.Error("a changed anchor is accepted")
	}
}

func TestAcks(t *testing.T) {
	for replicas, want := range map[int32]int32{1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 10: 5} {
		in := plainInput()
		in.Cluster.Spec.Replicas = replicas
		if got := Acks(&in.Cluster.Spec); got != want {
			t.Errorf("Acks of %d replicas = %d, want %d", replicas, got, want)
		}
	}
}

func TestImageMap(t *testing.T) {
	m, err := ParseImageMap([]byte("images:\n  \"9.7\": a:9.7.4\n  \"8.4\": a:8.4.7\n"))
	if err != nil {
		t.Fatal(err)
	}
	if image, err := m.Resolve("9.7"); err != nil || image != "a:9.7.4" {
		t.Errorf("Resolve(9.7) = %q, %v", image, err)
	}
	_, err = m.Resolve("9.9")
	if want := `spec.version: "9.9": not known to this operator; allowed are 8.4, 9.7; set spec.image to use another`; err == nil || err.Error() != want {
		t.Errorf("Resolve(9.9): %v, want %s", err, want)
	}
	for _, bad := range []string{"images: [a]", "images: {\"9.7\": \"\"}", "other: {}"} {
		if _, err := ParseImageMap([]byte(bad)); err == nil {
			t.Errorf("ParseImageMap(%q) accepts it", bad)
		}
	}
}

func TestReadCheckResult(t *testing.T) {
	if r, err := ReadCheckResult(`{"ok":true,"version":"9.7.4"}`); err != nil || !r.OK || r.Verdict() != (Verdict{ServerVersion: "9.7.4"}) {
		t.Errorf("good result: %+v, %v", r, err)
	}
	if r, err := ReadCheckResult(`{"ok":false,"reason":"ConfigRejected","message":"m"}`); err != nil || r.Verdict() != (Verdict{Rejected: "ConfigRejected", Message: "m"}) {
		t.Errorf("bad result: %+v, %v", r, err)
	}
	for _, bad := range []string{"", "panic: x", `{"ok":false}`} {
		if _, err := ReadCheckResult(bad); err == nil {
			t.Errorf("ReadCheckResult(%q) accepts it", bad)
		}
	}
}
