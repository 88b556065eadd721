// Package gtid is the algebra of MySQL's GTID sets: reading and printing them, union, difference, intersection, subset.
// It is pure: no I/O, no clock, only the standard library.
//
// A GTID names a transaction by the server that committed it first, an optional tag (since 8.3), and a number: a set of
// them is written
//
//	3e11fa47-71ca-11e1-9e33-c80aa9429562:1-33779:40000:optag:1-2
//
// which is the transactions 1 to 33779 and 40000 of that server, and 1 and 2 under the tag optag. A tag holds for all
// intervals up to the next tag or UUID. Parse takes the forms that mysqld 9.7 takes; String prints the canonical one.
// Sets are values: they do not change, may be shared, and the zero Set is empty.
//
// # Worked example
//
// A primary P dies. Before that it was primary for the whole history; A and B are its replicas.
//
//	A received  P:1-105
//	B received  P:1-108, and B:1 (somebody wrote on B by hand)
//
// Who holds everything that clients may have been told is committed? Compare only what came from recorded primaries, so
// that one stray statement does not stop the failover:
//
//	union := a.Restrict(p).Union(b.Restrict(p)) // P:1-108
//	b.Contains(union)                           // true: B holds it
//	a.Contains(union)                           // false
//	union.Subtract(a)                           // P:106-108, what A has still to fetch
//
// B:1 is errant: no other member ever had it. It is what remains of B when all that the rest knows is taken away:
//
//	b.Subtract(a.Union(union)) // B:1
//
// When P comes back with P:1-110, P.Subtract(union) is P:109-110: written to its binary log and never acknowledged,
// since no acknowledged transaction may be missing from the union (INV-1).
//
// # Cost
//
// Operations read each interval of their arguments once; ContainsGTID searches. A result shares storage with its
// arguments where it can. Parse sorts only what is not in order, and bounds its memory (MaxText, MaxIntervals).
package gtid
