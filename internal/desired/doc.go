// Package desired builds the objects that a MySQLCluster should have: one pure function per child, returning a typed
// apply configuration that holds exactly the fields the cluster lane owns. It does no I/O, reads no clock and draws no
// random numbers; what comes from outside (keys, passwords, the resolved image) is in its arguments.
//
// What shapes an instance is a Shape, and the Shape's hash is the instance's revision. Each instance is built from the
// Shape of its own revision, so that changing the specification changes one instance at a time while the others can
// still be recreated exactly as they are. The image of the agent and the role label are outside the Shape: neither an
// upgrade of the operator nor a change of primary restarts a database.
//
// Golden files in testdata show every object; `go test ./internal/desired -update` rewrites them.
package desired
