package env

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is short, since most waits end within seconds and are part of what people look at.
const pollInterval = 200 * time.Millisecond

// ErrGiveUp wrapped in an error of a check, ends a wait at once: waiting longer cannot help.
var ErrGiveUp = errors.New("waiting longer cannot help")

// Check tells whether a condition holds, and in words how things are.
type Check func(ctx context.Context) (done bool, state string, err error)

// WaitFor polls until check says it is done. Errors of check count as a state, since API servers come and go in tests;
// one that wraps ErrGiveUp ends the wait. The error of a wait in vain tells the last state seen.
func (e *Env) WaitFor(ctx context.Context, what string, within time.Duration, check Check) error {
	step := e.Timeline.Begin("%s", what)
	state, err := poll(ctx, within, check, step.Update)
	if err != nil {
		return step.Fail(fmt.Errorf("wait for %s: %w", what, err))
	}
	step.Done("%s", state)
	return nil
}

// poll returns the last state.
func poll(ctx context.Context, within time.Duration, check Check, show func(string)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %s", within))
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := "nothing seen yet"
	for {
		done, state, err := check(ctx)
		switch {
		case err == nil && done:
			return state, nil
		case errors.Is(err, ErrGiveUp):
			return last, err
		case ctx.Err() != nil:
			// What a check says while its context ends is about the end, not about the condition.
			if err == nil {
				last = state
			}
			return last, fmt.Errorf("%w; last seen: %s", context.Cause(ctx), last)
		case err != nil:
			last = "error: " + err.Error()
		default:
			last = state
		}
		show(last)
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("%w; last seen: %s", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}
