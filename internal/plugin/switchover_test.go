package plugin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

var clusterResource = schema.GroupResource{Group: "porpoise.dev", Resource: "mysqlclusters"}

// stage plays operator and clock for one command: each wait of the command is one act.
type stage struct {
	t      *testing.T
	client client.Client
	now    time.Time
	// acts of the operator, one per wait; when there are none left time runs out.
	acts []func(*porpoisev1.MySQLCluster, *porpoisev1.MySQLTopology)
	// terminal and input are the person's.
	terminal bool
	input    string
	funcs    interceptor.Funcs
	// asked are the first values of the annotations that were seen while waiting.
	asked map[string]string
}

func (s *stage) run(sources Sources, args ...string) (string, error) {
	s.t.Helper()
	s.now, s.asked = now, map[string]string{}
	scheme, err := newScheme()
	if err != nil {
		s.t.Fatal(err)
	}
	create := s.funcs.Create
	s.funcs.Create = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if create != nil {
			return create(ctx, c, obj, opts...)
		}
		if review, ok := obj.(*authenticationv1.SelfSubjectReview); ok {
			review.Status.UserInfo.Username = "ann@example.org"
			return nil
		}
		return c.Create(ctx, obj, opts...)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(s.funcs).WithObjects(sources.Cluster)
	if sources.Topology != nil {
		builder = builder.WithObjects(sources.Topology)
	}
	s.client = builder.Build()
	out := &bytes.Buffer{}
	tl := &tool{
		streams: genericiooptions.IOStreams{In: strings.NewReader(s.input), Out: out, ErrOut: io.Discard},
		flags:   genericclioptions.NewConfigFlags(true),
		now:     func() time.Time { return s.now }, getenv: func(string) string { return "" },
		sleep: s.sleep, interactive: func() bool { return s.terminal },
		connect: func() (connection, error) { return connection{client: s.client, namespace: "shop"}, nil },
	}
	cmd := tl.command()
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(s.t.Context())
	return out.String(), err
}

// sleep is when the operator acts.
func (s *stage) sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(d)
	cluster, topology := &porpoisev1.MySQLCluster{}, &porpoisev1.MySQLTopology{}
	key := client.ObjectKey{Namespace: "shop", Name: "orders"}
	if err := s.client.Get(ctx, key, cluster); err != nil {
		return err
	}
	if err := s.client.Get(ctx, key, topology); err != nil {
		return err
	}
	for _, name := range []string{naming.AnnotationSwitchover, naming.AnnotationAcceptDataLoss} {
		if value := cluster.Annotations[name]; value != "" && s.asked[name] == "" {
			s.asked[name] = value
		}
	}
	if len(s.acts) == 0 {
		return context.DeadlineExceeded
	}
	act := s.acts[0]
	s.acts = s.acts[1:]
	act(cluster, topology)
	if err := s.client.Update(ctx, topology); err != nil {
		return err
	}
	return s.client.Update(ctx, cluster)
}

// annotation is what is left of an annotation.
func (s *stage) annotation(name string) string {
	s.t.Helper()
	cluster := &porpoisev1.MySQLCluster{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "shop", Name: "orders"}, cluster); err != nil {
		s.t.Fatal(err)
	}
	return cluster.Annotations[name]
}

type act = func(*porpoisev1.MySQLCluster, *porpoisev1.MySQLTopology)

func idle(*porpoisev1.MySQLCluster, *porpoisev1.MySQLTopology) {}

func switchoverIs(state porpoisev1.SwitchoverState, message string) act {
	return func(c *porpoisev1.MySQLCluster, _ *porpoisev1.MySQLTopology) {
		c.Status.Switchover = &porpoisev1.SwitchoverStatus{ID: c.Annotations[naming.AnnotationSwitchover], State: state, Message: message}
	}
}

