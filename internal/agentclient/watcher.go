package agentclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

const (
	// StaleAfter is the silence after which an instance is unknown: four heartbeats.
	StaleAfter = 4 * agentapi.HeartbeatInterval
	// backoffMin and backoffMax bound the pause between attempts to connect.
	backoffMin = 50 * time.Millisecond
	backoffMax = time.Second
)

// Observation is the last that was heard of an instance.
type Observation struct {
	// Status is nil while the instance is unknown: never heard, or silent for StaleAfter. It is shared, never changed.
	Status *agentapi.Status
	// SampledAfter, HeldSince, ExecutedSince, ProcessSince are as in topology.Instance.
	SampledAfter  time.Time
	HeldSince     time.Time
	ExecutedSince time.Time
	ProcessSince  time.Time
	// ReceivedAt is when Status was received.
	ReceivedAt time.Time
	// SilentSince is as in topology.Instance.
	SilentSince time.Time
	// Err is why the last attempt failed; nil while the stream is up.
	Err error
}

// Kind says what changed with a document.
type Kind int

const (
	// Event means: something that decisions rest on changed, or the instance became known or unknown.
	Event Kind = iota
	// Progress means: nothing but sets of transactions, lag and the like.
	Progress
)

// watcher keeps one instance's stream.
type watcher struct {
	client *client
	notify func(Kind)
	cancel context.CancelFunc
	now    func() time.Time

	mu     sync.Mutex
	obs    Observation
	expiry *time.Timer
}

func startWatcher(ctx context.Context, c *client, notify func(Kind)) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{client: c, notify: notify, cancel: cancel, now: time.Now}
	w.obs.SilentSince = w.now().Add(StaleAfter)
	w.expiry = time.AfterFunc(StaleAfter, w.expire)
	go w.run(ctx)
	return w
}

func (w *watcher) stop() {
	w.cancel()
	w.expiry.Stop()
	w.client.close()
}

// observe returns the last observation. A sample can make an instance known while its stream is down: it expires too.
func (w *watcher) observe() Observation {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.obs.Status != nil && w.now().Sub(w.obs.ReceivedAt) >= StaleAfter {
		return Observation{SilentSince: w.obs.ReceivedAt, Err: errSilent}
	}
	return w.obs
}

// expire makes the instance unknown when nothing was received for StaleAfter, whatever the stream is doing.
func (w *watcher) expire() {
	w.mu.Lock()
	expired := w.obs.Status != nil && w.now().Sub(w.obs.ReceivedAt) >= StaleAfter
	w.mu.Unlock()
	if expired {
		w.lost(errSilent)
	}
}

// run connects for ever, with a growing pause that starts over after each document that was heard.
func (w *watcher) run(ctx context.Context) {
	pause := backoffMin
	for ctx.Err() == nil {
		heard, err := w.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		w.lost(err)
		if heard {
			pause = backoffMin
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, backoffMax)
	}
}

// stream reads documents until the stream ends, is silent for StaleAfter, or carries something else.
func (w *watcher) stream(parent context.Context) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	silence := time.AfterFunc(StaleAfter+dialTimeout, func() { cancel(errSilent) })
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.client.url(agentapi.PathStream), nil)
	if err != nil {
		return false, err
	}
	res, err := w.client.http.Do(req)
	if err != nil {
		return false, causeOf(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return false, refusal(res)
	}
	silence.Reset(StaleAfter)
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 0, 16<<10), MaxDocumentBytes)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		st, err := parseStatus(lines.Bytes(), w.client.target.Instance)
		if err != nil {
			return heard, err
		}
		silence.Reset(StaleAfter)
		heard = true
		w.accept(st, time.Time{})
	}
	if err := lines.Err(); err != nil {
		return heard, causeOf(ctx, err)
	}
	return heard, errors.New("the stream ended")
}

var errSilent = fmt.Errorf("silent for %s", StaleAfter)

func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// lost makes the instance unknown.
func (w *watcher) lost(err error) {
	w.mu.Lock()
	changed, since := w.obs.Status != nil, w.obs.SilentSince
	if changed {
		since = w.now()
	}
	w.obs = Observation{SilentSince: since, Err: err}
	w.mu.Unlock()
	if changed {
		w.notify(Event)
	}
}

// accept takes a document in and tells what changed. requested is when it was asked for; zero for one that was pushed.
func (w *watcher) accept(st *agentapi.Status, requested time.Time) {
	w.mu.Lock()
	next, kind, newer := w.obs.With(st, requested, w.now())
	if newer {
		w.obs = next
		w.expiry.Reset(StaleAfter)
	}
	w.mu.Unlock()
	if newer {
		w.notify(kind)
	}
}

// With returns the observation after a document was received at now; requested is when it was asked for, zero for one that
// was pushed. newer is false, and nothing changes, when a later document, of the same life or of a later one, was received before.
func (o Observation) With(st *agentapi.Status, requested, now time.Time) (next Observation, kind Kind, newer bool) {
	sameLife := o.Status != nil && o.Status.AgentStart.Equal(st.AgentStart)
	if sameLife && st.Sequence <= o.Status.Sequence || o.Status != nil && st.AgentStart.Before(o.Status.AgentStart) {
		return o, Progress, false
	}
	next = Observation{Status: st, ReceivedAt: now, SampledAfter: requested, HeldSince: now, ExecutedSince: now, ProcessSince: now}
	if sameLife {
		// Documents of one life are sampled one after another, so a later one keeps the bounds of an earlier one.
		if o.SampledAfter.After(next.SampledAfter) {
			next.SampledAfter = o.SampledAfter
		}
		if o.Status.Process.State == st.Process.State {
			next.ProcessSince = o.ProcessSince
		}
		if sameExecuted(o.Status, st) {
			next.ExecutedSince = o.ExecutedSince
			if sameReceived(o.Status, st) {
				next.HeldSince = o.HeldSince
			}
		}
	}
	kind = Progress
	if o.Status == nil || !sameButProgress(o.Status, st) {
		kind = Event
	}
	return next, kind, true
}

func sameExecuted(a, b *agentapi.Status) bool {
	return a.Server != nil && b.Server != nil && a.Server.GTIDExecuted.Equal(b.Server.GTIDExecuted)
}

func sameReceived(a, b *agentapi.Status) bool {
	x, y := a.Server.Replication, b.Server.Replication
	return x == nil && y == nil || x != nil && y != nil && x.Received.Equal(y.Received)
}

// sameButProgress compares two documents without what moves while nothing happens.
func sameButProgress(a, b *agentapi.Status) bool {
	x, y := withoutProgress(a), withoutProgress(b)
	return reflect.DeepEqual(x, y)
}
