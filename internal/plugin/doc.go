// Package plugin is the person's tool, `kubectl porpoise`: what it prints, and how it finds out.
//
// It works with the rights of who calls it. `status` reads the cluster's objects, then asks the agents for what moves
// with every commit (GTID sets, lag), which the API server never holds. The agents want a client certificate: it is read
// from the Secret NAME-viewer-tls, lets its holder read and never command, and is used through port-forwards. Who may not
// read the Secret or forward ports gets everything else and a line that names the missing right.
//
// `switchover` and `failover` write an annotation of the MySQLCluster, upon the very object that was checked, and follow what
// the operator reports. What is known to be refused is not asked for; a request that nobody took up is withdrawn.
//
// The pieces: gather.go and agents.go do the I/O and fill a [Sources]; [Build] is pure and makes a [Report] of it, which
// is what `-o json` prints; render.go lays it out for people; request.go, switchover.go
// and failover.go ask for something. Text that comes from the cluster is stripped of control
// characters before it reaches a terminal.
package plugin
