// Package topology is the fast lane: it decides who is primary and who may acknowledge, and writes nothing but
// MySQLTopology.status and two labels on pods.
//
// It reads MySQLTopology, pods and the agents' streams; it never reads a MySQLCluster and never waits for the other lane.
// A reconcile is the list of steps in steps.go: load the record, keep the streams, observe, decide (internal/failover,
// pure), record by compare and swap, act, label. It is triggered by watches and by documents of agents that differ in
// more than sets of transactions, so a cluster under write load without events costs no reconcile and no API write.
//
// Commands run outside of Reconcile, at most one per instance: a stuck instance does not hold the others.
package topology

// RBAC of this lane, and no more.
//
// +kubebuilder:rbac:groups=porpoise.dev,resources=mysqltopologies,verbs=get;list;watch
// +kubebuilder:rbac:groups=porpoise.dev,resources=mysqltopologies/status,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
