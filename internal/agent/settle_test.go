package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// put makes a directory beside the data directory, or that itself; what names the incarnation that it is, empty: it has no mark.
func (f stateFixture) put(suffix, incarnation string) {
	f.t.Helper()
	g := f
	g.data += suffix
	g.putData(incarnation)
}

// TestRebuildCutShort: wherever the agent is killed in a rebuild, it comes back with the old data or the new, complete.
func TestRebuildCutShort(t *testing.T) {
	for name, tc := range map[string]struct {
		data, beside, aside string // what mysql, mysql.new and mysql.old are; "-": not there
		noRebuild           bool
		want                string
		state               agentapi.DataState
	}{
		"stopping mysqld, saving":      {data: "old", beside: "-", aside: "-", noRebuild: true, want: "old", state: agentapi.DataReady},
		"before the copy is begun":     {data: "old", beside: "-", aside: "-", want: "old", state: agentapi.DataReady},
		"while the copy is made":       {data: "old", beside: "", aside: "-", want: "old", state: agentapi.DataReady},
		"before the swap":              {data: "old", beside: "new", aside: "-", want: "old", state: agentapi.DataReady},
		"remains of an earlier one":    {data: "old", beside: "another", aside: "another", want: "old", state: agentapi.DataReady},
		"within the swap":              {data: "-", beside: "new", aside: "old", want: "new", state: agentapi.DataReady},
		"within a swap that went back": {data: "-", beside: "", aside: "old", want: "old", state: agentapi.DataReady},
		"after the swap":               {data: "new", beside: "-", aside: "old", want: "new", state: agentapi.DataReady},
		"while the old one is removed": {data: "new", beside: "-", aside: "", want: "new", state: agentapi.DataReady},
		"the old one went first":       {data: "", beside: "-", aside: "-", noRebuild: true, want: "", state: agentapi.DataFailed},
		"and is gone":                  {data: "-", beside: "", aside: "-", noRebuild: true, want: "", state: agentapi.DataFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newStateFixture(t)
			f.set(func(s *state) {
				s.ClusterID, s.Incarnation, s.Data, s.WasPrimary, s.Role = "c", "old", agentapi.DataCloning, true, agentapi.RoleReplica
				if !tc.noRebuild {
					s.Rebuild = &rebuildState{Incarnation: "new", MadeBy: "op"}
				}
			})
			for suffix, incarnation := range map[string]string{"": tc.data, newSuffix: tc.beside, oldSuffix: tc.aside} {
				if incarnation != "-" {
					f.put(suffix, incarnation)
				}
			}
			st := f.mustLoad().get()
			if st.Data != tc.state || st.Rebuild != nil {
				t.Fatalf("%+v", st)
			}
			m, err := readMark(f.data)
			if err != nil || (m == nil) != (tc.want == "") || m != nil && (m.Incarnation != tc.want || st.Incarnation != tc.want) {
				t.Errorf("mark %+v, %v; state %+v", m, err, st)
			}
			if isNew := tc.want == "new"; isNew == st.WasPrimary || isNew != (st.MadeBy == "op") || isNew != (st.Role == agentapi.RoleNone) {
				t.Errorf("the past: %+v", st)
			}
			// What was settled stays so.
			if again := f.mustLoad().get(); again.Incarnation != st.Incarnation || again.Data != st.Data {
				t.Errorf("loaded again: %+v", again)
			}
		})
	}
}

// TestRebuildUnclear: where neither directory is complete nothing is done, and nothing taken for empty.
func TestRebuildUnclear(t *testing.T) {
	for name, put := range map[string]func(stateFixture){
		"nothing is there":     func(stateFixture) {},
		"of other rebuilds":    func(f stateFixture) { f.put(newSuffix, "x"); f.put(oldSuffix, "y") },
		"neither has its mark": func(f stateFixture) { f.put("", ""); f.put(newSuffix, "") },
		"the place is taken":   func(f stateFixture) { f.put("", ""); f.put(newSuffix, "new") },
	} {
		f := newStateFixture(t)
		f.set(func(s *state) {
			s.ClusterID, s.Incarnation, s.Data = "c", "old", agentapi.DataCloning
			s.Rebuild = &rebuildState{Incarnation: "new", MadeBy: "op"}
		})
		put(f)
		if _, err := f.load(); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
	f := newStateFixture(t)
	f.put(oldSuffix, "old")
	if _, err := f.load(); err == nil || !strings.Contains(err.Error(), oldSuffix) {
		t.Errorf("no state, the old data moved away: %v", err)
	}
}

// TestSwap: after the swap the new directory is in place, and the old one beside it; before it, or when it fails, the old one.
func TestSwap(t *testing.T) {
	f := newStateFixture(t)
	a := New(Config{Paths: Paths{Data: f.data, State: f.dir}}, logr.Discard())
	f.put("", "old")
	if err := a.swapDataDirs(); err == nil {
		t.Error("swapped with nothing")
	}
	if m, err := readMark(f.data); err != nil || m == nil || m.Incarnation != "old" {
		t.Fatalf("after a swap that failed: %+v, %v", m, err)
	}
	f.put(newSuffix, "new")
	f.put(oldSuffix, "") // remains
	if err := a.swapDataDirs(); err != nil {
		t.Fatal(err)
	}
	for suffix, want := range map[string]string{"": "new", oldSuffix: "old"} {
		if m, err := readMark(f.data + suffix); err != nil || m == nil || m.Incarnation != want {
			t.Errorf("%q: %+v, %v; want %s", suffix, m, err, want)
		}
	}
	a.removeRemains()
	if _, err := os.Stat(f.data + oldSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
}

func TestCheckFound(t *testing.T) {
	const u = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	set := func(intervals string) gtid.Set {
		if intervals == "" {
			return gtid.Set{}
		}
		return gtid.MustParse(u + ":" + intervals)
	}
	for _, tc := range []struct{ want, found, purged, names string }{
		{"5-6", "5-9", "1-4", ""},
		{"", "", "1-4", ""},
		{"5-6", "6-9", "1-4", u + ":5) cannot be saved: they are not in"},
		{"3-6", "5-9", "1-4", "2 transactions (" + u + ":3-4) cannot be saved: they were purged"},
	} {
		err := checkFound(set(tc.want), set(tc.found), set(tc.purged))
		if (err != nil) != (tc.names != "") || err != nil && !strings.Contains(err.Error(), tc.names) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestPruneQuarantine(t *testing.T) {
	dir := t.TempDir()
	for i := range keptQuarantines + 2 {
		for _, suffix := range []string{quarantineSuffix, dumpSuffix} {
			if i == 0 && suffix == dumpSuffix {
				continue // there was no program for it
			}
			if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+suffix), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	New(Config{}, logr.Discard()).pruneQuarantine(dir)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2*keptQuarantines || filepath.Base(left[0]) != "c"+quarantineSuffix {
		t.Errorf("%v, %v", left, err)
	}
}
