// Package fakeagent is a cluster of agents in one process: it speaks internal/agentapi over HTTPS and stands on a small
// model of mysqld instead of a real one. Controller tests, the simulation and the benchmark with hundreds of clusters
// use it.
//
// The model keeps what decisions rest on: what each instance has in its binary log, executed, received and purged; commits
// that wait for acknowledgements and from whom they came; semi-sync by membership; a boot that is always read-only and
// without replication; transactions that wait for an acknowledgement becoming visible after a crash; volumes that outlive
// pods and agents. Time is injected, so that the simulation decides when things end.
package fakeagent
