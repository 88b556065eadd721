package image

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress prints what a long step does, each line with the time since the start. A nil Progress
// prints nothing.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	now   func() time.Time
}

// NewProgress starts the clock of a Progress that writes to out.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, start: time.Now(), now: time.Now}
}

// Printf prints one line.
func (p *Progress) Printf(format string, args ...any) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	elapsed := p.now().Sub(p.start).Round(100 * time.Millisecond)
	_, _ = fmt.Fprintf(p.out, "[%6.1fs] %s\n", elapsed.Seconds(), fmt.Sprintf(format, args...))
}

// Heartbeat prints a line made by describe at every interval until the returned function is called,
// so that a silent step is seen to be alive.
func (p *Progress) Heartbeat(interval time.Duration, describe func() string) (stop func()) {
	if p == nil {
		return func() {}
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.Printf("%s", describe())
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}
