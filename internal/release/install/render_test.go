package install

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/porpoise-dev/porpoise/internal/release/image"
)

const root = "../../.."

func built(operator, mysql image.Built) image.Manifest {
	operator.Name, mysql.Name = image.NameOperator, image.NameMySQL
	return image.Manifest{Images: []image.Built{operator, mysql}}
}

// render returns the manager's Deployment and the image map's ConfigMap.
func render(t *testing.T, images image.Manifest) (appsv1.Deployment, *unstructured.Unstructured) {
	t.Helper()
	text, err := Render(root, images)
	if err != nil {
		t.Fatal(err)
	}
	var (
		deployment appsv1.Deployment
		configMap  *unstructured.Unstructured
		decoder    = utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch o.GetKind() {
		case "Deployment":
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &deployment); err != nil {
				t.Fatal(err)
			}
		case "ConfigMap":
			configMap = o
		}
	}
	if deployment.Name == "" || configMap == nil {
		t.Fatalf("no Deployment or no ConfigMap in:\n%s", text)
	}
	return deployment, configMap
}

// TestTheNamespaceComesBeforeWhatIsInIt: a fresh cluster takes the manifests in one go, in their order.
func TestTheNamespaceComesBeforeWhatIsInIt(t *testing.T) {
	text, err := Render(root, built(image.Built{Version: "v1"}, image.Built{Version: "9.7.4"}))
	if err != nil {
		t.Fatal(err)
	}
	decoder, namespaces, inside := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096), map[string]bool{}, 0
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "Namespace" {
			namespaces[o.GetName()] = true
		}
		if o.GetNamespace() == "" {
			continue
		}
		inside++
		if !namespaces[o.GetNamespace()] {
			t.Errorf("%s %s comes before its namespace %s", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	if inside == 0 {
		t.Error("nothing is in a namespace")
	}
}

func mountedMap(d appsv1.Deployment) string { return d.Spec.Template.Spec.Volumes[0].ConfigMap.Name }

// TestAnotherMySQLImageRestartsTheManager: the ConfigMap's name must follow from what is in it after the references of
// the built images were put in, or the manager goes on with the image map that it has read.
func TestAnotherMySQLImageRestartsTheManager(t *testing.T) {
	operator := image.Built{Ref: "porpoise.dev/porpoise-operator:dev-0123456789ab"}
	one, oneMap := render(t, built(operator, image.Built{Version: "9.7.4", Pushed: "r.example.org/mysql@sha256:1"}))
	two, twoMap := render(t, built(operator, image.Built{Version: "9.7.4", Pushed: "r.example.org/mysql@sha256:2"}))
	for name, is := range map[string]*unstructured.Unstructured{"r.example.org/mysql@sha256:1": oneMap, "r.example.org/mysql@sha256:2": twoMap} {
		if text, _, _ := unstructured.NestedString(is.Object, "data", "images.yaml"); strings.Count(text, name) != 2 {
			t.Errorf("the image map does not name %s for series and release:\n%s", name, text)
		}
	}
	if mountedMap(one) != oneMap.GetName() || mountedMap(two) != twoMap.GetName() {
		t.Errorf("mounted %s and %s, want %s and %s", mountedMap(one), mountedMap(two), oneMap.GetName(), twoMap.GetName())
	}
	if mountedMap(one) == mountedMap(two) {
		t.Errorf("both image maps are mounted by the name %s", mountedMap(one))
	}
}

func TestTheManagerKnowsTheImageItRunsFrom(t *testing.T) {
	for _, operator := range []image.Built{
		{Ref: "porpoise.dev/porpoise-operator:dev-0123456789ab"},
		{Ref: "porpoise.dev/porpoise-operator:v1.2.0"},
		{Ref: "porpoise.dev/porpoise-operator:dev", Pushed: "r.example.org:5000/team/porpoise-operator@sha256:" + strings.Repeat("a", 64)},
	} {
		d, _ := render(t, built(operator, image.Built{Version: "9.7.4", Ref: "porpoise.dev/mysql:9.7.4"}))
		manager := d.Spec.Template.Spec.Containers[0]
		if want := operator.DeployRef(); manager.Image != want || manager.Env[0].Value != want {
			t.Errorf("image %s, %s %s; want %s for both", manager.Image, manager.Env[0].Name, manager.Env[0].Value, want)
		}
	}
}

// TestTheVersionIsThatOfTheBuild: `kubectl porpoise version` reads it from the Deployment.
func TestTheVersionIsThatOfTheBuild(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.0-14-g2ab17c3-dirty": "v1.2.0-14-g2ab17c3-dirty",
		"v1.2.0+build.7":           "v1.2.0_build.7", // a plus is allowed in a version and not in a label
	} {
		d, _ := render(t, built(image.Built{Ref: "porpoise.dev/porpoise-operator:dev-1", Version: version}, image.Built{Version: "9.7.4"}))
		for name, labels := range map[string]map[string]string{"Deployment": d.Labels, "pod": d.Spec.Template.Labels} {
			if got := labels[labelVersion]; got != want {
				t.Errorf("%s of %s: label %s is %q, want %q", name, version, labelVersion, got, want)
			}
		}
		if _, there := d.Spec.Selector.MatchLabels[labelVersion]; there {
			t.Error("the version is in the selector, which cannot be changed")
		}
	}
	images := built(image.Built{Ref: "porpoise.dev/porpoise-operator:dev-1", Version: "-nonsense"}, image.Built{Version: "9.7.4"})
	if _, err := Render(root, images); err == nil || !strings.Contains(err.Error(), `"-nonsense"`) {
		t.Errorf("error %v, want one that names the version", err)
	}
}

func TestWhatWasNotBuiltIsNamed(t *testing.T) {
	images := built(image.Built{}, image.Built{})
	images.Images = images.Images[:1]
	if _, err := Render(root, images); !errors.Is(err, image.ErrNotBuilt) || !strings.Contains(err.Error(), image.NameMySQL) {
		t.Errorf("error %v, want ErrNotBuilt of mysql", err)
	}
}

func TestOnlyWholeReferencesAreReplaced(t *testing.T) {
	got := replaceReference("a: p/op:dev\nb: p/op:dev-12\nc: 'p/op:dev'", "p/op:dev", "r/op@sha256:1")
	if want := "a: r/op@sha256:1\nb: p/op:dev-12\nc: 'r/op@sha256:1'"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
