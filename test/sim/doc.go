// Package sim runs the topology lane's decisions (internal/failover) against the model of agents and mysqlds in
// test/fakeagent, with the order, delay and loss of everything chosen by a seeded source of chance: documents that arrive
// late, commands that are lost, repeated or overtaken, two managers with old records, crashes, lost pods, changed wishes.
// After every step the invariants are checked; after the faults the cluster must settle. A failure prints the seed and the
// trace that led to it.
package sim
