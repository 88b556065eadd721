//go:build mysql

package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/test/chaos"
)

var (
	rounds = flag.Int("rounds", 4, "rounds to run")
	seed   = flag.Uint64("seed", 0, "what chooses the faults; 0: the date")
	only   = flag.Int("round", 0, "the only round to run; 0: all")
)

func TestMain(m *testing.M) {
	agenttest.RunChild()
	flag.Parse()
	os.Exit(m.Run())
}

func TestChaos(t *testing.T) {
	if *seed == 0 {
		// Another one each day, and the same one all day long.
		*seed, _ = strconv.ParseUint(time.Now().UTC().Format("20060102"), 10, 64)
	}
	logs, err := os.MkdirTemp("", "porpoise-chaos")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of agents and lanes are in %s", logs)
			return
		}
		if err := os.RemoveAll(logs); err != nil {
			t.Error(err)
		}
	})
	w, err := chaos.New(t, chaos.Options{Instances: 3, WriteDelay: 5 * time.Millisecond, Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	w.StartLane()
	show := func(line string) { fmt.Fprintln(os.Stderr, line) }
	run := &chaos.Run{World: w, Seed: *seed, Print: show, Network: chaos.CanCut(), Writers: 4}
	show(fmt.Sprintf("seed %d, %d rounds, ports can be cut: %t, logs while it runs: %s", *seed, *rounds, run.Network, logs))
	defer func() { show(run.Summary()) }()
	for n := 1; n <= *rounds; n++ {
		number := n
		if *only != 0 {
			number = *only
		}
		if err := run.Round(t.Context(), number); err != nil {
			t.Fatalf("seed %d: %v", *seed, err)
		}
		if *only != 0 {
			return
		}
	}
}