func TestSwitchover(t *testing.T) {
	done := []act{idle, switchoverIs(porpoisev1.SwitchoverRunning, "to orders-2"), idle, switchoverIs(porpoisev1.SwitchoverDone, "orders-2 is primary in epoch 9")}
	for name, tt := range map[string]struct {
		acts []act
		args string
		ask  string
		// want is the output; wrong is part of the error, none: it must succeed. left is what is to be left of the annotation.
		want, wrong, left string
	}{
		"to the best": {
			done, "", "any@2026-05-04T12:00:00.000Z",
			"   0.0s  asked for a switchover from orders-1 to the instance that fits best\n   0.4s  handing over: to orders-2\n   0.8s  done: orders-2 is primary in epoch 9\n", "", "any@2026-05-04T12:00:00.000Z",
		},
		"to a named one": {
			done, "--to orders-2", "orders-2@2026-05-04T12:00:00.000Z",
			"   0.0s  asked for a switchover from orders-1 to orders-2\n   0.4s  handing over: to orders-2\n   0.8s  done: orders-2 is primary in epoch 9\n", "", "orders-2@2026-05-04T12:00:00.000Z",
		},
		"refused": {
			[]act{switchoverIs(porpoisev1.SwitchoverRefused, "orders-2 lags: it has 9000 transactions to apply, allowed are 5000")}, "--to orders-2", "orders-2@2026-05-04T12:00:00.000Z",
			"   0.0s  asked for a switchover from orders-1 to orders-2\n   0.2s  refused: orders-2 lags: it has 9000 transactions to apply, allowed are 5000\n", "refused: orders-2 lags", "orders-2@2026-05-04T12:00:00.000Z",
		},
		"given up": {
			[]act{switchoverIs(porpoisev1.SwitchoverRolledBack, "orders-1 stays primary, in epoch 9")}, "", "any@2026-05-04T12:00:00.000Z",
			"   0.0s  asked for a switchover from orders-1 to the instance that fits best\n   0.2s  given up: orders-1 stays primary, in epoch 9\n", "given up: orders-1 stays primary", "any@2026-05-04T12:00:00.000Z",
		},
		"nobody takes it up": {
			[]act{idle}, "", "any@2026-05-04T12:00:00.000Z",
			"   0.0s  asked for a switchover from orders-1 to the instance that fits best\n", "nobody has taken up the request: not within --timeout 1m0s; is the operator running? The request is withdrawn", "",
		},
		"it does not end": {
			[]act{switchoverIs(porpoisev1.SwitchoverRunning, "to orders-2")}, "--timeout 9s", "any@2026-05-04T12:00:00.000Z",
			"   0.0s  asked for a switchover from orders-1 to the instance that fits best\n   0.2s  handing over: to orders-2\n", "the switchover has not ended: not within --timeout 9s; it goes on", "any@2026-05-04T12:00:00.000Z",
		},
		"somebody asks for something else": {
			[]act{func(c *porpoisev1.MySQLCluster, _ *porpoisev1.MySQLTopology) {
				c.Annotations[naming.AnnotationSwitchover] = "orders-0"
			}}, "", "any@2026-05-04T12:00:00.000Z",
			"   0.0s  asked for a switchover from orders-1 to the instance that fits best\n", `replaced by "orders-0"`, "orders-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stage{t: t, acts: tt.acts}
			out, err := s.run(healthy(), append([]string{"switchover", "orders"}, strings.Fields(tt.args)...)...)
			if out != tt.want {
				t.Errorf("printed:\n%swant:\n%s", out, tt.want)
			}
			requireError(t, err, tt.wrong)
			if got := s.asked[naming.AnnotationSwitchover]; got != tt.ask {
				t.Errorf("asked for %q, want %q", got, tt.ask)
			}
			if got := s.annotation(naming.AnnotationSwitchover); got != tt.left {
				t.Errorf("annotation %q is left, want %q", got, tt.left)
			}
		})
	}
}

func requireError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want %q in it", err, want)
	}
}

func TestSwitchoverWithoutWaiting(t *testing.T) {
	s := &stage{t: t}
	out, err := s.run(healthy(), "switchover", "orders", "--wait=false")
	if err != nil || !strings.Contains(out, "kubectl porpoise status orders -n shop") {
		t.Errorf("%q, %v", out, err)
	}
	if got := s.annotation(naming.AnnotationSwitchover); got != "any@2026-05-04T12:00:00.000Z" {
		t.Errorf("annotation %q", got)
	}
}

// TestWhatIsKnownToBeRefusedIsNotAskedFor: the annotation is not written.
func TestWhatIsKnownToBeRefusedIsNotAskedFor(t *testing.T) {
	for want, tt := range map[string]struct {
		change func(*porpoisev1.MySQLCluster)
		args   string
	}{
		`--to "orders-7": is no instance of orders; there are orders-0, orders-1, orders-2`: {nil, "--to orders-7"},
		`--to "other-0": is no instance of orders`:                                          {nil, "--to other-0"},
		"--to orders-1: is the primary already":                                             {nil, "--to orders-1"},
		"--timeout -1s: must be more than 0s":                                               {nil, "--timeout -1s"},
		"has one instance: there is no other one":                                           {func(c *porpoisev1.MySQLCluster) { c.Spec.Replicas = 1 }, ""},
		"is suspended":       {func(c *porpoisev1.MySQLCluster) { c.Spec.Suspend = true }, ""},
		"has no primary yet": {func(c *porpoisev1.MySQLCluster) { c.Status.Topology.Primary = "" }, ""},
		"another switchover is under way (x): to orders-0": {func(c *porpoisev1.MySQLCluster) {
			c.Status.Switchover = &porpoisev1.SwitchoverStatus{ID: "x", State: porpoisev1.SwitchoverRunning, Message: "to orders-0"}
		}, ""},
	} {
		sources, s := healthy(), &stage{t: t}
		if tt.change != nil {
			tt.change(sources.Cluster)
		}
		_, err := s.run(sources, append([]string{"switchover", "orders"}, strings.Fields(tt.args)...)...)
		requireError(t, err, want)
		if got := s.annotation(naming.AnnotationSwitchover); got != "" {
			t.Errorf("%s: annotation %q", want, got)
		}
	}
}

