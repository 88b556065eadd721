// Package rollout decides how a changed revision reaches the instances of one cluster, one at a time. It is pure: the
// caller observes, asks Plan, and carries out what it answers.
//
// A worked example. Three instances run revision a, orders-0 is primary, and the target becomes b:
//
//	restarting: orders-1        the topology lane takes it out of the quorum and answers restartReady: orders-1
//	update orders-1             its template becomes b
//	delete the pod of orders-1  it comes back as b
//	restarting: ""              once it serves again; it becomes a member
//	restarting: orders-2 …      the same, after orders-1 is a member
//	restarting: orders-0 …      the primary is last; the topology lane makes another one primary before it answers
//
// An instance that is broken already is not waited for and needs no permission: it gets the target at once, so that a
// corrected specification never waits for a pod that cannot become ready. Its volume stays, so that nothing it has
// acknowledged is lost.
package rollout
