package sim_test

import (
	"flag"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/test/sim"
)

var (
	schedules = flag.Int("schedules", 1500, "how many schedules to run")
	seed      = flag.Uint64("seed", 1, "first seed, the same each day unless given: a change of the code alone can fail the test; 0: by today's date")
	steps     = flag.Int("steps", 400, "steps of each schedule before the faults end")
)

// regressions are seeds that once found something.
var regressions = []uint64{}

func TestSchedules(t *testing.T) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UTC().Unix()/86400) * 1_000_000
	}
	rows, total := map[string]int{}, 0
	run := func(s uint64) {
		r := sim.New(s)
		if err := r.Do(*steps); err != nil {
			t.Fatalf("seed %d: %v\nagain: go test ./test/sim -seed %d -schedules 1", s, err, s)
		}
		total += r.Steps
		for row, n := range r.Rows {
			rows[row] += n
		}
	}
	for _, s := range regressions {
		run(s)
	}
	for i := range *schedules {
		run(first + uint64(i))
	}
	covered, missed := 0, []string(nil)
	for _, row := range failover.Table {
		if rows[row.String()] > 0 {
			covered++
		} else {
			missed = append(missed, row.String())
		}
	}
	t.Logf("seed %d: %d schedules, %d steps, %d of %d rows, 0 violations; rows not taken: %v", first, *schedules, total, covered, len(failover.Table), missed)
}
