package sim_test

import (
	"errors"
	"flag"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/test/sim"
)

var (
	schedules = flag.Int("schedules", 20_000, "how many schedules to run")
	seed      = flag.Uint64("seed", 0, "first seed; 0: one of today's")
	steps     = flag.Int("steps", 400, "steps of each schedule before the faults end")
)

// enough is from how many schedules on every row must be reached that is not listed as seldom.
const enough = 20_000

// seldom are the rows that random schedules reach rarely or not at all: nobody suspends, and little is lost in them. The
// stories of internal/failover tell of these.
var seldom = []string{}

// firstSeed gives each day schedules of its own.
func firstSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	day, err := strconv.ParseUint(time.Now().UTC().Format("20060102"), 10, 64)
	if err != nil {
		panic(err)
	}
	return day * 1_000_000
}

// run runs schedules on all processors until one finds something; its seed and trace are the error's.
func run(t *testing.T, first uint64, count int, each func(*sim.Run) error) (rows map[string]int, total int) {
	t.Helper()
	rows = map[string]int{}
	var mu sync.Mutex
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(count) && !failed.Load(); i = next.Add(1) - 1 {
				s := first + uint64(i) //nolint:gosec // Not negative.
				r := sim.New(s)
				err := each(r)
				mu.Lock()
				if err != nil && !failed.Swap(true) {
					t.Errorf("seed %d: %v\nagain: go test ./test/sim -run TestSchedules -seed %d -schedules 1", s, err, s)
				}
				total += r.Steps
				for row, n := range r.Rows {
					rows[row] += n
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return rows, total
}

func TestSchedules(t *testing.T) {
	do := func(r *sim.Run) error { return r.Do(*steps) }
	first := firstSeed()
	began := time.Now()
	rows, total := run(t, first, *schedules, do)
	var missed []string
	for _, row := range failover.Table {
		if rows[row.String()] == 0 {
			missed = append(missed, row.String())
		}
	}
	if *schedules >= enough && !t.Failed() {
		for _, row := range missed {
			if !slices.Contains(seldom, row) {
				t.Errorf("row %s is not reached by %d schedules", row, *schedules)
			}
		}
	}
	violations := map[bool]int{true: 1}[t.Failed()]
	t.Logf("rows not taken: %s", strings.Join(missed, ", "))
	t.Logf("seed %d: %d schedules, %d steps, %d of %d rows, %d violations, %s",
		first, *schedules, total, len(failover.Table)-len(missed), len(failover.Table), violations, time.Since(began).Round(time.Second))
}

// TestSameSeedSameSchedule: a seed that found something must find it again.
func TestSameSeedSameSchedule(t *testing.T) {
	for s := range uint64(20) {
		a, b := sim.New(s), sim.New(s)
		if errA, errB := a.Do(*steps), b.Do(*steps); errA != nil || errB != nil {
			t.Fatalf("seed %d: %v; %v", s, errA, errB)
		}
		if x, y := a.Trace(), b.Trace(); !slices.Equal(x, y) {
			t.Errorf("seed %d: two runs differ:\n%s\nand\n%s", s, strings.Join(x, "\n"), strings.Join(y, "\n"))
		}
	}
}

// What schedules once found is kept as broken rules and as stories of internal/failover: a seed is another schedule as soon as
// the simulation learns another fault.

// TestBrokenRulesAreFound breaks rules on purpose, one at a time: the simulation must find each.
func TestBrokenRulesAreFound(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) {
			for i := range mutationSchedules {
				r := sim.New(mutationSeed + m.from + uint64(i)) //nolint:gosec // Not negative.
				r.Break, r.BreakDecision = m.snapshot, m.decision
				var found *sim.Violation
				if err := r.Do(*steps); errors.As(err, &found) && !strings.Contains(found.What, "INV-7") {
					t.Logf("found by schedule %d: %s", i+1, found.What)
					return
				}
			}
			t.Errorf("not found by %d schedules", mutationSchedules)
		})
	}
}
