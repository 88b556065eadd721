package leadership

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrNotLeading refuses what only a leader may do.
var ErrNotLeading = errors.New("refused: this manager does not lead the lane, or not any more")

// term is one time of leading, from taking the Lease to losing it.
type term struct {
	ctx    context.Context
	cancel context.CancelFunc
	now    func() time.Time

	mu sync.Mutex
	// until is when acting stops unless the Lease is renewed before; zero: there is no Lease to lose.
	until time.Time
	over  bool
}

func newTerm(parent context.Context, until time.Time, now func() time.Time) *term {
	t := &term{until: until, now: now}
	t.ctx, t.cancel = context.WithCancel(parent)
	return t
}

// renewed moves the end of the right to act; never back.
func (t *term) renewed(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.After(t.until) {
		t.until = until
	}
}

// end is for good: a later renewal begins another term.
func (t *term) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.cancel()
}

func (t *term) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// mayAct says whether the Lease is held at this moment, by the clock: timers may be late in a starved process.
func (t *term) mayAct() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.over && t.ctx.Err() == nil && (t.until.IsZero() || t.now().Before(t.until))
}

type termKey struct{}

// termContext ends with a term and carries the values of a reconcile.
type termContext struct {
	context.Context
	term   *term
	values context.Context
}

// Value asks the term's context first, so that the context package finds the one that ends.
func (c termContext) Value(key any) any {
	if key == (termKey{}) {
		return c.term
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// Check returns ErrNotLeading when ctx belongs to a term in which acting is not allowed now. A context that belongs to no
// term passes: it comes from a program without terms.
func Check(ctx context.Context) error {
	if t, ok := ctx.Value(termKey{}).(*term); ok && !t.mayAct() {
		return ErrNotLeading
	}
	return nil
}
