// Package v1 holds version v1 of the API group porpoise.dev: MySQLCluster, which people write, and MySQLTopology, the
// internal record of who is primary, in which epoch and with which quorum.
//
// Every field of the schema is implemented: what no code acts on yet is not here. Whatever one object alone can show to
// be wrong is refused by the API server through the CEL rules below; what needs other objects is found by the
// reconciler and becomes a condition.
//
// +kubebuilder:object:generate=true
// +groupName=porpoise.dev
package v1
