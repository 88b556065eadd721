// Command demo shows what Porpoise does, on a real Kubernetes: `make demo`.
//
// It brings up a local Kubernetes (or takes that of KUBECONFIG), installs the operator, makes a MySQLCluster of three
// instances from one small object, writes rows through the read-write Service, reads them through the read-only one,
// deletes a replica's pod while writes go on, and shows the replica back with every row. Each step is printed with the
// time at which it happened and how long it took. `make demo-down` removes everything again.
package main
