package figure

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSummaries(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   Summary
	}{
		"none":               {nil, Summary{}},
		"one":                {[]float64{3}, Summary{1, 3, 3, 3}},
		"odd, unsorted":      {[]float64{9, 1, 4}, Summary{3, 4, 1, 9}},
		"even":               {[]float64{4, 1, 3, 2}, Summary{4, 2.5, 1, 4}},
		"negative":           {[]float64{-5, 5}, Summary{2, 0, -5, 5}},
		"without a number":   {[]float64{2, math.NaN(), 4}, Summary{2, 3, 2, 4}},
		"nothing but no one": {[]float64{math.NaN()}, Summary{}},
	} {
		if diff := cmp.Diff(c.want, Summarize(c.values)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	values := []float64{3, 1, 2}
	Summarize(values)
	if diff := cmp.Diff([]float64{3, 1, 2}, values); diff != "" {
		t.Errorf("the values were changed: %s", diff)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 3: "3", 0.12345: "0.123", 1.5: "1.50", 14.256: "14.26", 123.456: "123.5", 1234.56: "1235", -0.5: "-0.500", 1e6: "1000000",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Number(math.NaN()); got != "-" {
		t.Errorf("Number(NaN) = %q", got)
	}
}

func example() Figure {
	f := Figure{
		ID: "create", Title: "Apply to Ready", Command: "go run ./test/bench create --runs 3", Version: "v1", Target: "20 s",
		Measured: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Machine: Machine{Cores: 2, Processor: "P", MemoryGiB: 4, Kernel: "6.1", System: "Debian", UsedPercent: 1.2},
	}
	f.Put("Ready", "s", 14.25)
	f.Put("Ready", "s", 13.5, 16)
	f.Add("nothing | at all", "1/s")
	f.Note("a note about %s", "it")
	return f
}

func TestTheTextIsATable(t *testing.T) {
	var out strings.Builder
	f := example()
	if err := f.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `
Apply to Ready
                    median    min  max  unit  runs
  Ready              14.25  13.50   16  s        3
  nothing | at all       -      -    -  1/s      0
  Command: ` + "`go run ./test/bench create --runs 3`" + `
  Machine: 2 cores (P), 4.0 GiB of memory, Linux 6.1, Debian; 1 % of its processor time in use before the start
  Measured: 2026-01-02 03:04 UTC, operator v1
  Target: 20 s
  a note about it
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTheMarkdownIsATable(t *testing.T) {
	f := example()
	want := `| Apply to Ready | median | min | max | unit | runs |
|---|---:|---:|---:|---|---:|
| Ready | 14.25 | 13.50 | 16 | s | 3 |
| nothing \| at all | - | - | - | 1/s | 0 |

- Command: ` + "`go run ./test/bench create --runs 3`" + `
- Machine: 2 cores (P), 4.0 GiB of memory, Linux 6.1, Debian; 1 % of its processor time in use before the start
- Measured: 2026-01-02 03:04 UTC, operator v1
- Target: 20 s
- a note about it
`
	if diff := cmp.Diff(want, f.Markdown()); diff != "" {
		t.Error(diff)
	}
}

func TestABusyMachineShows(t *testing.T) {
	for used, busy := range map[float64]bool{0: false, 10: false, 11: true, 100: true} {
		m := Machine{Cores: 2, UsedPercent: used}
		if m.Busy() != busy || strings.Contains(m.String(), "BUSY") != busy {
			t.Errorf("%v %% in use: %s", used, m)
		}
	}
}

func TestUseIsReadFromTwoMoments(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	const before = "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
	for name, c := range map[string]struct {
		after string
		want  float64
	}{
		"idle":       {"cpu  100 0 50 1700 150 0 0 0 7 0\n", 0},
		"a quarter":  {"cpu  150 0 50 950 50 0 0 0 57 0\n", 25},
		"stolen":     {"cpu  100 0 50 800 50 0 0 100 7 0\n", 100},
		"no time":    {before, 0},
		"unreadable": {"", 0},
	} {
		if got := usedPercent(before, c.after); got < c.want-0.01 || got > c.want+0.01 {
			t.Errorf("%s: %v %%, want %v", name, got, c.want)
		}
	}
}

func TestThisMachineIsDescribed(t *testing.T) {
	if m := ThisMachine(0); m.Cores < 1 || m.MemoryGiB <= 0 || m.Kernel == "" {
		t.Errorf("got %+v", m)
	}
}

func TestFiguresAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bench")
	f := example()
	if _, err := f.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir, "create")
	if err != nil {
		t.Fatal(err)
	}
	f.Rows[1].Values = nil
	if diff := cmp.Diff(f, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Load(dir, "other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a figure that is not there: %v", err)
	}
	if err := os.Rename(filepath.Join(dir, "create.json"), filepath.Join(dir, "other.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, "other"); err == nil || !strings.Contains(err.Error(), `called "create"`) {
		t.Errorf("a figure of another name: %v", err)
	}
}

const document = "# Benchmarks\n<!-- begin figure create -->\nold\n<!-- end figure -->\nbetween\n<!-- begin figure quiet -->\nstays\n<!-- end figure -->\nafter\n"

func TestTheDocumentIsUpdatedBetweenItsMarks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "benchmarks.md")
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	f := example()
	if _, err := f.Save(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 { // Once more changes nothing.
		ids, err := UpdateDocument(path, dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"create"}, ids); diff != "" {
			t.Error(diff)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(document, "old\n", "\n"+f.Markdown()+"\n", 1)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestADocumentWithoutAnEndIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no end":      "<!-- begin figure create -->\nold\n",
		"nested":      "<!-- begin figure create -->\n<!-- begin figure quiet -->\n<!-- end figure -->\n",
		"failed read": document,
	} {
		_, _, err := Rewrite(text, func(string) (string, error) { return "", errors.New("broken") })
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
