package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

// answering is an AgentAsker with fixed answers.
type answering map[string]AgentAnswer

func (a answering) Ask(context.Context, string, string, []corev1.Pod) (map[string]AgentAnswer, []string) {
	return a, nil
}

func fakeClient(t *testing.T, s Sources, funcs interceptor.Funcs) client.Client {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{s.Cluster}
	if s.Topology != nil {
		objects = append(objects, s.Topology)
	}
	for i := range s.Pods {
		objects = append(objects, &s.Pods[i])
	}
	for i := range s.Events {
		objects = append(objects, &s.Events[i])
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// run executes a command line against a fake API server.
func run(t *testing.T, s Sources, funcs interceptor.Funcs, args ...string) (string, error) {
	t.Helper()
	out := &bytes.Buffer{}
	tl := &tool{
		streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: io.Discard},
		flags:   genericclioptions.NewConfigFlags(true),
		now:     func() time.Time { return now }, getenv: func(string) string { return "" },
	}
	tl.sleep, tl.interactive = sleep, func() bool { return false }
	tl.connect = func() (connection, error) {
		return connection{client: fakeClient(t, s, funcs), agents: answering(s.Agents), namespace: "shop"}, nil
	}
	cmd := tl.command()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestStatusPrintsWhatRenderMakesOfIt(t *testing.T) {
	out, err := run(t, healthy(), interceptor.Funcs{}, "status", "orders")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "healthy.txt", out)
}

func TestStatusAsJSONReadsBack(t *testing.T) {
	out, err := run(t, healthy(), interceptor.Funcs{}, "status", "orders", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Kind != ReportKind || report.Instances[0].Name != "orders-1" || *report.Instances[1].Live.TransactionsBehind != 2 {
		t.Errorf("unexpected report: %s", out)
	}
}

func TestEventsOfOthersAreLeftOut(t *testing.T) {
	s := healthy()
	s.Events = append(s.Events,
		event("Pod", "orders-archive-0", "Normal", "Foreign1", "", 0),
		event("MySQLCluster", "other", "Normal", "Foreign2", "", 0),
		event("Pod", "orders-7-0", "Normal", "GoneInstance", "", 0),
	)
	out, err := run(t, s, interceptor.Funcs{}, "status", "orders", "--events", "2")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "Foreign") || !strings.Contains(out, "GoneInstance") || strings.Contains(out, "Unhealthy") {
		t.Errorf("want the two newest events of the cluster's own objects:\n%s", out)
	}
}

func TestTheOperatorsEventsAreNotCrowdedOut(t *testing.T) {
	var events []corev1.Event
	for i := range 20 {
		events = append(events, event("Pod", "orders-0-0", "Normal", "Pulled", "", time.Duration(i)*time.Second))
	}
	for i := range 3 {
		events = append(events, event("MySQLCluster", "orders", "Normal", "Ours", "", time.Hour+time.Duration(i)*time.Second))
	}
	for _, tt := range []struct{ n, ours, all int }{{10, 3, 10}, {4, 2, 4}, {1, 1, 1}, {0, 0, 0}, {100, 3, 23}} {
		got := newest(slices.Clone(events), tt.n)
		ours := 0
		for _, e := range got {
			if e.Reason == "Ours" {
				ours++
			}
		}
		if len(got) != tt.all || ours != tt.ours {
			t.Errorf("%d asked for: %d events, %d of the operator; want %d and %d", tt.n, len(got), ours, tt.all, tt.ours)
		}
	}
	if got := newest(events, 4); !slices.IsSortedFunc(got, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) }) {
		t.Error("the events are not ordered, oldest first")
	}
}

func TestListOfClusters(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"status", "NAMESPACE  NAME    PHASE    READY  VERSION  AGE\nshop       orders  Running  3/3    9.7      3d\n"},
		{"status -o name", "orders\n"},
		{"status -A -o name", "shop/orders\n"},
	} {
		out, err := run(t, healthy(), interceptor.Funcs{}, strings.Fields(tt.args)...)
		if err != nil || out != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.args, out, err, tt.want)
		}
	}
}

