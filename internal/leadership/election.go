package leadership

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Election says how a lane competes for its Lease.
type Election struct {
	// Lock is the Lease, by a client that nothing else uses: a renewal must not wait behind the lane's own calls.
	Lock resourcelock.Interface
	// Name of the Lease, for metrics.
	Name string
	// Duration is what another manager waits for after the last renewal that it saw; Deadline is how long renewing is
	// tried before the Lease is given up; Period is the pause between tries.
	Duration, Deadline, Period time.Duration
	// Patience is how long reconciles of a term whose Lease was lost may take to return, Grace the same at the end of all.
	Patience, Grace time.Duration
}

// Lead opens the gate for as long as ctx lasts, without a Lease.
func (g *Gate) Lead(ctx context.Context, grace time.Duration) error {
	t := newTerm(ctx, time.Time{}, g.now)
	g.open(t)
	g.enqueue(t.ctx)
	<-ctx.Done()
	g.leave()
	g.close()
	if !g.wait(grace) {
		return fmt.Errorf("work in hand did not end within %s", grace)
	}
	return nil
}

// Campaign stands for election, term after term, until ctx ends; then the Lease is given back once nothing acts any more,
// so that another manager need not wait for it to expire. It returns an error when something of an ended term does not
// return: the process must end then, since a new term could not tell itself from the old one.
func (g *Gate) Campaign(ctx context.Context, e Election) error {
	for ctx.Err() == nil {
		if err := g.serve(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// serve waits for the Lease and leads until it is lost or ctx ends.
func (g *Gate) serve(ctx context.Context, e Election) error {
	// Renewing goes on after ctx has ended, until the work in hand has ended too.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c := &candidacy{Interface: e.Lock, gate: g, ctx: ctx, giveUp: stop, validFor: e.Duration - e.Period}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c, Name: e.Name, LeaseDuration: e.Duration, RenewDeadline: e.Deadline, RetryPeriod: e.Period,
		// client-go would give the Lease back before it tells of the loss, while the old term still acts: release does it.
		ReleaseOnCancel: false,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { c.begin() }, OnStoppedLeading: c.end},
	})
	if err != nil {
		return fmt.Errorf("election for Lease %s: %w", e.Name, err)
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		elector.Run(electing)
	}()
	select {
	case <-returned:
	case <-ctx.Done():
	}
	led, patience := c.holds(), e.Patience
	if ctx.Err() != nil {
		patience = e.Grace
		g.leave()
	}
	c.end()
	quiet := g.wait(patience)
	stop()
	<-returned
	switch {
	case !quiet:
		return fmt.Errorf("lease %s: work of the ended term did not end within %s", e.Name, patience)
	case ctx.Err() != nil && led:
		c.release(context.WithoutCancel(ctx), e.Deadline)
	case led:
		log.FromContext(ctx).Info("Lost the Lease; caches and streams stay, standing for election again", "lease", e.Name)
	}
	return nil
}

// candidacy is one try to take the Lease and the term that comes of it. It sees every call about the Lease.
type candidacy struct {
	resourcelock.Interface
	gate *Gate
	// ctx is what the term lasts for at most.
	ctx    context.Context
	giveUp context.CancelFunc
	// validFor is how long after the beginning of a successful renewal acting is allowed. Another manager waits for the
	// Lease's whole duration, from a later moment.
	validFor time.Duration

	mu    sync.Mutex
	until time.Time
	term  *term
	over  bool
	last  resourcelock.LeaderElectionRecord
}

// begin starts the term, unless it is over already: client-go calls this from a goroutine of its own.
func (c *candidacy) begin() {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.term = newTerm(c.ctx, c.until, c.gate.now)
	c.gate.open(c.term)
	ctx := c.term.ctx
	c.mu.Unlock()
	log.FromContext(c.ctx).Info("Leading")
	c.gate.enqueue(ctx)
}

// end closes the gate at once.
func (c *candidacy) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && c.term != nil {
		c.gate.close()
	}
	c.over = true
}

// holds says whether the Lease was taken.
func (c *candidacy) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.until.IsZero()
}

// Create takes a Lease that did not exist.
func (c *candidacy) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	asked := c.gate.now()
	err := c.Interface.Create(ctx, r)
	c.renewed(asked, r, err)
	return err
}

// Update takes the Lease or renews it.
func (c *candidacy) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	asked := c.gate.now()
	err := c.Interface.Update(ctx, r)
	c.renewed(asked, r, err)
	return err
}

func (c *candidacy) renewed(asked time.Time, r resourcelock.LeaderElectionRecord, err error) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.last = asked.Add(c.validFor), r
	if c.term != nil {
		c.term.renewed(c.until)
	}
}

// Get reads the Lease. When it turns out to be somebody else's, client-go would go on leading until the deadline; this
// term ends here.
func (c *candidacy) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := c.Interface.Get(ctx)
	if err == nil && r.HolderIdentity != c.Identity() && c.holds() {
		c.end()
		c.giveUp()
	}
	return r, raw, err
}

// release gives the Lease back. Should that fail, it expires.
func (c *candidacy) release(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, _, err := c.Interface.Get(ctx)
	if err != nil || r.HolderIdentity != c.Identity() {
		return
	}
	now := metav1.Now()
	free := resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: r.LeaderTransitions}
	if err := c.Interface.Update(ctx, free); err != nil {
		log.FromContext(ctx).Info("The Lease was not given back and will expire", "error", err.Error())
	}
}
