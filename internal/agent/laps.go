package agent

import "time"

// laps measures the parts of something that is to be quick.
type laps struct {
	begun, last time.Time
	parts       []any
}

func newLaps() *laps {
	now := time.Now()
	return &laps{begun: now, last: now}
}

// mark ends a part.
func (l *laps) mark(part string) {
	now := time.Now()
	l.parts = append(l.parts, part, now.Sub(l.last).Round(10*time.Microsecond).String())
	l.last = now
}

// values are the parts and the whole, as key and value for a log line.
func (l *laps) values() []any {
	return append(l.parts, "took", l.last.Sub(l.begun).Round(10*time.Microsecond).String())
}
