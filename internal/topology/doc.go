// Package topology describes what is known of a cluster's instances at one moment and classifies it. It is pure: a
// Snapshot comes in, facts go out.
//
// A Fact is true, false or unknown. Unknown is the answer whenever the agent does not answer, and is never turned into a
// no (INV-5): what must not be done on missing evidence asks for True or for False, never for "not True".
//
// # Worked example
//
// orders-0 is primary and executed P:1-100. orders-1 executed P:1-90 and received P:1-100; orders-2 executed P:1-100 and
// B:1, which somebody wrote there by hand; orders-3 does not answer.
//
//	CaughtUp(orders-1, orders-0)   True     all that the primary had executed has been received
//	Errant(orders-1, orders-0)     False
//	Errant(orders-2, orders-0)     True     B:1, provided that the primary was sampled after orders-2
//	CaughtUp(orders-3, orders-0)   Unknown
//
// Transactions of the primary's own UUID are never errant on a replica of it: while a commit waits for a further
// acknowledgement the replica may hold, and have executed, what the primary has not yet made visible.
package topology
