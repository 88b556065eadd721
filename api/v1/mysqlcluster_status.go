package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterPhase says in one word how a MySQLCluster is.
type ClusterPhase string

const (
	// PhasePending means: accepted, nothing created yet, or its preconditions do not hold.
	PhasePending ClusterPhase = "Pending"
	// PhaseCreating means: instances are being made; it was never ready before.
	PhaseCreating ClusterPhase = "Creating"
	// PhaseRunning means: a primary takes writes and every wanted instance follows.
	PhaseRunning ClusterPhase = "Running"
	// PhaseDegraded means: a primary takes writes, but some instance is missing or does not follow.
	PhaseDegraded ClusterPhase = "Degraded"
	// PhaseFailingOver means: the primary is lost, and another instance is taking its place.
	PhaseFailingOver ClusterPhase = "FailingOver"
	// PhaseSwitchingOver means: the primary is handing over to another instance.
	PhaseSwitchingOver ClusterPhase = "SwitchingOver"
	// PhaseUpdating means: a change of the specification is rolling through the instances.
	PhaseUpdating ClusterPhase = "Updating"
	// PhaseBlocked means: no primary takes writes; condition WritesBlocked says why.
	PhaseBlocked ClusterPhase = "Blocked"
	// PhaseUnknown means: agents do not answer, so that nobody can tell whether commits are acknowledged.
	PhaseUnknown ClusterPhase = "Unknown"
	// PhaseDeleting means: the object is being deleted.
	PhaseDeleting ClusterPhase = "Deleting"
)

// Condition types of a MySQLCluster. Polarity: the abnormal ones are WritesBlocked, Progressing (while a change is under
// way) and Stalled; all others are good when True.
const (
	// ConditionReady: a primary takes writes and the quorum that acknowledges them is complete.
	ConditionReady = "Ready"
	// ConditionPrimaryAvailable: an instance is primary and writable.
	ConditionPrimaryAvailable = "PrimaryAvailable"
	// ConditionReplicating: every replica follows the primary.
	ConditionReplicating = "Replicating"
	// ConditionQuorumHealthy: at least as many members can acknowledge as a commit waits for.
	ConditionQuorumHealthy = "QuorumHealthy"
	// ConditionFailoverReady: if the primary were lost now, another instance could take its place without losing anything.
	ConditionFailoverReady = "FailoverReady"
	// ConditionWritesBlocked: no commit can be acknowledged now; its message says why and what ends it.
	ConditionWritesBlocked = "WritesBlocked"
	// ConditionProgressing: instances are being created, removed or changed.
	ConditionProgressing = "Progressing"
	// ConditionCertificatesValid: every certificate is present, trusted and not about to expire.
	ConditionCertificatesValid = "CertificatesValid"
	// ConditionStalled: the operator cannot go on without a person; the message names the field or object to correct.
	ConditionStalled = "Stalled"
)

// MySQLClusterStatus is what the operator observes. It holds what changes on events, never what changes per commit.
type MySQLClusterStatus struct {
	// ObservedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase in one word: Pending, Creating, Running, Degraded, FailingOver, SwitchingOver, Updating, Blocked, Unknown or
	// Deleting.
	// +optional
	Phase ClusterPhase `json:"phase,omitempty"`

	// Ready equals condition Ready.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// Replicas is the number of instances that exist.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// ReadyReplicas is the number of instances that serve in their role.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// Selector finds the instances' pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Image is the image that the target revision runs.
	// +optional
	Image string `json:"image,omitempty"`

	// Topology mirrors the MySQLTopology of the same name.
	// +optional
	Topology TopologySummary `json:"topology,omitempty"`

	// Switchover is what became of the last one that was asked for by the annotation porpoise.dev/switchover; its id is the
	// annotation's value.
	// +optional
	Switchover *SwitchoverStatus `json:"switchover,omitempty"`

	// Version of the newest mysqld that has run on the data, e.g. 9.7.4; empty: none has.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,3}$`
	// +kubebuilder:validation:MaxLength=9
	Version string `json:"version,omitempty"`

	// Instances lists the instances by ordinal.
	// +optional
	// +listType=map
	// +listMapKey=name
	Instances []InstanceStatus `json:"instances,omitempty"`

	// Revisions say which shape the instances have and should have.
	// +optional
	Revisions Revisions `json:"revisions,omitempty"`

	// Conditions: Ready, PrimaryAvailable, Replicating, QuorumHealthy, FailoverReady, WritesBlocked, Progressing,
	// CertificatesValid, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TopologySummary mirrors the record of the topology.
type TopologySummary struct {
	// Primary is the name of the primary instance.
	// +optional
	Primary string `json:"primary,omitempty"`

	// Epoch of the primary; it grows with every change of primary.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// RequiredAcks is how many members must acknowledge a commit now.
	// +optional
	RequiredAcks int32 `json:"requiredAcks,omitempty"`

	// Members are the names of the instances whose acknowledgement counts.
	// +optional
	// +listType=set
	Members []string `json:"members,omitempty"`
}

// InstanceStatus describes one instance.
type InstanceStatus struct {
	// Name of the instance, CLUSTER-ORDINAL.
	Name string `json:"name"`

	// Role that the record gives it.
	// +optional
	Role InstanceRole `json:"role,omitempty"`

	// State in one word.
	// +optional
	State InstanceState `json:"state,omitempty"`

	// Revision that its pod runs.
	// +optional
	Revision string `json:"revision,omitempty"`

	// Version of its mysqld.
	// +optional
	Version string `json:"version,omitempty"`

	// Node that its pod is on.
	// +optional
	Node string `json:"node,omitempty"`

	// Message says why it is not Running.
	// +optional
	Message string `json:"message,omitempty"`
}

// Revisions name shapes of an instance by hash.
type Revisions struct {
	// Stable is the last revision that every instance ran while the cluster was ready.
	// +optional
	Stable string `json:"stable,omitempty"`

	// Target is the revision that the spec asks for.
	// +optional
	Target string `json:"target,omitempty"`
}
