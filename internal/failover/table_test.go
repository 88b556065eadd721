package failover

import (
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

var update = flag.Bool("update", false, "write the generated files and golden traces anew")

// phases are those that the table has rows for.
func phases() []v1.TopologyPhase {
	var out []v1.TopologyPhase
	for _, row := range Table {
		if !slices.Contains(out, row.Phase) {
			out = append(out, row.Phase)
		}
	}
	return out
}

func opposite(g Guard) Guard {
	if g[0] == '!' {
		return g[1:]
	}
	return not(g)
}

// avoid looks for an evaluation of guards that extends held and by which none of the rows is taken; it is exact.
func avoid(rows []Row, held map[Guard]bool) bool {
	if len(rows) == 0 {
		return true
	}
	for _, g := range rows[0].When {
		if held[g] {
			continue // To be true by now, so it does not keep the row from being taken.
		}
		next := maps.Clone(held)
		next[opposite(g)] = true
		if avoid(rows[1:], next) {
			return true
		}
	}
	return false
}

// TestTableIsExhaustive: whatever holds, exactly one row of a phase is taken, since the last one has no guards and the first
// that fits wins; and each row is taken by some combination of guards, else it is dead.
func TestTableIsExhaustive(t *testing.T) {
	for _, phase := range phases() {
		var before []Row
		for _, row := range Table {
			if row.Phase != phase {
				continue
			}
			held := map[Guard]bool{}
			for _, g := range row.When {
				if held[opposite(g)] {
					t.Errorf("row %s contradicts itself", row)
				}
				held[g] = true
			}
			if !avoid(before, held) {
				t.Errorf("row %s can never be taken: earlier rows hide it", row)
			}
			before = append(before, row)
		}
		if last := before[len(before)-1]; len(last.When) != 0 {
			t.Errorf("the last row of %s, %s, has guards", phase, last)
		}
		if row, ok := choose(phase, func(g Guard) bool { return g[0] == '!' }); !ok || row.Phase != phase {
			t.Errorf("%s: no row is taken when no guard holds", phase)
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