// TestAWriteInBetweenIsLookedAtAgain: the request rests on the very object that was checked.
func TestAWriteInBetweenIsLookedAtAgain(t *testing.T) {
	conflicts := 0
	s := &stage{t: t, acts: []act{idle, switchoverIs(porpoisev1.SwitchoverDone, "done")}}
	s.funcs.Patch = func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
		data, err := patch.Data(obj)
		if err != nil {
			return err
		}
		if !strings.Contains(string(data), "resourceVersion") {
			t.Errorf("the patch has no precondition: %s", data)
		}
		if conflicts++; conflicts == 1 {
			return apierrors.NewConflict(clusterResource, "orders", errors.New("changed"))
		}
		return c.Patch(ctx, obj, patch, opts...)
	}
	_, err := s.run(healthy(), "switchover", "orders")
	requireError(t, err, "")
	if conflicts != 2 {
		t.Errorf("%d patches, want 2", conflicts)
	}
}

func TestRequestsThatTheAPIServerRefuses(t *testing.T) {
	s := &stage{t: t, funcs: interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return apierrors.NewForbidden(clusterResource, "orders", errors.New("no"))
	}}}
	_, err := s.run(healthy(), "switchover", "orders")
	requireError(t, err, "you may not patch mysqlclusters.porpoise.dev in namespace shop; ask for that right")
	_, err = (&stage{t: t}).run(healthy(), "switchover", "order")
	requireError(t, err, `there is no MySQLCluster "order" in namespace shop; there is: orders`)
}

// lost is a cluster whose primary is lost, and too many members with it.
func lost() Sources {
	s := healthy()
	s.Topology.Status.Phase, s.Topology.Status.Reason = porpoisev1.TopologyBlocked, porpoisev1.TopologyMembersLost
	s.Topology.Status.Message = "orders-1 is lost, and so many members lost their data that nobody can show that it holds every acknowledged commit"
	s.Topology.Status.Instances[1].State, s.Topology.Status.Instances[2].State = porpoisev1.InstancePending, porpoisev1.InstanceCloning
	s.Cluster.Status.Conditions = []metav1.Condition{condition(porpoisev1.ConditionPrimaryAvailable, metav1.ConditionFalse, "MembersLost", "")}
	return s
}

func promoted(instance string, used bool) act {
	return func(c *porpoisev1.MySQLCluster, t *porpoisev1.MySQLTopology) {
		t.Status.Phase, t.Status.Message, t.Status.Primary, t.Status.Epoch = porpoisev1.TopologyStable, instance+" is primary", instance, 9
		c.Status.Topology.Primary, c.Status.Topology.Epoch = instance, 9
		c.Status.Conditions[0].Status = metav1.ConditionTrue
		if used {
			t.Status.AcceptedDataLoss = &porpoisev1.DataLossAcceptance{ID: c.Annotations[naming.AnnotationAcceptDataLoss]}
		}
	}
}

func fencing(_ *porpoisev1.MySQLCluster, t *porpoisev1.MySQLTopology) {
	t.Status.Phase, t.Status.Message = porpoisev1.TopologyFencing, "orders-1 is lost; members must confirm"
}

