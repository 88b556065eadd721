package leadership_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/porpoise-dev/porpoise/internal/leadership"
)

// The topology lane's.
const (
	duration = 3 * time.Second
	deadline = 2 * time.Second
	period   = 500 * time.Millisecond
	patience = 10 * time.Second
	// timeout of one request, and the longest pause between two tries: client-go spreads them.
	timeout = 1500 * time.Millisecond
	pause   = period * 22 / 10
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// lease is a Lease on an API server.
type lease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
	// cut are the candidates whose calls are not answered.
	cut map[string]bool
	// latency is how long an answer takes.
	latency time.Duration
}

func (l *lease) setCut(identity string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == nil {
		l.cut = map[string]bool{}
	}
	l.cut[identity] = cut
}

func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return ""
	}
	return l.record.HolderIdentity
}

// lock is a candidate's access to the Lease, with the version that it has read.
type lock struct {
	lease    *lease
	identity string
	version  int
}

// call waits for the answer, at most as long as the client's timeout.
func (l *lock) call(ctx context.Context, f func() error) error {
	l.lease.mu.Lock()
	cut := l.lease.cut[l.identity]
	l.lease.mu.Unlock()
	if cut {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return errors.New("no answer")
		}
	}
	<-time.After(l.lease.latency)
	l.lease.mu.Lock()
	defer l.lease.mu.Unlock()
	return f()
}

func (l *lock) Get(ctx context.Context) (r *resourcelock.LeaderElectionRecord, raw []byte, err error) {
	err = l.call(ctx, func() error {
		if l.lease.record == nil {
			return apierrors.NewNotFound(leases, "lane")
		}
		record := *l.lease.record
		l.version, r = l.lease.version, &record
		raw, err = json.Marshal(r)
		return err
	})
	return r, raw, err
}

func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.call(ctx, func() error {
		if l.lease.record != nil {
			return apierrors.NewAlreadyExists(leases, "lane")
		}
		l.write(r)
		return nil
	})
}

func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.call(ctx, func() error {
		if l.version != l.lease.version {
			return apierrors.NewConflict(leases, "lane", errors.New("another version"))
		}
		l.write(r)
		return nil
	})
}

func (l *lock) write(r resourcelock.LeaderElectionRecord) {
	l.lease.version++
	l.version, l.lease.record = l.lease.version, &r
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.identity }
func (l *lock) Describe() string   { return "lane" }

// lane is a lane of one manager: one object, whose reconciles are driven by the test.
type lane struct {
	gate    *leadership.Gate
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	begun   atomic.Int32
	stop    context.CancelFunc
	ended   chan error
	written atomic.Int32
	fence   http.RoundTripper
}

var object = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "orders"}}

