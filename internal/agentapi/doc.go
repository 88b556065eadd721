// Package agentapi is the contract between the manager and the agents: wire types, paths and error codes.
//
// Transport: HTTPS on naming.PortAgent with mutual TLS by the cluster's own CA. A status stream (newline-delimited JSON)
// carries a whole Status at each change and at least every HeartbeatInterval; commands are POSTs that carry cluster id,
// epoch and operation id. An agent refuses another cluster's commands and lower epochs, and fsyncs a higher epoch with
// its quorum and role before it acts on it (INV-3). Commands are idempotent: the same command sent again does nothing
// more and gives the same answer.
//
// The contract is versioned by Version; an agent serves the commands of managers up to two versions older.
package agentapi
