package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/failover"
)

// Pauses before the same command goes to the same instance again, and bounds of commands, as in controllers/topology.
const (
	retryMin       = 100 * time.Millisecond
	retryMax       = 15 * time.Second
	defaultTimeout = 20 * time.Second
)

var timeouts = map[agentapi.CommandType]time.Duration{
	agentapi.CommandPromote: 2 * time.Minute,
	agentapi.CommandRestart: 2 * time.Minute,
	agentapi.CommandDemote:  time.Minute,
}

// executor runs a lane's commands, at most one for each instance.
type executor struct {
	lane *Lane

	mu    sync.Mutex
	slots map[string]*slot
}

type slot struct {
	running bool
	last    string
	times   int
	next    time.Time
}

func newExecutor(l *Lane) *executor { return &executor{lane: l, slots: map[string]*slot{}} }

// start begins a command, or returns how long to wait before it may be sent again.
func (e *executor) start(a failover.Action) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	sl := e.slots[a.Instance]
	if sl == nil {
		sl = &slot{}
		e.slots[a.Instance] = sl
	}
	if sl.running {
		return 0
	}
	if sl.last != a.Command.OperationID {
		sl.last, sl.times, sl.next = a.Command.OperationID, 0, time.Time{}
	}
	if wait := time.Until(sl.next); wait > 0 {
		return wait
	}
	sl.running = true
	e.lane.running.Go(func() { e.run(a, sl) })
	return 0
}

func (e *executor) run(a failover.Action, sl *slot) {
	l := e.lane
	timeout := timeouts[a.Command.Type]
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	s := Step{Kind: "command", Epoch: a.Command.Epoch, Instance: a.Instance, Command: string(a.Command.Type), Text: a.Why}
	if err := l.pool.Command(ctx, key, a.Instance, l.world.atItsPort(a.Command)); err != nil {
		s.Kind, s.Text = "command failed", a.Why+": "+err.Error()
		sample, cancelSample := context.WithTimeout(l.ctx, sampleTimeout)
		defer cancelSample()
		_ = l.pool.Sample(sample, key, a.Instance) // Its stream tells it too, a little later.
	}
	l.note(s)
	e.mu.Lock()
	sl.running = false
	sl.next = time.Now().Add(min(retryMin<<min(sl.times, 10), retryMax))
	sl.times++
	e.mu.Unlock()
	l.trigger()
}
