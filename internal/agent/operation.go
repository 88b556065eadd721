package agent

import (
	"context"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// operation is a long command under way. There is at most one; it holds the turn until it ends.
func (a *Agent) runOperation(cmd agentapi.Command, work func(ctx context.Context, progress func(string)) error) {
	report := func(running bool, progress, failure string) {
		a.hub.update(func(d *agentapi.Status) {
			d.Operation = &agentapi.OperationStatus{ID: cmd.OperationID, Type: cmd.Type, Running: running, Progress: progress, Error: failure}
		})
	}
	report(true, "", "")
	go func() {
		defer a.turn.release()
		started := time.Now()
		err := work(a.life, func(text string) { report(true, text, "") })
		if err != nil {
			a.log.Error(err, "Operation failed", "operation", cmd.OperationID, "type", cmd.Type)
			report(false, "", err.Error())
			return
		}
		a.log.Info("Operation ended", "operation", cmd.OperationID, "type", cmd.Type, "took", time.Since(started).Round(time.Millisecond).String())
		report(false, "", "")
	}()
}

// turn lets one command work at a time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn at most for the bound; a turn that is free is taken however short that is.
func (t turn) take(ctx context.Context, bound time.Duration) bool {
	select {
	case t <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

func (t turn) release() { <-t }
