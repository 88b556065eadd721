// Command manager runs both lanes of the operator in one process: the topology lane (who is primary) and the cluster lane
// (which objects exist). Each lane is a controller-runtime manager of its own, with its own Lease, cache and budget of API
// calls, so that a failover never waits behind ordinary work.
package main
