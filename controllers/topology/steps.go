package topology

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// Reconciler is the topology lane.
type Reconciler struct {
	client      client.Client
	live        client.Reader
	recorder    events.EventRecorder
	events      *trigger
	memory      *memory
	credentials *credentialStore
	pool        *agentclient.Pool
	executor    *executor
	stopStreams context.CancelFunc
	streamCount *streamCount
	now         func() time.Time
}

// scope is what the steps of one reconcile share.
type scope struct {
	*Reconciler
	key      types.NamespacedName
	log      logr.Logger
	topo     *v1.MySQLTopology
	pods     map[string]*corev1.Pod
	snapshot topology.Snapshot
	decision failover.Decision
	// recorded is true when this pass wrote the record: the next pass decides on it.
	recorded bool
	after    time.Duration
}

// outcome is how a step ends, beside its error.
type outcome int

const (
	// goOn: the next step.
	goOn outcome = iota
	// again: begin a new pass, the record has moved on.
	again
	// done: nothing more to do in this reconcile.
	done
)

// step is one named part of a reconcile.
type step struct {
	name string
	do   func(*scope, context.Context) (outcome, error)
}

// steps in their order. INV-6: record stands before act.
var steps = []step{
	{"load the record", (*scope).load},
	{"keep the streams", (*scope).streams},
	{"sample what is awaited", (*scope).sample},
	{"observe", (*scope).observe},
	{"decide", (*scope).decide},
	{"record", (*scope).record},
	{"act", (*scope).act},
	{"label pods", (*scope).label},
	{"wait", (*scope).wait},
}

// maxPasses bounds the decisions in one reconcile; the queue goes on with the rest.
const maxPasses = 10

// Reconcile runs the steps, and again from the start whenever the record has moved on.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s := &scope{Reconciler: r, key: req.NamespacedName, log: log.FromContext(ctx)}
	for range maxPasses {
		end, err := s.pass(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		if end == done {
			return reconcile.Result{RequeueAfter: s.after}, nil
		}
	}
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil
}

// pass runs the steps once.
func (s *scope) pass(ctx context.Context) (end outcome, err error) {
	s.decision, s.recorded, s.after = failover.Decision{}, false, 0
	defer func() { countDecision(decisions, passEnd{s.decision, s.recorded, end, err}) }()
	for _, st := range steps {
		end, err := st.do(s, ctx)
		if err != nil {
			return done, fmt.Errorf("topology %s: %s: %w", s.key, st.name, err)
		}
		if end != goOn {
			return end, nil
		}
	}
	return done, nil
}

// decide plans on what was observed.
func (s *scope) decide(context.Context) (outcome, error) {
	s.decision = failover.Plan(s.snapshot, s.topo.Status, s.now())
	return goOn, nil
}

// wait remembers what the decision waits for. A pass that wrote the record is followed by another one at once.
func (s *scope) wait(context.Context) (outcome, error) {
	if s.recorded {
		return again, nil
	}
	if after := s.decision.RecheckAfter; after > 0 && (s.after == 0 || after < s.after) {
		s.after = after
	}
	awaited := s.decision.WaitsForProgress
	if name := s.decision.NeedsSampleOf; name != "" {
		// Only this one, so that it is sampled after the others were.
		awaited = []string{name}
	}
	if pause := s.memory.await(s.key, s.decision.Row, awaited); pause > 0 && (s.after == 0 || pause < s.after) {
		s.after = pause
	}
	return done, nil
}