func newLane(t *testing.T, l *lease, identity string) *lane {
	t.Helper()
	ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
	n := &lane{
		gate: leadership.NewGate(), stop: cancel, ended: make(chan error, 1),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	n.gate.OnBegin(func() { n.begun.Add(1) })
	n.fence = n.gate.Fence(roundTripper(func(*http.Request) (*http.Response, error) {
		n.written.Add(1)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	everything := n.gate.Everything(func(context.Context) ([]reconcile.Request, error) { return []reconcile.Request{object}, nil })
	if err := everything.Start(ctx, n.queue); err != nil {
		t.Fatal(err)
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		n.ended <- n.gate.Campaign(ctx, leadership.Election{
			Lock: &lock{lease: l, identity: identity}, Name: "lane", Duration: duration, Deadline: deadline, Period: period,
			Patience: patience, Grace: patience,
		})
	}()
	t.Cleanup(func() {
		cancel()
		n.queue.ShutDown()
		<-returned
		synctest.Wait()
	})
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// write tries to write with a context.
func (n *lane) write(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://api/apis/porpoise.dev/v1/namespaces/shop/mysqltopologies/orders", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	res, err := n.fence.RoundTrip(req)
	if err == nil {
		_ = res.Body.Close()
	}
	return err
}

// reconcile calls a guarded reconciler once; ran tells whether it was let through.
func (n *lane) reconcile(f func(context.Context)) (ran bool) {
	_, _ = n.gate.Guard(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		ran = true
		f(ctx)
		return reconcile.Result{}, nil
	})).Reconcile(context.Background(), object)
	return ran
}

// acts says whether the lane may act now.
func (n *lane) acts() bool {
	return n.reconcile(func(ctx context.Context) {
		if leadership.Check(ctx) != nil {
			panic("let through, but not allowed to act")
		}
	})
}

// taken takes what is queued.
func (n *lane) taken() int {
	count := 0
	for n.queue.Len() > 0 {
		r, _ := n.queue.Get()
		n.queue.Done(r)
		count++
	}
	return count
}

// after lets time pass in the bubble.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestALostLeaseEndsTheTermForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		n := newLane(t, l, "a")
		after(time.Millisecond)
		if !n.acts() || n.begun.Load() != 1 || n.taken() != 1 {
			t.Fatalf("after the election: acts %t, terms %d", n.acts(), n.begun.Load())
		}
		// A reconcile that waits for something when the Lease is lost, and what it leaves running.
		var old context.Context
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			n.reconcile(func(ctx context.Context) {
				old = ctx
				<-ctx.Done()
			})
		}()
		synctest.Wait()
		if err := n.write(old); err != nil {
			t.Fatalf("write in the term: %v", err)
		}
		l.setCut("a", true)
		after(duration)
		select {
		case <-returned:
		default:
			t.Fatal("the reconcile of the lost term still waits")
		}
		refused(old, t, n)
		if n.acts() {
			t.Fatal("acts without a Lease")
		}
		if err := n.write(t.Context()); !errors.Is(err, leadership.ErrNotLeading) {
			t.Fatalf("a write that belongs to no term, without a Lease: %v", err)
		}

		l.setCut("a", false)
		after(timeout + 2*pause) // A try that is unanswered ends, and the next comes.
		if !n.acts() || n.begun.Load() != 2 {
			t.Fatalf("after the Lease came back: acts %t, terms %d", n.acts(), n.begun.Load())
		}
		if got := n.taken(); got != 1 {
			t.Fatalf("the second term begins with %d objects, want all, which is 1", got)
		}
		// What the first term left behind stays refused although this manager leads again.
		refused(old, t, n)
		if n.written.Load() != 1 {
			t.Fatalf("%d writes reached the API server, want 1", n.written.Load())
		}
	})
}

func refused(ctx context.Context, t *testing.T, n *lane) {
	t.Helper()
	if err := leadership.Check(ctx); !errors.Is(err, leadership.ErrNotLeading) {
		t.Fatalf("a command of the lost term: %v", err)
	}
	if err := n.write(ctx); !errors.Is(err, leadership.ErrNotLeading) {
		t.Fatalf("a write of the lost term: %v", err)
	}
}

// A renewal without an answer: acting is refused by the clock before client-go gives up, and goes on in the same term when
// the answer arrives in time.
func TestActingPausesWhileARenewalIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		n := newLane(t, l, "a")
		after(time.Millisecond)
		l.setCut("a", true)
		since := time.Now()
		for n.acts() {
			after(10 * time.Millisecond)
		}
		if paused := time.Since(since); paused > duration-period {
			t.Fatalf("acted for %s without a renewal; another manager takes the Lease after %s", paused, duration)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		n := newLane(t, l, "a")
		after(time.Millisecond)
		l.setCut("a", true)
		after(timeout - period/2)
		l.setCut("a", false)
		after(duration)
		if !n.acts() || n.begun.Load() != 1 {
			t.Fatalf("a renewal that was late but in time: acts %t, terms %d", n.acts(), n.begun.Load())
		}
	})
}

// A reconcile that is refused because the Lease is late comes again, and does not count as failed.
func TestARefusedReconcileComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const latency = 100 * time.Millisecond
		l := &lease{latency: latency}
		n := newLane(t, l, "a")
		after(4 * latency)
		result, err := n.gate.Guard(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			l.setCut("a", true)
			for leadership.Check(ctx) == nil {
				<-time.After(time.Millisecond)
			}
			l.setCut("a", false)
			return reconcile.Result{}, fmt.Errorf("update: %w", n.write(ctx))
		})).Reconcile(t.Context(), object)
		if err != nil || n.begun.Load() != 1 || result.RequeueAfter == 0 {
			t.Fatalf("result %+v, error %v, terms %d", result, err, n.begun.Load())
		}
	})
}

