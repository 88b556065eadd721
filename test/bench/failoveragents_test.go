package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/porpoise-dev/porpoise/test/chaos"
)

func TestStagesOfACrashAddUp(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1_700_000_000, 0).Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct {
		times crashTimes
		want  []float64
	}{
		"in order": {crashTimes{killed: at(0), lost: at(50), fenced: at(55), elected: at(80), promoted: at(85), opened: at(150), acked: at(200)},
			[]float64{50, 5, 25, 5, 65, 50}},
		"acknowledged before Promote was answered": {crashTimes{killed: at(0), lost: at(50), fenced: at(55), elected: at(80), promoted: at(85), opened: at(220), acked: at(200)},
			[]float64{50, 5, 25, 5, 115, 0}},
		"resumed in place": {crashTimes{killed: at(0), acked: at(200)}, []float64{0, 0, 0, 0, 0, 200}},
	} {
		if diff := cmp.Diff(tc.want, tc.times.stages()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCrashWatchTakesTheFirstOfEach(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	w := &crashWatch{}
	w.begin()
	for n, s := range []chaos.Step{
		{Kind: "decided", Row: "Stable/fail-over"}, {Kind: "recorded", Row: "Stable/fail-over"}, {Kind: "command", Command: "Fence"},
		{Kind: "decided", Row: "Fencing/elect"}, {Kind: "recorded", Row: "Fencing/elect"}, {Kind: "command failed", Command: "Promote"},
		{Kind: "command", Command: "Promote"}, {Kind: "command", Command: "Promote"}, {Kind: "decided", Row: "Recovering/fail-over"},
	} {
		s.At = at.Add(time.Duration(n) * time.Second)
		w.see(s)
	}
	want := []int64{0, 1, 3, 4, 6}
	for n, got := range []time.Time{w.times.lost, w.times.fenced, w.times.elected, w.times.promoted, w.times.opened} {
		if got.Unix()-at.Unix() != want[n] {
			t.Errorf("moment %d is of step %d, want %d", n, got.Unix()-at.Unix(), want[n])
		}
	}
	if w.times.failovers != 2 {
		t.Errorf("%d failovers, want 2", w.times.failovers)
	}
}
