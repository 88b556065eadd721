package gtid

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

// checkInvariants checks what every operation relies on: sorted, joined, nothing empty.
func checkInvariants(t testing.TB, s Set) {
	t.Helper()
	if s.parts != nil && len(s.parts) == 0 {
		t.Errorf("empty set with parts that are not nil: two empty sets must be deeply equal")
	}
	for i, p := range s.parts {
		if i > 0 && s.parts[i-1].compare(p.key) >= 0 {
			t.Errorf("%q: parts out of order: %v", s, p.key)
		}
		if len(p.intervals) == 0 {
			t.Errorf("%q: part without intervals: %v", s, p.key)
		}
		for j, iv := range p.intervals {
			if iv.start < 1 || iv.start >= iv.end || iv.end-1 > MaxNumber {
				t.Errorf("%q: interval [%d,%d)", s, iv.start, iv.end)
			}
			if j > 0 && p.intervals[j-1].end >= iv.start {
				t.Errorf("%q: intervals touch at %d", s, iv.start)
			}
		}
	}
}

const maxNumberText = "9223372036854775806"

func TestAlgebra(t *testing.T) {
	const a, b = uuidA, uuidB
	for _, tc := range []struct {
		name, x, y             string
		union, minus, both     string
		xContainsY, yContainsX bool
	}{
		{name: "both empty", xContainsY: true, yContainsX: true},
		{name: "one empty", x: a + ":1-3", union: a + ":1-3", minus: a + ":1-3", xContainsY: true},
		{name: "other empty", y: a + ":1-3", union: a + ":1-3", yContainsX: true},
		{
			name: "equal", x: a + ":1-3:7", y: a + ":1-3:7",
			union: a + ":1-3:7", both: a + ":1-3:7", xContainsY: true, yContainsX: true,
		},
		{name: "disjoint UUIDs", x: a + ":1-3", y: b + ":1-3", union: a + ":1-3," + b + ":1-3", minus: a + ":1-3"},
		{name: "disjoint tags", x: a + ":1-3", y: a + ":t:1-3", union: a + ":1-3:t:1-3", minus: a + ":1-3"},
		{name: "adjacent", x: a + ":1-3", y: a + ":4-6", union: a + ":1-6", minus: a + ":1-3"},
		{name: "overlap", x: a + ":1-5", y: a + ":3-8", union: a + ":1-8", minus: a + ":1-2", both: a + ":3-5"},
		{
			name: "hole", x: a + ":1-100", y: a + ":9",
			union: a + ":1-100", minus: a + ":1-8:10-100", both: a + ":9", xContainsY: true,
		},
		{
			name: "many holes", x: a + ":1-10:20-30", y: a + ":2:4-5:9-21:30-40",
			union: a + ":1-40", minus: a + ":1:3:6-8:22-29", both: a + ":2:4-5:9-10:20-21:30",
		},
		{
			name: "one over many", x: a + ":1:3:5:7", y: a + ":2-6",
			union: a + ":1-7", minus: a + ":1:7", both: a + ":3:5",
		},
		{
			name: "bridge", x: a + ":1-2:5-6", y: a + ":3-4",
			union: a + ":1-6", minus: a + ":1-2:5-6",
		},
		{
			name: "all numbers", x: a + ":1-" + maxNumberText, y: a + ":5:" + maxNumberText,
			union: a + ":1-" + maxNumberText, minus: a + ":1-4:6-9223372036854775805", both: a + ":5:" + maxNumberText,
			xContainsY: true,
		},
		{
			name: "errant transaction", x: a + ":1-108," + b + ":1", y: a + ":1-110",
			union: a + ":1-110," + b + ":1", minus: b + ":1", both: a + ":1-108",
		},
		{
			name: "tags apart", x: a + ":1-5:t:1-5:u:1", y: a + ":2:t:4-9:v:1",
			union: a + ":1-5:t:1-9:u:1:v:1", minus: a + ":1:3-5:t:1-3:u:1", both: a + ":2:t:4-5",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x, y := MustParse(tc.x), MustParse(tc.y)
			expect(t, "union", x.Union(y), tc.union)
			expect(t, "union the other way round", y.Union(x), tc.union)
			expect(t, "subtract", x.Subtract(y), tc.minus)
			expect(t, "intersect", x.Intersect(y), tc.both)
			expect(t, "intersect the other way round", y.Intersect(x), tc.both)
			if got := x.Contains(y); got != tc.xContainsY {
				t.Errorf("%q contains %q: %v", x, y, got)
			}
			if got := y.Contains(x); got != tc.yContainsX {
				t.Errorf("%q contains %q: %v", y, x, got)
			}
			if got, want := x.Equal(y), tc.xContainsY && tc.yContainsX; got != want {
				t.Errorf("%q equal to %q: %v", x, y, got)
			}
			// Arguments are values: nothing may have changed them.
			expect(t, "first argument", x, MustParse(tc.x).String())
			expect(t, "second argument", y, MustParse(tc.y).String())
		})
	}
}