// At no moment do two managers act, and the standby takes over within a Lease's duration and two of its looks at it.
func TestTheStandbyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		a := newLane(t, l, "a")
		after(time.Millisecond)
		b := newLane(t, l, "b")
		after(10 * period)
		if !a.acts() || b.acts() {
			t.Fatalf("a acts %t, b acts %t", a.acts(), b.acts())
		}
		for round := range 6 {
			leader, standby := a, b
			if round%2 == 1 {
				leader, standby = b, a
			}
			l.setCut(l.holder(), true)
			cut := l.holder()
			since := time.Now()
			for !standby.acts() {
				if leader.acts() && standby.acts() {
					t.Fatal("both act")
				}
				if time.Since(since) > duration+2*pause {
					t.Fatalf("round %d: nobody took over within %s", round, time.Since(since))
				}
				after(5 * time.Millisecond)
			}
			if leader.acts() {
				t.Fatalf("round %d: both act", round)
			}
			l.setCut(cut, false)
			after(10 * period)
			if leader.acts() || !standby.acts() {
				t.Fatalf("round %d: the old leader acts again: %t", round, leader.acts())
			}
		}
	})
}

// Somebody else's Lease ends the term at the next look at it, not at the deadline.
func TestALeaseThatWasTakenEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		n := newLane(t, l, "a")
		after(time.Millisecond)
		thief := &lock{lease: l, identity: "b"}
		record, _, err := thief.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		record.HolderIdentity = "b"
		if err := thief.Update(t.Context(), *record); err != nil {
			t.Fatal(err)
		}
		after(period + period/10)
		if n.acts() {
			t.Fatal("acts with somebody else's Lease")
		}
	})
}

// The Lease is given back when nothing acts any more, and not before.
func TestTheLeaseIsGivenBackLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		n := newLane(t, l, "a")
		after(time.Millisecond)
		finish := make(chan struct{})
		var old context.Context
		go n.reconcile(func(ctx context.Context) {
			old = ctx
			<-ctx.Done()
			<-finish
		})
		synctest.Wait()
		n.stop()
		after(5 * time.Second)
		if l.holder() != "a" {
			t.Fatal("the Lease was given back while a reconcile ran")
		}
		if n.acts() {
			t.Fatal("acts after it was told to end")
		}
		if err := n.write(t.Context()); err != nil {
			t.Fatalf("an Event at an orderly end: %v", err)
		}
		if err := n.write(old); !errors.Is(err, leadership.ErrNotLeading) {
			t.Fatalf("a write of a reconcile at an orderly end: %v", err)
		}
		close(finish)
		if err := <-n.ended; err != nil {
			t.Fatal(err)
		}
		if l.holder() != "" {
			t.Fatalf("the Lease is still held by %s", l.holder())
		}
	})
}

// A reconcile that does not return keeps the next term from beginning: the process must end.
func TestWorkThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		n := newLane(t, l, "a")
		after(time.Millisecond)
		finish := make(chan struct{})
		defer close(finish)
		go n.reconcile(func(context.Context) { <-finish })
		synctest.Wait()
		l.setCut("a", true)
		after(duration)
		l.setCut("a", false)
		after(patience)
		select {
		case err := <-n.ended:
			if err == nil || !strings.Contains(err.Error(), "did not end within 10s") {
				t.Fatalf("error %v", err)
			}
		default:
			t.Fatal("stands for election while the old term runs")
		}
		if n.begun.Load() != 1 {
			t.Fatalf("%d terms began", n.begun.Load())
		}
	})
}

func TestWithoutElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &lane{gate: leadership.NewGate()}
		if n.acts() {
			t.Fatal("a new gate is open")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.gate.Lead(ctx, patience) }()
		after(time.Hour)
		if !n.acts() {
			t.Fatal("does not act")
		}
		stop()
		if err := <-ended; err != nil || n.acts() {
			t.Fatalf("after the end: error %v, acts %t", err, n.acts())
		}
	})
}

// Without a gate controllers are started and ended by controller-runtime's own election.
func TestNoGate(t *testing.T) {
	n := &lane{}
	n.gate.OnBegin(func() { t.Error("called") })
	if !n.acts() {
		t.Fatal("a nil gate holds back")
	}
	if err := n.gate.Everything(nil).Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := leadership.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReadsPassTheFence(t *testing.T) {
	fence := leadership.NewGate().Fence(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	for _, tc := range []struct {
		method, path string
		passes       bool
	}{
		{http.MethodGet, "/api/v1/pods", true},
		{http.MethodPost, "/api/v1/namespaces/shop/pods", false},
		{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/shop/events", false},
		{http.MethodPut, "/api/v1/namespaces/shop/pods/orders-0-0", false},
		{http.MethodPatch, "/api/v1/namespaces/shop/pods/orders-0-0", false},
		{http.MethodDelete, "/api/v1/namespaces/shop/pods/orders-0-0", false},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", true},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", true},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "https://api"+tc.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := fence.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		if tc.passes != (err == nil) {
			t.Errorf("%s %s: %v", tc.method, tc.path, err)
		}
	}
}
