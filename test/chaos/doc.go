// Package chaos breaks a real cluster in many ways and counts what clients were told: real agents, each a process of its own,
// real mysqlds, the real decisions (internal/failover) and the real streams (internal/agentclient), without Kubernetes.
//
//   - Store is the record with compare and swap, as slow as an API server.
//   - Lane acts as controllers/topology does: snapshot, plan, record, act. Several at once are harmless, and any may be
//     killed at any point.
//   - Writers insert unique ids through what the record calls the routed primary, never one twice, and note what was
//     acknowledged.
//   - Faults (faults.go) are chosen by a seed; a round is a few of them, healing, waiting until the cluster is Healthy, and the
//     check that every instance holds every acknowledged id, once, and that all hold the same.
//
// # What is covered
//
// kill -9 of mysqlds (the primary's, a replica's, all) and of agents (mysqld dies with them, as with a container or a node; of
// one, of all), SIGTERM of the primary's agent, also while nobody acknowledges, SIGSTOP and SIGCONT of mysqlds, of agents, and of
// both (a node that nobody hears for a while and that wakes up as primary), storms of restarts, lanes that are killed in the
// middle, two lanes at once, and, as root with iptables, ports that nobody reaches and ports whose answers are lost. Up to three at
// once.
//
// What is not: full partitions between chosen pairs of instances, which need a network namespace for each, full disks, clocks that
// differ, lost volumes, switchovers, changes of the quorum by people. Those are in the simulation (test/sim) alone.
//
// Run it with `make chaos RUNS=200 SEED=…`; a few rounds are part of `make test-mysql`. ROUND=n repeats one round of a seed: the same
// faults in the same order, while the processes' timing is their own.
package chaos
