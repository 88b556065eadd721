package topology

import (
	"context"
	"sync"
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	// retryMin and retryMax bound the pause before the same command is sent to the same instance again.
	retryMin = 100 * time.Millisecond
	retryMax = 15 * time.Second
)

// timeouts bound commands; what is not listed has defaultTimeout.
var timeouts = map[agentapi.CommandType]time.Duration{
	// Promote applies everything received first.
	agentapi.CommandPromote: 2 * time.Minute,
	agentapi.CommandRestart: 2 * time.Minute,
	agentapi.CommandDemote:  time.Minute,
}

const defaultTimeout = 20 * time.Second

// act hands the decision's commands to the executor. A suspended topology's decision has none.
func (s *scope) act(ctx context.Context) (outcome, error) {
	for _, a := range s.decision.Actions {
		if pause := s.executor.start(ctx, s.key, a); pause > 0 && (s.after == 0 || pause < s.after) {
			s.after = pause
		}
	}
	return goOn, nil
}

// executor runs commands outside of Reconcile, at most one per instance.
type executor struct {
	pool   *agentclient.Pool
	notify func(types.NamespacedName)

	mu    sync.Mutex
	slots map[types.NamespacedName]map[string]*slot
}

// slot is what is known of one instance's commands.
type slot struct {
	running bool
	// last is the operation id of the last command, times how often it was sent, next when it may be sent again.
	last  string
	times int
	next  time.Time
}

func newExecutor(pool *agentclient.Pool, notify func(types.NamespacedName)) *executor {
	return &executor{pool: pool, notify: notify, slots: map[types.NamespacedName]map[string]*slot{}}
}

func (e *executor) forget(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.slots, key)
}

// reset forgets what was sent. Commands that still run keep slots of their own.
func (e *executor) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slots = map[types.NamespacedName]map[string]*slot{}
}

// start begins a command unless the instance has one running. It returns how long to wait when the same command was sent
// just before: the instance is given time to show its effect, and a failing one is not hammered. ctx is a reconcile's, which
// outlives the reconcile: a command ends with the term of leading in which it was decided, not with the pass that sent it.
func (e *executor) start(ctx context.Context, key types.NamespacedName, a failover.Action) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.slots[key] == nil {
		e.slots[key] = map[string]*slot{}
	}
	sl := e.slots[key][a.Instance]
	if sl == nil {
		sl = &slot{}
		e.slots[key][a.Instance] = sl
	}
	if sl.running {
		return 0 // Its end triggers the next decision.
	}
	now := time.Now()
	if sl.last != a.Command.OperationID {
		sl.last, sl.times, sl.next = a.Command.OperationID, 0, time.Time{}
	}
	if now.Before(sl.next) {
		return sl.next.Sub(now)
	}
	sl.running = true
	go e.run(ctx, key, a, sl)
	return 0
}

// run executes a command, takes in the instance's status after it, and asks for the next decision.
func (e *executor) run(ctx context.Context, key types.NamespacedName, a failover.Action, sl *slot) {
	timeout := timeouts[a.Command.Type]
	if timeout == 0 {
		timeout = defaultTimeout
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := e.pool.Command(bounded, key, a.Instance, a.Command)
	l := log.FromContext(ctx).WithValues("instance", a.Instance, "command", a.Command.Type, "epoch", a.Command.Epoch,
		"operation", a.Command.OperationID, "why", a.Why, "took", time.Since(began).Round(time.Millisecond).String())
	if err != nil {
		l.Info("Command failed", "error", err.Error())
		// Not within the command's bound: after its end what came of it is known least.
		sample, cancelSample := context.WithTimeout(ctx, sampleTimeout)
		defer cancelSample()
		_ = e.pool.Sample(sample, key, a.Instance) // Its stream tells it too, a little later.
	} else {
		l.Info("Command done")
	}
	e.mu.Lock()
	sl.running = false
	sl.next = time.Now().Add(min(retryMin<<min(sl.times, 10), retryMax))
	sl.times++
	e.mu.Unlock()
	e.notify(key)
}

// label writes the two labels that Services select, on the pods where they differ.
func (s *scope) label(ctx context.Context) (outcome, error) {
	if s.topo.Spec.Suspend {
		return goOn, nil
	}
	readers := map[string]bool{}
	for _, name := range s.decision.Readers {
		readers[name] = true
	}
	for i := range s.snapshot.Instances {
		inst := &s.snapshot.Instances[i]
		pod := s.pods[inst.Name]
		if pod == nil || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		role := wantedRole(s.topo.Status, inst, pod.Labels[naming.LabelRole])
		readOnly := ""
		if readers[inst.Name] && s.topo.Status.Routed {
			readOnly = "true"
		}
		if pod.Labels[naming.LabelRole] == role && pod.Labels[naming.LabelReadOnly] == readOnly {
			continue
		}
		if !s.memory.labels(s.key, pod.UID, pod.ResourceVersion+"/"+role+"/"+readOnly) {
			continue
		}
		// The UID makes the API server refuse a pod that has been replaced meanwhile.
		apply := corev1ac.Pod(pod.Name, pod.Namespace).WithUID(pod.UID)
		// A label that the pod got from its template cannot be taken away by another owner: it is made empty.
		if role != "" || pod.Labels[naming.LabelRole] != "" {
			apply.WithLabels(map[string]string{naming.LabelRole: role})
		}
		if readOnly != "" {
			apply.WithLabels(map[string]string{naming.LabelReadOnly: readOnly})
		}
		err := s.client.Apply(ctx, apply, client.FieldOwner(naming.OwnerTopologyLane), client.ForceOwnership)
		if err != nil {
			s.memory.labels(s.key, pod.UID, "")
			return done, ignoreReplaced(err)
		}
		s.log.Info("Pod labelled", "pod", pod.Name, "role", role, "readOnly", readOnly)
	}
	return goOn, nil
}
