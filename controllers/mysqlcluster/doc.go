// Package mysqlcluster is the cluster lane: it makes a MySQLCluster's children what its specification asks for, tells the
// topology lane what is wanted (MySQLTopology.spec), and is the only writer of MySQLCluster.status.
//
// A reconcile is a list of small steps (steps.go) over one scope: observe what is there, decide by pure functions
// (internal/desired, internal/rollout, internal/conditions), act through internal/apply, and report, always. What a person
// must correct is a problem, not an error: it becomes a condition and an Event, the steps that depend on it are left out,
// and everything that works goes on. Who is primary is not decided here.
//
// Files: setup.go wires, steps.go lists, observe.go reads; the others are steps by what they care for; status.go reports.
package mysqlcluster
