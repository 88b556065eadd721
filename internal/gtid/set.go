package gtid

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Set is a set of GTIDs. The zero value is the empty set. A Set never changes once made (only UnmarshalText replaces
// one), so values can be copied, shared between goroutines and kept; compare them with Equal, not with ==.
type Set struct {
	// parts is sorted by key without duplicates; no part is empty; nil if the set is empty.
	parts []part
}

// key is what numbers a sequence of transactions: a server and, since 8.3, a tag.
type key struct {
	uuid UUID
	tag  string // lower case; empty for GTIDs without a tag
}

// compare is the server's order: by UUID, then without a tag first, then by tag.
func (k key) compare(other key) int {
	return cmp.Or(k.uuid.Compare(other.uuid), cmp.Compare(k.tag, other.tag))
}

type part struct {
	key
	intervals []interval
}

// span is one interval of one key, as written in a text.
type span struct {
	key
	interval
}

// normalize sorts and joins spans; it may reorder its argument.
func normalize(spans []span) Set {
	byKeyThenStart := func(a, b span) int { return cmp.Or(a.compare(b.key), cmp.Compare(a.start, b.start)) }
	if !slices.IsSortedFunc(spans, byKeyThenStart) {
		slices.SortFunc(spans, byKeyThenStart)
	}
	keys := 0
	for i := range spans {
		if i == 0 || spans[i].key != spans[i-1].key {
			keys++
		}
	}
	if keys == 0 {
		return Set{}
	}
	s := Set{parts: make([]part, 0, keys)}
	for len(spans) > 0 {
		k, n := spans[0].key, 1
		for n < len(spans) && spans[n].key == k {
			n++
		}
		list := make([]interval, 0, n)
		for _, sp := range spans[:n] {
			list = appendJoined(list, sp.interval)
		}
		// Clip, so that text full of overlaps does not leave a small set in a large array.
		s.parts = append(s.parts, part{key: k, intervals: slices.Clip(list)})
		spans = spans[n:]
	}
	return s
}

// String prints s as the server does, sorted and in the shortest form, except that UUIDs are separated by a comma alone
// and not by a comma and a newline: one line fits logs, annotations and SQL literals, and the server reads both.
// The empty set is "".
func (s Set) String() string {
	return string(s.append(nil))
}

func (s Set) append(dst []byte) []byte {
	for i, p := range s.parts {
		if i == 0 || s.parts[i-1].uuid != p.uuid {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = p.uuid.append(dst)
		}
		if p.tag != "" {
			dst = append(append(dst, ':'), p.tag...)
		}
		for _, iv := range p.intervals {
			dst = strconv.AppendInt(append(dst, ':'), iv.start, 10)
			if last := iv.end - 1; last > iv.start {
				dst = strconv.AppendInt(append(dst, '-'), last, 10)
			}
		}
	}
	return dst
}

// MarshalText makes a Set a string in JSON and YAML, as String prints it.
func (s Set) MarshalText() ([]byte, error) {
	return s.append([]byte{}), nil
}

// UnmarshalText is Parse; on an error s stays as it is.
func (s *Set) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// IsEmpty says whether s holds no GTID.
func (s Set) IsEmpty() bool {
	return len(s.parts) == 0
}

// Equal says whether s and other hold the same GTIDs.
func (s Set) Equal(other Set) bool {
	return slices.EqualFunc(s.parts, other.parts, func(a, b part) bool {
		return a.key == b.key && slices.Equal(a.intervals, b.intervals)
	})
}

// Union returns the GTIDs that are in s, in other or in both.
func (s Set) Union(other Set) Set {
	var out Set
	merge(s.parts, other.parts, func(k key, a, b []interval) bool {
		switch {
		case len(b) == 0:
			out.add(k, a)
		case len(a) == 0:
			out.add(k, b)
		default:
			out.add(k, unionIntervals(a, b))
		}
		return true
	})
	return out
}

// Subtract returns the GTIDs that are in s and not in other; GTID_SUBTRACT(s, other) on the server.
func (s Set) Subtract(other Set) Set {
	var out Set
	merge(s.parts, other.parts, func(k key, a, b []interval) bool {
		if len(b) == 0 {
			out.add(k, a)
		} else {
			out.add(k, subtractIntervals(a, b))
		}
		return true
	})
	return out
}

// Intersect returns the GTIDs that are both in s and in other.
func (s Set) Intersect(other Set) Set {
	var out Set
	merge(s.parts, other.parts, func(k key, a, b []interval) bool {
		out.add(k, intersectIntervals(a, b))
		return true
	})
	return out
}

// Contains says whether every GTID of sub is in s; GTID_SUBSET(sub, s) on the server, with the arguments the other way
// round. Every set contains the empty set.
func (s Set) Contains(sub Set) bool {
	return merge(s.parts, sub.parts, func(_ key, a, b []interval) bool {
		return containsIntervals(a, b)
	})
}

// ContainsGTID says whether the transaction with number n, committed first on server uuid under tag ("" for none, any
// case), is in s.
func (s Set) ContainsGTID(uuid UUID, tag string, n int64) bool {
	want := key{uuid: uuid, tag: strings.ToLower(tag)}
	i, found := slices.BinarySearchFunc(s.parts, want, func(p part, k key) int { return p.compare(k) })
	return found && containsNumber(s.parts[i].intervals, n)
}

// Count returns the number of GTIDs in s; math.MaxUint64 if there are more than that.
func (s Set) Count() uint64 {
	var total uint64
	for _, p := range s.parts {
		for _, iv := range p.intervals {
			n := uint64(iv.end - iv.start)
			if total > math.MaxUint64-n {
				return math.MaxUint64
			}
			total += n
		}
	}
	return total
}

// Restrict returns the GTIDs of s that were first committed on one of the given servers, under any tag.
func (s Set) Restrict(uuids ...UUID) Set {
	wanted := make(map[UUID]struct{}, len(uuids))
	for _, u := range uuids {
		wanted[u] = struct{}{}
	}
	var out Set
	for _, p := range s.parts {
		if _, ok := wanted[p.uuid]; ok {
			out.parts = append(out.parts, p)
		}
	}
	return out
}

// UUIDs returns the servers on which the GTIDs of s were first committed, sorted, each once.
func (s Set) UUIDs() []UUID {
	var out []UUID
	for i, p := range s.parts {
		if i == 0 || s.parts[i-1].uuid != p.uuid {
			out = append(out, p.uuid)
		}
	}
	return out
}

// add appends a part to a set that is being made; k is above all keys of s. Sets share lists: nothing writes to them.
func (s *Set) add(k key, list []interval) {
	if len(list) > 0 {
		s.parts = append(s.parts, part{key: k, intervals: list})
	}
}

// merge calls visit for each key of a or b, in order, with its intervals in both (nil where there are none), until
// visit returns false; it says whether every call returned true.
func merge(a, b []part, visit func(k key, a, b []interval) bool) bool {
	for len(a) > 0 || len(b) > 0 {
		var order int
		switch {
		case len(b) == 0:
			order = -1
		case len(a) == 0:
			order = 1
		default:
			order = a[0].compare(b[0].key)
		}
		var k key
		var left, right []interval
		if order <= 0 {
			k, left, a = a[0].key, a[0].intervals, a[1:]
		}
		if order >= 0 {
			k, right, b = b[0].key, b[0].intervals, b[1:]
		}
		if !visit(k, left, right) {
			return false
		}
	}
	return true
}
