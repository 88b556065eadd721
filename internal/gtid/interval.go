package gtid

import (
	"cmp"
	"slices"
)

// interval is the numbers from start up to, not including, end; start < end. MaxNumber+1 fits an int64, so end never
// overflows.
type interval struct {
	start, end int64
}

// Lists of intervals are sorted, disjoint and not adjacent: there is a gap between any two, so that equal sets have
// equal lists. Every function below keeps that, reads each list once, and never writes to its arguments.

func unionIntervals(a, b []interval) []interval {
	out := make([]interval, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		var next interval
		if len(b) == 0 || len(a) > 0 && a[0].start <= b[0].start {
			next, a = a[0], a[1:]
		} else {
			next, b = b[0], b[1:]
		}
		out = appendJoined(out, next)
	}
	return out
}

// appendJoined appends next, whose start is not below that of any in list, and joins it with the last if they touch.
func appendJoined(list []interval, next interval) []interval {
	if n := len(list); n > 0 && next.start <= list[n-1].end {
		list[n-1].end = max(list[n-1].end, next.end)
		return list
	}
	return append(list, next)
}

func subtractIntervals(a, b []interval) []interval {
	var out []interval
	for _, left := range a {
		for len(b) > 0 && b[0].end <= left.start {
			b = b[1:]
		}
		// Those that end within left are used up; the last may reach into the next of a and stays.
		for len(b) > 0 && b[0].start < left.end {
			if left.start < b[0].start {
				out = append(out, interval{left.start, b[0].start})
			}
			left.start = b[0].end
			if b[0].end >= left.end {
				break
			}
			b = b[1:]
		}
		if left.start < left.end {
			out = append(out, left)
		}
	}
	return out
}

func intersectIntervals(a, b []interval) []interval {
	var out []interval
	for len(a) > 0 && len(b) > 0 {
		start, end := max(a[0].start, b[0].start), min(a[0].end, b[0].end)
		if start < end {
			out = append(out, interval{start, end})
		}
		if a[0].end <= b[0].end {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// containsIntervals says whether every number in sub is in list.
func containsIntervals(list, sub []interval) bool {
	for _, want := range sub {
		for len(list) > 0 && list[0].end < want.end {
			list = list[1:]
		}
		if len(list) == 0 || want.start < list[0].start {
			return false
		}
	}
	return true
}

func containsNumber(list []interval, n int64) bool {
	i, found := slices.BinarySearchFunc(list, n, func(iv interval, n int64) int { return cmp.Compare(iv.start, n) })
	return found || i > 0 && n < list[i-1].end
}
