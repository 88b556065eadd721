// Command bench makes the figures of docs/benchmarks.md, each by a command of its own:
//
//	create      from apply to Ready, with a breakdown
//	fleet       memory and CPU of the manager with hundreds of clusters on fake agents
//	quiet       API writes in a quiet minute under write load; memory and CPU of the manager with one real cluster
//	durability  throughput with and without the settings that make commits survive
//	failover    a crash of the primary, and a switchover, through the Service of a local Kubernetes
//	failover-agents  the crash on agents and mysqlds alone, with a breakdown
//	all         everything, as `make bench-create` does
//	docs        write what was measured last into docs/benchmarks.md
//
// Each prints a table and writes bin/bench/FIGURE.json. Measuring and showing are apart: internal/figure knows nothing of
// what was measured.
package main
