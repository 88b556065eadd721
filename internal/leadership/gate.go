package leadership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// retryUnrenewed is when a reconcile is tried again that found the Lease unrenewed but not lost.
const retryUnrenewed = 500 * time.Millisecond

// Gate lets a lane's reconciles and writes through while the lane leads. A nil Gate is always open: whoever runs the
// controllers elects by other means.
type Gate struct {
	now func() time.Time

	mu sync.Mutex
	// term is the present one; nil: the lane does not lead.
	term    *term
	onBegin []func()
	queues  []func(context.Context) error
	// acting counts the reconciles that run. It grows under mu and in a term only, so waiting for it after a term is sound.
	acting sync.WaitGroup
	// leaving: the last term is ending in order, with its Lease still held.
	leaving bool
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{now: time.Now} }

// OnBegin has f called at the beginning of each term, before anything acts in it. It must be quick.
func (g *Gate) OnBegin(f func()) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onBegin = append(g.onBegin, f)
}

// Guard lets inner reconcile in a term only, with a context that ends with it. Outside of terms requests are dropped: each
// term begins with all objects that Everything lists.
func (g *Gate) Guard(inner reconcile.Reconciler) reconcile.Reconciler {
	if g == nil {
		return inner
	}
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		t, leave := g.enter()
		if t == nil {
			return reconcile.Result{}, nil
		}
		defer leave()
		if !t.mayAct() {
			return reconcile.Result{RequeueAfter: retryUnrenewed}, nil
		}
		result, err := inner.Reconcile(termContext{Context: t.ctx, term: t, values: ctx}, req)
		if t.ended() {
			if err != nil {
				log.FromContext(ctx).V(1).Info("Ended with its term", "error", err.Error())
			}
			return reconcile.Result{}, nil
		}
		if errors.Is(err, ErrNotLeading) {
			// Refused by the clock: the Lease is late, not lost. That is no failure of the object's.
			return reconcile.Result{RequeueAfter: retryUnrenewed}, nil
		}
		return result, err
	})
}

func (g *Gate) enter() (t *term, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term == nil {
		return nil, nil
	}
	g.acting.Add(1)
	return g.term, g.acting.Done
}

// Everything is a source that puts everything that list returns into the controller's queue at the beginning of each term.
func (g *Gate) Everything(list func(context.Context) ([]reconcile.Request, error)) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		if g == nil {
			return nil
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.queues = append(g.queues, func(ctx context.Context) error {
			requests, err := list(ctx)
			for _, r := range requests {
				queue.Add(r)
			}
			return err
		})
		return nil
	})
}

// Fence refuses writes of who does not lead: those of a reconcile outside its term, and those that belong to no reconcile,
// which are Events that were queued, while the lane does not lead. They pass at an orderly end, when no Lease was lost: what
// the last reconciles did is still told. Reads always pass, since caches stay warm.
func (g *Gate) Fence(next http.RoundTripper) http.RoundTripper { return &fence{gate: g, next: next} }

type fence struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip refuses or passes on.
func (f *fence) RoundTrip(req *http.Request) (*http.Response, error) {
	if !writes(req) {
		return f.next.RoundTrip(req)
	}
	if err := f.gate.mayWrite(req.Context()); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // The contract of RoundTripper.
		}
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	return f.next.RoundTrip(req)
}

// writes says whether a request may change something. Reviews are questions that are posted.
func writes(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.HasPrefix(req.URL.Path, "/apis/authentication.k8s.io/") && !strings.HasPrefix(req.URL.Path, "/apis/authorization.k8s.io/")
}

// WrappedRoundTripper lets client-go reach the transport, to cancel requests and to close connections.
func (f *fence) WrappedRoundTripper() http.RoundTripper { return f.next }

func (g *Gate) mayWrite(ctx context.Context) error {
	if t, ok := ctx.Value(termKey{}).(*term); ok {
		if !t.mayAct() {
			return ErrNotLeading
		}
		return nil
	}
	g.mu.Lock()
	t, leaving := g.term, g.leaving
	g.mu.Unlock()
	if leaving || t != nil && t.mayAct() {
		return nil
	}
	return ErrNotLeading
}

// leave marks the end of the last term as an orderly one, if there is a term.
func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaving = g.term != nil
}

// open begins a term.
func (g *Gate) open(t *term) {
	g.mu.Lock()
	for _, f := range g.onBegin {
		f()
	}
	g.term = t
	g.mu.Unlock()
}

// enqueue looks at every object once. Where a controller has not started yet its first list does the same.
func (g *Gate) enqueue(ctx context.Context) {
	g.mu.Lock()
	queues := append([]func(context.Context) error(nil), g.queues...)
	g.mu.Unlock()
	for _, enqueue := range queues {
		// Only the end of ctx stops it.
		_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			if err := enqueue(ctx); err != nil {
				log.FromContext(ctx).Error(err, "List what the term begins with; trying again")
				return false, nil
			}
			return true, nil
		})
	}
}

// close ends the present term, if any.
func (g *Gate) close() {
	g.mu.Lock()
	t := g.term
	g.term = nil
	g.mu.Unlock()
	if t != nil {
		t.end()
	}
}

// leastPatience is what returning takes when there is nothing to wait for, on a busy machine.
const leastPatience = 100 * time.Millisecond

// wait returns once nothing acts any more; false: something did not end in time.
func (g *Gate) wait(patience time.Duration) bool {
	done := make(chan struct{})
	go func() {
		g.acting.Wait()
		close(done)
	}()
	timeout := time.NewTimer(max(patience, leastPatience))
	defer timeout.Stop()
	select {
	case <-done:
		return true
	case <-timeout.C:
		return false
	}
}
