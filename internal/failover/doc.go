// Package failover decides what the topology lane does next. It is pure: a Snapshot, the record and the time come in, a
// Decision comes out; nothing is done here.
//
// The state machine is the table in table.go: per phase an ordered list of rows; the first row whose guards all hold is
// taken, and the last row of each phase has none. A row names the next phase, the steps to take and the reason that people
// read. Guards are named predicates (guards.go), steps edit the record or emit commands for agents (steps.go). The record
// of a Decision is written by compare and swap before its actions are executed (INV-6).
//
// # Worked example: the second instance of a new cluster is admitted and clients are let in
//
// The record has epoch 1, primary orders-0, quorum {generation 1, acks 0, no members}; acks 1 is wanted. orders-1 follows
// and has received everything that orders-0 had executed.
//
//	pass  row                                  what happens
//	1     Bootstrapping/quorum-record          record {generation 2, acks 0, [orders-1]}: it may count from now on
//	2     Bootstrapping/quorum-act             SetQuorum {3, acks 1, [orders-1]} on orders-0: raising is done first
//	3     Bootstrapping/quorum-barrier-waits   orders-0 must show those settings, then its executed set must be held
//	                                           by 1 member
//	4     Bootstrapping/open-at-barrier        record {3, acks 1, [orders-1]}, routed, phase Stable: clients are let in
//
// If the manager dies between any two passes the next one comes to the same row from the same facts.
//
// # Worked example: mysqld of the primary is killed
//
// The record has epoch 1, primary orders-0, quorum {generation 3, acks 1, [orders-1 orders-2]}. orders-0's agent reports that
// mysqld ended; orders-1 and orders-2 answer, and orders-1 has received everything that either has.
//
//	pass  row                            what happens
//	1     Stable/fail-over               record epoch 2, Fencing: nobody is primary in it
//	2     Fencing/fence                  Fence to orders-1 and orders-2, Demote to orders-0
//	3     Fencing/elect                  both confirmed, and 2 + 1 > 2: nothing acknowledged can be missing. Record epoch 3,
//	                                     primary orders-1, generation 4, the seats as they were
//	4     Promoting/promote              Promote to orders-1, Follow to orders-2
//	5     Promoting/opened               record Stable; Follow to orders-0, which cuts off what nobody acknowledged
//	6     Stable/quorum-act              SetQuorum {5, acks 1, [orders-2]} on orders-1: its own seat is to go
//	7     Stable/quorum-barrier-passed   orders-2 holds what orders-1 had executed: record it
//	8     Stable/quorum-record           orders-0 has caught up: it may count from now on
//
// More such stories, as they are decided, are in testdata.
//
// # The pessimistic record
//
// INV-4 needs, for every quorum that may have been in force, that confirmations and acknowledgements overlap. So the
// recorded quorum never has fewer members, nor more required acks, than one in force (quorum.go): adding a member and
// lowering acks are recorded and then done; removing a member and raising acks are done, then a barrier is waited for (the
// primary's executed set, sampled while the new settings were in force, is held by the newly required number of members),
// then recorded. A member that was rebuilt keeps its old seat until then: a seat whose holder is gone can confirm nothing,
// so it only makes a promotion harder, never wrong.
package failover

//go:generate go test . -run TestDiagramIsFresh -update
