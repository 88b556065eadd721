package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// harness lets internal/agent/agenttest, which is made for tests, serve a program: it is a testing.TB whose failures are
// returned as an error.
type harness struct {
	testing.TB // nil: what is not defined below is not used by agenttest, and panics.

	mu       sync.Mutex
	cleanups []func()
	failures []error
}

// withHarness runs f and then everything that was registered for cleanup, last first.
func withHarness(f func(*harness) error) error {
	h := &harness{}
	h.guard(func() {
		if err := f(h); err != nil {
			h.fail(err)
		}
	})
	for {
		h.mu.Lock()
		last := len(h.cleanups) - 1
		if last < 0 {
			h.mu.Unlock()
			return errors.Join(h.failures...)
		}
		next := h.cleanups[last]
		h.cleanups = h.cleanups[:last]
		h.mu.Unlock()
		h.guard(next)
	}
}

// guard runs f on a goroutine of its own, which Fatal ends.
func (h *harness) guard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (h *harness) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, err)
}

func (h *harness) Helper() {}

func (h *harness) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

func (h *harness) Error(args ...any) { h.fail(errors.New(fmt.Sprint(args...))) }

func (h *harness) Errorf(format string, args ...any) { h.fail(fmt.Errorf(format, args...)) }

func (h *harness) Fatal(args ...any) {
	h.Error(args...)
	runtime.Goexit()
}

func (h *harness) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	runtime.Goexit()
}
