package gtid

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzParse: whatever is read prints canonically, reads back as itself and keeps the invariants.
func FuzzParse(f *testing.F) {
	for _, tc := range acceptedTexts {
		f.Add(tc.text)
	}
	for _, tc := range refusedTexts {
		f.Add(tc.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse(text)
		if err != nil {
			if !set.IsEmpty() {
				t.Fatalf("Parse(%q) = %q beside %v", text, set, err)
			}
			return
		}
		checkInvariants(t, set)
		printed := set.String()
		again, err := Parse(printed)
		if err != nil || !again.Equal(set) || again.String() != printed {
			t.Fatalf("Parse(%q) prints %q, which reads as %q, %v", text, printed, again, err)
		}
		// Reading is a union: a text twice, or in another letter case, is the same set.
		for _, same := range []string{text + "," + text, strings.ToUpper(text)} {
			if set2, err := Parse(same); err != nil || !set2.Equal(set) {
				t.Fatalf("Parse(%q) = %q, %v; want %q", same, set2, err, set)
			}
		}
	})
}

// FuzzAlgebra compares every operation with the plainest model there is: a Go map of GTIDs.
func FuzzAlgebra(f *testing.F) {
	for _, seed := range algebraSeeds {
		f.Add(seed.x, seed.y)
	}
	f.Fuzz(func(t *testing.T, xRecipe, yRecipe []byte) {
		x, xModel := build(xRecipe)
		y, yModel := build(yRecipe)
		checkAgainstModel(t, "x", x, xModel)
		checkAgainstModel(t, "y", y, yModel)
		checkOperations(t, x, y, xModel, yModel)
		checkLaws(t, x, y)
		checkAgainstModel(t, "x afterwards", x, xModel)
		checkAgainstModel(t, "y afterwards", y, yModel)
	})
}

var algebraSeeds = []struct{ x, y []byte }{
	{nil, nil},
	{[]byte{0, 1, 5}, nil},
	{[]byte{0, 1, 5}, []byte{0, 3, 5}},
	{[]byte{0, 1, 20}, []byte{0, 5, 1, 0, 9, 2, 0, 14, 1}},
	{[]byte{0, 1, 3, 1, 1, 3, 2, 1, 3}, []byte{1, 2, 2, 3, 1, 1, 4, 1, 9}},
	{[]byte{8, 30, 9, 8, 1, 9, 7, 10, 1, 7, 12, 1, 7, 11, 1}, []byte{6, 1, 1, 7, 1, 31, 8, 8, 24}},
	{[]byte{5, 5, 0, 5, 9, 1}, []byte{5, 9, 1}},
}

// universe is small, so that sets collide often: three servers, two of them alike up to the last byte, with three tags.
var universe = func() (keys []key) {
	for _, text := range []string{uuidA, uuidA[:35] + "3", uuidB} {
		for _, tag := range []string{"", "a", "a_1"} {
			keys = append(keys, key{uuid: mustUUID(text), tag: tag})
		}
	}
	return keys
}()

const universeNumbers = 40

type modelGTID struct {
	key
	n int64
}

type model map[modelGTID]bool

// build makes a set and its model out of triples of bytes: which key, first number, how many numbers.
func build(recipe []byte) (Set, model) {
	var text strings.Builder
	m := model{}
	for ; len(recipe) >= 3; recipe = recipe[3:] {
		k := universe[int(recipe[0])%len(universe)]
		first := int64(recipe[1])%universeNumbers + 1
		last := min(first+int64(recipe[2])%universeNumbers-1, universeNumbers)
		tag := k.tag
		if tag != "" {
			tag += ":"
		}
		fmt.Fprintf(&text, ",%s:%s%d-%d", k.uuid, tag, first, last)
		for n := first; n <= last; n++ {
			m[modelGTID{k, n}] = true
		}
	}
	return MustParse(text.String()), m
}

func checkAgainstModel(t *testing.T, what string, s Set, m model) {
	t.Helper()
	checkInvariants(t, s)
	if s.Count() != uint64(len(m)) {
		t.Errorf("%s: Count of %q is %d, want %d", what, s, s.Count(), len(m))
	}
	var uuids []UUID
	for _, k := range universe {
		for n := int64(0); n <= universeNumbers+1; n++ {
			want := m[modelGTID{k, n}]
			if got := s.ContainsGTID(k.uuid, k.tag, n); got != want {
				t.Errorf("%s: %q contains %s:%s:%d: %v", what, s, k.uuid, k.tag, n, got)
			}
			if want && !slices.Contains(uuids, k.uuid) {
				uuids = append(uuids, k.uuid)
			}
		}
	}
	if !slices.Equal(s.UUIDs(), uuids) {
		t.Errorf("%s: UUIDs of %q are %v, want %v", what, s, s.UUIDs(), uuids)
	}
}

func checkOperations(t *testing.T, x, y Set, xModel, yModel model) {
	t.Helper()
	union, minus, both, restricted := model{}, model{}, model{}, model{}
	subset := true
	only := universe[0].uuid
	for g := range xModel {
		union[g] = true
		if yModel[g] {
			both[g] = true
		} else {
			minus[g] = true
			subset = false
		}
		if g.uuid == only {
			restricted[g] = true
		}
	}
	for g := range yModel {
		union[g] = true
	}
	checkAgainstModel(t, "union", x.Union(y), union)
	checkAgainstModel(t, "subtract", x.Subtract(y), minus)
	checkAgainstModel(t, "intersect", x.Intersect(y), both)
	checkAgainstModel(t, "restrict", x.Restrict(only), restricted)
	if got := y.Contains(x); got != subset {
		t.Errorf("%q contains %q: %v", y, x, got)
	}
	if got, want := x.Equal(y), subset && len(xModel) == len(yModel); got != want {
		t.Errorf("%q equal to %q: %v", x, y, got)
	}
}

func checkLaws(t *testing.T, x, y Set) {
	t.Helper()
	union, both := x.Union(y), x.Intersect(y)
	for _, law := range []struct {
		name  string
		holds bool
	}{
		{"union commutes", union.Equal(y.Union(x))},
		{"intersection commutes", both.Equal(y.Intersect(x))},
		{"union is the parts", x.Subtract(y).Union(y.Subtract(x)).Union(both).Equal(union)},
		{"x-y and y are apart", x.Subtract(y).Intersect(y).IsEmpty()},
		{"x-(x-y) is the intersection", x.Subtract(x.Subtract(y)).Equal(both)},
		{"absorption", x.Union(both).Equal(x) && x.Intersect(union).Equal(x)},
		{"idempotence", x.Union(x).Equal(x) && x.Intersect(x).Equal(x) && x.Subtract(x).IsEmpty()},
		{"union contains both", union.Contains(x) && union.Contains(y)},
		{"intersection is in both", x.Contains(both) && y.Contains(both)},
		{"contains means nothing is missing", y.Contains(x) == x.Subtract(y).IsEmpty()},
		{"union means nothing to add", y.Contains(x) == x.Union(y).Equal(y)},
		{"equal means both contain", x.Equal(y) == (x.Contains(y) && y.Contains(x))},
		{"equal means printed alike", x.Equal(y) == (x.String() == y.String())},
		{"reads back", MustParse(union.String()).Equal(union)},
	} {
		if !law.holds {
			t.Errorf("law broken: %s; x=%q y=%q", law.name, x, y)
		}
	}
}
