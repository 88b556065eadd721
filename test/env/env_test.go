package env

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/release/image"
)

func TestAWaitInVainTellsTheLastStateSeen(t *testing.T) {
	out := &bytes.Buffer{}
	e := &Env{Timeline: NewTimeline(out)}
	err := e.WaitFor(t.Context(), "the kettle", 50*time.Millisecond, func(context.Context) (bool, string, error) {
		return false, "lukewarm", nil
	})
	if err == nil || !strings.Contains(err.Error(), "wait for the kettle: not within 50ms; last seen: lukewarm") {
		t.Errorf("error %v, want what, how long and the last state", err)
	}
	if !strings.Contains(out.String(), "✗ the kettle") {
		t.Errorf("timeline %q does not show the failure", out)
	}
}

func TestAWaitOutlivesErrorsButNotGivingUp(t *testing.T) {
	calls := 0
	state, err := poll(t.Context(), time.Minute, func(context.Context) (bool, string, error) {
		calls++
		if calls == 1 {
			return false, "", errors.New("the API server is away")
		}
		return true, "boils", nil
	}, func(string) {})
	if err != nil || state != "boils" || calls != 2 {
		t.Errorf("state %q, error %v after %d calls, want boils after 2", state, err, calls)
	}
	if _, err := poll(t.Context(), time.Minute, func(context.Context) (bool, string, error) {
		return false, "", ErrGiveUp
	}, func(string) {}); !errors.Is(err, ErrGiveUp) {
		t.Errorf("error %v, want ErrGiveUp", err)
	}
}

func TestACheckThatEndsWithItsDeadlineKeepsTheStateBefore(t *testing.T) {
	calls := 0
	_, err := poll(t.Context(), 30*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		if calls++; calls == 1 {
			return false, "2 of 3", nil
		}
		<-ctx.Done()
		return false, "", ctx.Err()
	}, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "last seen: 2 of 3") {
		t.Errorf("error %v, want the state seen before the deadline", err)
	}
}

func TestAnExternalClusterNeedsARegistry(t *testing.T) {
	o := Options{Kubeconfig: "/some/config"}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "REGISTRY=host") {
		t.Errorf("error %v, want what to do", err)
	}
	o.Registry = RegistryLoaded
	if err := o.check(); err != nil {
		t.Error(err)
	}
	if o = (Options{Kubeconfig: "/some/config", LocalName: "e2e"}); o.External() {
		t.Error("the kubeconfig of a local cluster counts as external")
	}
}

func TestLoadedImagesAreNotThoseOfARegistryOfBefore(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "images.json")
	t.Setenv("PORPOISE_IMAGES", path)
	var built image.Manifest
	for _, name := range []string{image.NameOperator, image.NameMySQL} {
		built.Put(image.Built{Name: name, Ref: "porpoise.dev/" + name + ":1", Pushed: "gone.example.org/" + name + "@sha256:1"})
	}
	if err := built.Write(path); err != nil {
		t.Fatal(err)
	}
	e, err := newEnv(Options{Kubeconfig: "/some/config", Registry: RegistryLoaded})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.buildImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{image.NameOperator, image.NameMySQL} {
		if got, err := e.Image(name); err != nil || got != "porpoise.dev/"+name+":1" {
			t.Errorf("image %q, %v; want the one that was loaded", got, err)
		}
	}
}

func TestSettingsComeFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"KUBECONFIG", "REGISTRY", "PORPOISE_REGISTRY", "PORPOISE_CLUSTER_NAME", "CLUSTER"} {
		t.Setenv(name, "")
	}
	if o := FromEnvironment(); o.LocalName != "porpoise" || o.External() {
		t.Errorf("without settings: %+v, want the local cluster porpoise", o)
	}
	t.Setenv("KUBECONFIG", "/x")
	t.Setenv("CLUSTER", "demo") // the Makefile always exports it
	t.Setenv("REGISTRY", "r.example.org/team")
	if o := FromEnvironment(); !o.External() || o.Registry != "r.example.org/team" {
		t.Errorf("with KUBECONFIG: %+v, want an external cluster", o)
	}
}