func expect(t *testing.T, what string, got Set, want string) {
	t.Helper()
	checkInvariants(t, got)
	if got.String() != want {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}

func TestContainsGTID(t *testing.T) {
	a, b := mustUUID(uuidA), mustUUID(uuidB)
	s := MustParse(uuidA + ":3-5:9:" + maxNumberText + ":tag:1-2")
	for _, tc := range []struct {
		uuid UUID
		tag  string
		n    int64
		want bool
	}{
		{a, "", 2, false}, {a, "", 3, true}, {a, "", 5, true}, {a, "", 6, false}, {a, "", 9, true}, {a, "", 10, false},
		{a, "", MaxNumber, true}, {a, "", math.MaxInt64, false}, {a, "", 0, false}, {a, "", -1, false},
		{a, "tag", 1, true}, {a, "TAG", 2, true}, {a, "tag", 3, false}, {a, "other", 1, false},
		{b, "", 3, false}, {UUID{}, "", 3, false},
	} {
		if got := s.ContainsGTID(tc.uuid, tc.tag, tc.n); got != tc.want {
			t.Errorf("%q contains %s:%s:%d: %v", s, tc.uuid, tc.tag, tc.n, got)
		}
	}
	if (Set{}).ContainsGTID(a, "", 1) {
		t.Error("the empty set contains a GTID")
	}
}

func TestCount(t *testing.T) {
	for _, tc := range []struct {
		text string
		want uint64
	}{
		{"", 0},
		{uuidA + ":7", 1},
		{uuidA + ":1-5:8-9:t:1," + uuidB + ":1-10", 18},
		{uuidA + ":1-" + maxNumberText, 1<<63 - 2},
		{uuidA + ":1-" + maxNumberText + ":t:1-" + maxNumberText + ":u:1-3", math.MaxUint64},
		{uuidA + ":1-" + maxNumberText + ":t:1-" + maxNumberText + ":u:1-4", math.MaxUint64},
	} {
		if got := MustParse(tc.text).Count(); got != tc.want {
			t.Errorf("Count of %q = %d, want %d", tc.text, got, tc.want)
		}
	}
}

func TestRestrictAndUUIDs(t *testing.T) {
	a, b := mustUUID(uuidA), mustUUID(uuidB)
	s := MustParse(uuidA + ":1-5:t:1," + uuidB + ":7:u:1")
	expect(t, "none", s.Restrict(), "")
	expect(t, "first", s.Restrict(a), uuidA+":1-5:t:1")
	expect(t, "second, twice", s.Restrict(b, b), uuidB+":7:u:1")
	expect(t, "both", s.Restrict(b, a), s.String())
	expect(t, "unknown", s.Restrict(UUID{}), "")
	if got := s.UUIDs(); !slices.Equal(got, []UUID{a, b}) {
		t.Errorf("UUIDs() = %v", got)
	}
	if got := (Set{}).UUIDs(); len(got) != 0 {
		t.Errorf("UUIDs() of the empty set = %v", got)
	}
}

func TestJSON(t *testing.T) {
	type document struct {
		Executed Set  `json:"executed"`
		Purged   Set  `json:"purged"`
		UUID     UUID `json:"uuid"`
	}
	in := document{Executed: MustParse(uuidA + ":1-5:t:1," + uuidB + ":2"), UUID: mustUUID(uuidB)}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"executed":"` + uuidA + `:1-5:t:1,` + uuidB + `:2","purged":"","uuid":"` + uuidB + `"}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	var out document
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if !out.Executed.Equal(in.Executed) || !out.Purged.IsEmpty() || out.UUID != in.UUID {
		t.Errorf("read back %+v", out)
	}
	before := out.Executed
	if err := json.Unmarshal([]byte(`{"executed":"`+uuidA+`:0"}`), &out); err == nil {
		t.Error("a bad set was read")
	}
	if !out.Executed.Equal(before) {
		t.Errorf("a bad text changed the set to %q", out.Executed)
	}
	if err := json.Unmarshal([]byte(`{"uuid":"x"}`), &out); err == nil || out.UUID != in.UUID {
		t.Errorf("a bad UUID: %v, %v", out.UUID, err)
	}
}

func mustUUID(s string) UUID {
	u, err := ParseUUID(s)
	if err != nil {
		panic(err)
	}
	return u
}
