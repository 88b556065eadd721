// Package progress prints what a long command is doing, how far it is and how long it has taken.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Reporter prints one line per step with the time since the command began. Safe for use from several goroutines.
type Reporter struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

// New returns a Reporter whose clock starts now.
func New(out io.Writer) *Reporter { return &Reporter{out: out, start: time.Now()} }

// Printf prints one line.
func (r *Reporter) Printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "[%6.1fs] %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// Elapsed is the time since the command began.
func (r *Reporter) Elapsed() time.Duration { return time.Since(r.start).Round(100 * time.Millisecond) }