func TestTheOperatorIsRenderedWithTheBuiltImages(t *testing.T) {
	r, err := newRunner(Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{run: r}
	e.Images.Put(image.Built{Name: image.NameOperator, Ref: "porpoise.dev/porpoise-operator:dev-0123456789ab"})
	e.Images.Put(image.Built{Name: image.NameMySQL, Version: "9.7.4", Pushed: "r.example.org/mysql@sha256:1"})
	objects, err := e.renderOperator()
	if err != nil {
		t.Fatal(err)
	}
	early, late := splitEarly(objects)
	if len(early) < 3 || len(late) == 0 {
		t.Fatalf("%d early and %d late objects, want the namespace, two CRDs and more", len(early), len(late))
	}
	var deployment, images string
	for _, o := range late {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		switch o.GetKind() {
		case "Deployment":
			deployment += string(text)
		case "ConfigMap":
			images += string(text)
		}
	}
	if strings.Count(deployment, "porpoise-operator:dev-0123456789ab") != 2 || strings.Contains(deployment, `porpoise-operator:dev"`) {
		t.Errorf("the Deployment does not name the built image as its own and as the agents': %s", deployment)
	}
	if !strings.Contains(images, "r.example.org/mysql@sha256:1") {
		t.Errorf("the image map does not name the pushed image: %s", images)
	}
}

func TestAFailedProgramNamesItsLogAndQuotesItsEnd(t *testing.T) {
	r := runner{root: t.TempDir(), logDir: t.TempDir()}
	_, err := r.run(t.Context(), nil, "broken", "sh", "-c", "echo out; echo reason >&2; exit 3")
	path := filepath.Join(r.logDir, "broken.log")
	if err == nil || !strings.Contains(err.Error(), "reason") || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v, want exit code, last lines and log", err)
	}
	// Both channels are pipes of their own: the log keeps every line of each, but no order between the two.
	if text, _ := os.ReadFile(path); !slices.Equal(slices.Sorted(strings.Lines(string(text))), []string{"out\n", "reason\n"}) {
		t.Errorf("log %q", text)
	}
	if out, err := r.run(t.Context(), nil, "fine", "echo", "path"); err != nil || out != "path" {
		t.Errorf("output %q, error %v", out, err)
	}
}

func TestDescribeNamesWhoIsMissingAndWhy(t *testing.T) {
	c := &porpoisev1.MySQLCluster{}
	c.Spec.Replicas = 2
	if got := Describe(c); !strings.HasPrefix(got, "not seen by the operator yet") {
		t.Errorf("got %q", got)
	}
	c.Status.Phase, c.Status.ReadyReplicas = porpoisev1.PhaseCreating, 1
	c.Status.Instances = []porpoisev1.InstanceStatus{{Name: "demo-1", State: porpoisev1.InstancePending, Message: "no node has room"}}
	c.Status.Conditions = []metav1.Condition{{Type: porpoisev1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Creating", Message: "soon"}}
	if got, want := Describe(c), "Creating, 1 of 2 instances ready; demo-1 Pending no node has room; Creating: soon"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheClientPodMountsOnlyTheAuthorityOfTheManagersSecret(t *testing.T) {
	for _, v := range clientPod("demo", "demo", "i").Spec.Volumes {
		if v.Secret.SecretName != naming.SecretManagerTLS("demo") {
			continue
		}
		if len(v.Secret.Items) != 1 || v.Secret.Items[0].Key != naming.FileCA {
			t.Errorf("items %v, want %s alone: the key in that Secret commands the agents", v.Secret.Items, naming.FileCA)
		}
		return
	}
	t.Error("the pod does not mount the authority")
}
