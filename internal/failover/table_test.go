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

// maskedRow is a row whose guards are bits.
type maskedRow struct {
	name          string
	must, mustNot int
	taken         int
}

func maskRows(phase v1.TopologyPhase, at map[Guard]int) []maskedRow {
	var out []maskedRow
	for _, row := range Table {
		if row.Phase != phase {
			continue
		}
		masked := maskedRow{name: row.Name}
		for _, g := range row.When {
			if g[0] == '!' {
				masked.mustNot |= 1 << at[g[1:]]
			} else {
				masked.must |= 1 << at[g]
			}
		}
		out = append(out, masked)
	}
	return out
}

// TestTableIsExhaustive evaluates every phase under every combination of its guards: exactly one row must be taken, and
// every row must be taken by some combination, else it is dead.
func TestTableIsExhaustive(t *testing.T) {
	for _, phase := range []v1.TopologyPhase{bootstrapping, stable, recovering, blocked} {
		names := guardsOf(phase)
		if len(names) > 23 {
			t.Fatalf("%s: %d guards are too many to enumerate", phase, len(names))
		}
		at := map[Guard]int{}
		for i, g := range names {
			at[g] = i
		}
		rows := maskRows(phase, at)
		taken := map[string]int{}
		for bits := range 1 << len(names) {
			i := slices.IndexFunc(rows, func(r maskedRow) bool { return bits&r.must == r.must && bits&r.mustNot == 0 })
			if i < 0 {
				t.Fatalf("%s: no row for guards %0*b of %v", phase, len(names), bits, names)
			}
			rows[i].taken++
			if bits%9973 != 0 {
				continue // choose is slow; that it agrees is seen on some.
			}
			row, ok := choose(phase, func(g Guard) bool {
				if g[0] == '!' {
					return bits&(1<<at[g[1:]]) == 0
				}
				return bits&(1<<at[g]) != 0
			})
			if !ok || row.Name != rows[i].name {
				t.Fatalf("%s: guards %0*b of %v: %s is chosen, not %s", phase, len(names), bits, names, row, rows[i].name)
			}
		}
		for _, r := range rows {
			taken[r.name] = r.taken
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