func TestFailoverThatLosesData(t *testing.T) {
	const id = "ann@example.org@2026-05-04T12:00:00.000Z"
	for name, tt := range map[string]struct {
		stage  stage
		args   string
		golden string
		wrong  string
		asked  string
	}{
		"only explained": {stage{}, "", "failover-explained.txt", "nothing was done: --accept-data-loss is not given", ""},
		"not a terminal": {stage{}, "--accept-data-loss", "", "nothing was done: nobody can be asked for confirmation", ""},
		"confirmed":      {stage{terminal: true, input: "orders\n", acts: []act{fencing, idle, promoted("orders-0", true)}}, "--accept-data-loss", "failover-confirmed.txt", "", id},
		"not confirmed":  {stage{terminal: true, input: "yes\n"}, "--accept-data-loss", "", `nothing was done: "yes" is not "orders"`, ""},
		"end of input":   {stage{terminal: true}, "--accept-data-loss", "", `nothing was done: "" is not "orders"`, ""},
		"not asked":      {stage{acts: []act{promoted("orders-0", true)}}, "--accept-data-loss --yes", "failover-yes.txt", "", id},
		"not needed":     {stage{acts: []act{fencing, promoted("orders-1", false)}}, "--accept-data-loss --yes", "failover-not-needed.txt", "", id},
		"not in time":    {stage{acts: []act{fencing}}, "--accept-data-loss --yes", "", "not within --timeout 1m0s: the acceptance was not used, and is withdrawn; last seen: Fencing: orders-1 is lost", id},
		"a bad time-out": {stage{}, "--accept-data-loss --yes --timeout 0s", "", "--timeout 0s: must be more than 0s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.stage
			s.t = t
			out, err := s.run(lost(), append([]string{"failover", "orders"}, strings.Fields(tt.args)...)...)
			requireError(t, err, tt.wrong)
			if tt.golden != "" {
				golden(t, tt.golden, out)
			}
			if got := s.asked[naming.AnnotationAcceptDataLoss]; got != tt.asked {
				t.Errorf("asked for %q, want %q", got, tt.asked)
			}
			if got := s.annotation(naming.AnnotationAcceptDataLoss); got != "" {
				t.Errorf("an acceptance is left: %q", got)
			}
		})
	}
}

// TestThereIsNoLossToAccept: an acceptance that would change nothing now is not written: it would count for the next loss.
func TestThereIsNoLossToAccept(t *testing.T) {
	for want, change := range map[string]func(*Sources){
		"orders-1 is not lost as far as the operator knows":     func(s *Sources) { s.Topology.Status.Phase = porpoisev1.TopologyStable },
		"the topology is Promoting":                             func(s *Sources) { s.Topology.Status.Phase = porpoisev1.TopologyPromoting },
		"you need the right to get mysqltopologies":             func(s *Sources) { s.Topology = nil },
		"is suspended: the operator does nothing while":         func(s *Sources) { s.Cluster.Spec.Suspend = true },
		"is being deleted":                                      func(s *Sources) { s.Cluster.DeletionTimestamp, s.Cluster.Finalizers = new(ago(0)), []string{"x/y"} },
		"orders has no primary yet; see: kubectl porpoise stat": func(s *Sources) { s.Cluster.Status.Topology.Primary = "" },
	} {
		sources, s := lost(), &stage{t: t}
		change(&sources)
		_, err := s.run(sources, "failover", "orders", "--accept-data-loss", "--yes")
		requireError(t, err, want)
		if got := s.annotation(naming.AnnotationAcceptDataLoss); got != "" {
			t.Errorf("%s: annotation %q", want, got)
		}
	}
}

func TestWhoAcceptsMustBeKnown(t *testing.T) {
	s := &stage{t: t, funcs: interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}, "", errors.New("no"))
	}}}
	_, err := s.run(lost(), "failover", "orders", "--accept-data-loss", "--yes")
	requireError(t, err, "find out who you are, which is recorded with the acceptance")
}

func TestAcceptanceFitsItsAnnotation(t *testing.T) {
	for who, want := range map[string]string{
		"ann":                     "ann@2026-05-04T12:00:00.000Z",
		strings.Repeat("ä", 200):  strings.Repeat("ä", 102) + "…@2026-05-04T12:00:00.000Z",
		"a\x1b]0;x\a":             "a\uFFFD]0;x\uFFFD@2026-05-04T12:00:00.000Z",
		"system:serviceaccount:a": "system:serviceaccount:a@2026-05-04T12:00:00.000Z",
	} {
		if got := acceptanceOf(who, now); got != want {
			t.Errorf("%q: %q, want %q", who, got, want)
		}
	}
}

func TestHelpOfRequests(t *testing.T) {
	for args, want := range map[string][]string{
		"switchover --help": {"kubectl porpoise switchover orders --to orders-2", "--wait", "--timeout duration", "(default 1m0s)", naming.AnnotationSwitchover, "Exit code 1"},
		"failover --help":   {"kubectl porpoise failover orders --accept-data-loss", "--yes", "lost for good"},
	} {
		out, err := run(t, healthy(), interceptor.Funcs{}, strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s lacks %q:\n%s", args, part, out)
			}
		}
	}
}