func TestBadFlagsNameValueAndRange(t *testing.T) {
	for args, want := range map[string]string{
		"status orders -o table":               `--output "table": want json, yaml`,
		"status orders --color blue":           `--color "blue": want auto, always or never`,
		"status --watch":                       "--watch: is for the text of one cluster",
		"status orders --watch --interval 1ms": "--interval 1ms: want at least 500ms",
		"status orders --events -1":            "--events -1: want 0 or more",
		"status orders --timeout 0s":           "--timeout 0s: must be more than 0s",
		"status orders -A":                     "--all-namespaces: is for the list",
		"version -o name":                      `--output "name": want json or yaml`,
	} {
		_, err := run(t, healthy(), interceptor.Funcs{}, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", args, err, want)
		}
	}
}

func refuse[T client.Object](err error) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, ok := obj.(T); ok {
			return err
		}
		return c.Get(ctx, key, obj, opts...)
	}}
}

func refuseList[T client.ObjectList](err error) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(T); ok {
			return err
		}
		return c.List(ctx, list, opts...)
	}}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	clusters := schema.GroupResource{Group: "porpoise.dev", Resource: "mysqlclusters"}
	notServed := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", clusters, "orders", "404 page not found", 0, true)
	for name, tt := range map[string]struct {
		funcs interceptor.Funcs
		args  string
		want  string
	}{
		"forbidden":     {refuse[*porpoisev1.MySQLCluster](apierrors.NewForbidden(clusters, "orders", errors.New("no"))), "status orders", "you may not get mysqlclusters.porpoise.dev in namespace shop"},
		"not installed": {refuse[*porpoisev1.MySQLCluster](notServed), "status orders", "Porpoise is not installed in this Kubernetes cluster"},
		"logged out":    {refuse[*porpoisev1.MySQLCluster](apierrors.NewUnauthorized("x")), "status orders", "log in again"},
		"late":          {refuse[*porpoisev1.MySQLCluster](context.DeadlineExceeded), "status orders", "no answer within --timeout"},
		"wrong name":    {interceptor.Funcs{}, "status order", `there is no MySQLCluster "order" in namespace shop; there is: orders`},
		"list":          {refuseList[*porpoisev1.MySQLClusterList](apierrors.NewForbidden(clusters, "", errors.New("no"))), "status", "you may not list mysqlclusters.porpoise.dev"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, healthy(), tt.funcs, strings.Fields(tt.args)...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestMissingRightsLeaveTheRestAndAreNamed(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "y", errors.New("no"))
	for name, tt := range map[string]struct {
		funcs interceptor.Funcs
		want  string
	}{
		"record": {refuse[*porpoisev1.MySQLTopology](forbidden), "may not get mysqltopologies.porpoise.dev"},
		"pods":   {refuseList[*corev1.PodList](forbidden), "may not list pods"},
		"events": {refuseList[*corev1.EventList](forbidden), "may not list events"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, healthy(), tt.funcs, "status", "orders")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, tt.want) || !strings.Contains(out, "orders-1") {
				t.Errorf("want the tree and a note with %q:\n%s", tt.want, out)
			}
		})
	}
}

func TestVersionWithoutOperatorStillTellsTheClient(t *testing.T) {
	out, err := run(t, healthy(), interceptor.Funcs{}, "version")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out, "client    dev") || !strings.Contains(out, "no operator found") {
		t.Errorf("unexpected: %s", out)
	}
}

func TestHelpExplains(t *testing.T) {
	out, err := run(t, healthy(), interceptor.Funcs{}, "status", "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubectl porpoise status orders", "pods/portforward", "--watch", "UNAPPLIED"} {
		if !strings.Contains(out, want) {
			t.Errorf("help lacks %q:\n%s", want, out)
		}
	}
}
