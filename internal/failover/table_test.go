package failover

import (
	"flag"
	"os"
	"slices"
	"testing"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

var update = flag.Bool("update", false, "write the generated files and golden traces anew")

// guardsOf returns the guards that the rows of a phase name, without opposites.
func guardsOf(phase v1.TopologyPhase) []Guard {
	var out []Guard
	for _, row := range Table {
		if row.Phase != phase {
			continue
		}
		for _, g := range row.When {
			if g[0] == '!' {
				g = g[1:]
			}
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// TestTableIsExhaustive evaluates every phase under every combination of its guards: exactly one row must be taken, and
// every row must be taken by some combination, else it is dead.
func TestTableIsExhaustive(t *testing.T) {
	for _, phase := range []v1.TopologyPhase{bootstrapping, stable, recovering, blocked} {
		names := guardsOf(phase)
		if len(names) > 22 {
			t.Fatalf("%s: %d guards are too many to enumerate", phase, len(names))
		}
		at := map[Guard]int{}
		for i, g := range names {
			at[g] = i
		}
		taken := map[string]int{}
		for bits := range 1 << len(names) {
			row, ok := choose(phase, func(g Guard) bool {
				opposite := g[0] == '!'
				if opposite {
					g = g[1:]
				}
				return (bits&(1<<at[g]) != 0) != opposite
			})
			if !ok {
				t.Fatalf("%s: no row for guards %0*b of %v", phase, len(names), bits, names)
			}
			taken[row.Name]++
		}
		for _, row := range Table {
			if row.Phase == phase && taken[row.Name] == 0 {
				t.Errorf("row %s can never be taken: an earlier row hides it", row)
			}
		}
	}
}

func TestTableNamesWhatExists(t *testing.T) {
	seen := map[string]bool{}
	used := map[Guard]bool{}
	usedSteps := map[Step]bool{}
	for _, row := range Table {
		if seen[row.String()] {
			t.Errorf("row %s stands twice", row)
		}
		seen[row.String()] = true
		if row.Reason == "" {
			t.Errorf("row %s has no reason", row)
		}
		for _, g := range row.When {
			if g[0] == '!' {
				g = g[1:]
			}
			used[g] = true
			if guards[g] == nil {
				t.Errorf("row %s: guard %q does not exist", row, g)
			}
		}
		for _, s := range row.Do {
			usedSteps[s] = true
			if steps[s] == nil {
				t.Errorf("row %s: step %q does not exist", row, s)
			}
		}
	}
	for g := range guards {
		if !used[g] {
			t.Errorf("guard %q is used by no row", g)
		}
	}
	for s := range steps {
		if !usedSteps[s] {
			t.Errorf("step %q is used by no row", s)
		}
	}
	for _, phase := range []v1.TopologyPhase{bootstrapping, stable, recovering, blocked} {
		var last Row
		for _, row := range Table {
			if row.Phase == phase {
				last = row
			}
		}
		if len(last.When) != 0 {
			t.Errorf("the last row of %s has guards", phase)
		}
	}
}

func TestDiagramIsFresh(t *testing.T) {
	const path = "../../docs/generated/topology-states.md"
	want := Diagram()
	if *update {
		if err := os.MkdirAll("../../docs/generated", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go generate ./internal/failover", err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the table says; run go generate ./internal/failover", path)
	}
}
