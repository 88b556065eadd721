package gtid

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// benchmarkText is a set of n intervals of one server, each of a few numbers with a gap behind it.
func benchmarkText(n, offset int) string {
	var text strings.Builder
	text.WriteString(uuidA)
	for i := range n {
		fmt.Fprintf(&text, ":%d-%d", i*10+1+offset, i*10+5+offset)
	}
	return text.String()
}

func Benchmark10kIntervals(b *testing.B) {
	xText, yText := benchmarkText(10_000, 0), benchmarkText(10_000, 3)
	x, y := MustParse(xText), MustParse(yText)
	union := x.Union(y)
	shuffled := strings.Split(strings.TrimPrefix(xText, uuidA+":"), ":")
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	shuffledText := uuidA + ":" + strings.Join(shuffled, ":")

	for _, bench := range []struct {
		name string
		run  func()
	}{
		{"Parse", func() { MustParse(xText) }},
		{"ParseShuffled", func() { MustParse(shuffledText) }},
		{"String", func() { _ = x.String() }},
		{"Union", func() { x.Union(y) }},
		{"Subtract", func() { x.Subtract(y) }},
		{"Intersect", func() { x.Intersect(y) }},
		{"Contains", func() { union.Contains(x) }},
		{"Equal", func() { x.Equal(x) }}, //nolint:gocritic // the slowest case: all is compared
		{"ContainsGTID", func() { x.ContainsGTID(x.parts[0].uuid, "", 50_001) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.run()
			}
		})
	}
}

// TestLinear holds the claim of the package documentation: ten times the intervals may not cost a hundred times the
// work. It counts allocations and results, not time, which says nothing on a busy machine.
func TestLinear(t *testing.T) {
	x, y := MustParse(benchmarkText(10_000, 0)), MustParse(benchmarkText(10_000, 3))
	for name, op := range map[string]func(Set) Set{"union": x.Union, "subtract": x.Subtract, "intersect": x.Intersect} {
		got := op(y)
		checkInvariants(t, got)
		if n := len(got.parts[0].intervals); n != 10_000 {
			t.Errorf("%s of 10,000 intervals has %d", name, n)
		}
		if allocs := testing.AllocsPerRun(5, func() { op(y) }); allocs > 40 {
			t.Errorf("%s of 10,000 intervals allocates %v times", name, allocs)
		}
	}
	if !slices.IsSortedFunc(x.parts[0].intervals, func(a, b interval) int { return int(a.start - b.start) }) {
		t.Error("intervals out of order")
	}
}
