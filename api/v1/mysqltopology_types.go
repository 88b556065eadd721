package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MySQLTopology is the internal record of a MySQLCluster's topology: epoch, primary, quorum and the operation in
// progress. People read it and never write it. It has one version, no webhook and no conversion, so that deciding who
// is primary depends on nothing else. Its spec is written by the cluster lane alone, its status by the topology lane
// alone, by compare and swap on resourceVersion.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mysqltopologies,scope=Namespaced,shortName=mytopo,categories=porpoise
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=".status.primary"
// +kubebuilder:printcolumn:name="Epoch",type=integer,JSONPath=".status.epoch"
// +kubebuilder:printcolumn:name="Acks",type=integer,JSONPath=".status.quorum.requiredAcks"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.reason"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type MySQLTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the cluster lane wants.
	// +required
	Spec MySQLTopologySpec `json:"spec"`

	// Status is the record.
	// +optional
	Status MySQLTopologyStatus `json:"status,omitempty"`
}

// MySQLTopologyList is a list of MySQLTopology objects.
//
// +kubebuilder:object:root=true
type MySQLTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MySQLTopology `json:"items"`
}

// MySQLTopologySpec is what the cluster lane wants of the topology.
type MySQLTopologySpec struct {
	// ClusterID names the data: every volume belongs to one cluster id, and agents refuse commands for another. It is
	// the UID of the MySQLCluster that first made the volumes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterID: cannot be changed"
	ClusterID string `json:"clusterID"`

	// Acks is the wanted number of acknowledgements per commit, 0 to 9.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9
	Acks int32 `json:"acks,omitempty"`

	// Instances are the names of the wanted instances, by ordinal. An instance that leaves this list is removed from
	// the quorum before its objects are deleted.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Instances []string `json:"instances"`

	// Restarting names the instance whose pod the cluster lane is about to replace. It leaves the quorum first.
	// +optional
	Restarting string `json:"restarting,omitempty"`

	// Switchover asks for another primary while the present one serves. One request is carried out or refused once.
	// +optional
	Switchover *SwitchoverRequest `json:"switchover,omitempty"`

	// AcceptDataLoss says that a failover is to go on though acknowledged commits may be lost by it. It counts for one failover,
	// within ten minutes from its time.
	// +optional
	AcceptDataLoss *DataLossAcceptance `json:"acceptDataLoss,omitempty"`

	// Failover says when a lost primary is replaced.
	// +optional
	Failover TopologyFailover `json:"failover,omitempty"`

	// Suspend makes the topology lane observe but not act.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// SwitchoverRequest asks for another primary.
type SwitchoverRequest struct {
	// ID tells requests apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`

	// To is the instance that is to be primary; empty: the one that fits best.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	To string `json:"to,omitempty"`
}

// DataLossAcceptance says who accepts the loss of acknowledged commits.
type DataLossAcceptance struct {
	// ID tells acceptances apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`

	// By is who accepts it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	By string `json:"by"`

	// At is when.
	// +required
	At metav1.Time `json:"at"`
}

// SwitchoverState says how far a request is.
//
// +kubebuilder:validation:Enum=Running;Done;Refused;RolledBack
type SwitchoverState string

const (
	// SwitchoverRunning means: writes are being handed over.
	SwitchoverRunning SwitchoverState = "Running"
	// SwitchoverDone means: another instance is primary.
	SwitchoverDone SwitchoverState = "Done"
	// SwitchoverRefused means: nothing was done, the message says why.
	SwitchoverRefused SwitchoverState = "Refused"
	// SwitchoverRolledBack means: it was given up, and the former primary is primary again.
	SwitchoverRolledBack SwitchoverState = "RolledBack"
)

// SwitchoverStatus is what became of the last request.
type SwitchoverStatus struct {
	// ID of the request.
	ID string `json:"id"`

	// State of the request.
	State SwitchoverState `json:"state"`

	// Message for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// TopologyFailover says when a lost primary is replaced.
type TopologyFailover struct {
	// Manual is true when the operator is not to do so by itself: a lost primary is brought back in place.
	// +optional
	Manual bool `json:"manual,omitempty"`

	// HoldErrant is true when an instance with transactions of its own is to be left for a person; else they are saved and
	// the instance is rebuilt.
	// +optional
	HoldErrant bool `json:"holdErrant,omitempty"`

	// MaxFailovers within ten minutes; after that the primary is brought back in place. 0: the default, 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxFailovers int32 `json:"maxFailovers,omitempty"`
}

// TopologyPhase is the phase of the topology's state machine.
//
// +kubebuilder:validation:Enum=Bootstrapping;Adopting;Stable;Draining;Fencing;Promoting;Recovering;Blocked
type TopologyPhase string

const (
	// TopologyBootstrapping means: the first primary is being made; no client has been let in yet.
	TopologyBootstrapping TopologyPhase = "Bootstrapping"
	// TopologyAdopting means: the record is being made anew from the volumes; every agent is told of a new epoch first.
	TopologyAdopting TopologyPhase = "Adopting"
	// TopologyStable means: there is a primary.
	TopologyStable TopologyPhase = "Stable"
	// TopologyDraining means: a switchover; the primary ends its writes, and the target is to have received and applied all.
	TopologyDraining TopologyPhase = "Draining"
	// TopologyFencing means: the primary is lost; the others stop receiving, so that it can acknowledge nothing more, and
	// then show what they hold. Nobody is primary in such an epoch; status.primary still names the one that was.
	TopologyFencing TopologyPhase = "Fencing"
	// TopologyPromoting means: another primary was chosen and is being opened.
	TopologyPromoting TopologyPhase = "Promoting"
	// TopologyRecovering means: the primary does not take writes and is being brought back in place.
	TopologyRecovering TopologyPhase = "Recovering"
	// TopologyBlocked means: going on would risk data; reason and message say what is missing.
	TopologyBlocked TopologyPhase = "Blocked"
)

// MySQLTopologyStatus is the record. Whatever is about to be done stands here before it is done (INV-6).
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.epoch) || (has(self.epoch) && self.epoch >= oldSelf.epoch)",message="status.epoch: may not fall (INV-3)"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.quorum) || (has(self.quorum) && self.quorum.generation >= oldSelf.quorum.generation)",message="status.quorum.generation: may not fall (INV-4)"
type MySQLTopologyStatus struct {
	// ObservedGeneration is the generation of the spec that the last decision was taken on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase of the state machine.
	// +optional
	Phase TopologyPhase `json:"phase,omitempty"`

	// Reason for the phase, one word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message says the reason in a line for people.
	// +optional
	Message string `json:"message,omitempty"`

	// Epoch grows with every change of primary and with every abort; 0 means none yet.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Primary is the instance that may take writes in this epoch, or, in phases Fencing and Draining, that was the last to
	// take any; empty: none yet.
	// +optional
	Primary string `json:"primary,omitempty"`

	// Routed is true once clients may reach the primary: it was promoted with the wanted quorum in the record.
	// +optional
	Routed bool `json:"routed,omitempty"`

	// History lists the epochs, oldest first, at most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	History []EpochRecord `json:"history,omitempty"`

	// Quorum is the pessimistic account of who may have acknowledged what.
	// +optional
	Quorum *Quorum `json:"quorum,omitempty"`

	// RestartReady names the instance of spec.restarting once its pod may be replaced.
	// +optional
	RestartReady string `json:"restartReady,omitempty"`

	// Operation is the one in progress; absent: none.
	// +optional
	Operation *TopologyOperation `json:"operation,omitempty"`

	// Switchover is what became of the last request.
	// +optional
	Switchover *SwitchoverStatus `json:"switchover,omitempty"`

	// AcceptedDataLoss is the last acceptance that was made use of.
	// +optional
	AcceptedDataLoss *DataLossAcceptance `json:"acceptedDataLoss,omitempty"`

	// Instances are the observed instances, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Instances []TopologyInstance `json:"instances,omitempty"`
}

// EpochRecord says who was primary in an epoch and what it held when it was opened.
type EpochRecord struct {
	// Epoch number, from 1.
	Epoch int64 `json:"epoch"`

	// Instance that was promoted.
	Instance string `json:"instance"`

	// ServerUUID of its mysqld.
	ServerUUID string `json:"serverUUID"`

	// Incarnation of its data directory: a primary that comes back with another one has lost its data.
	// +optional
	Incarnation string `json:"incarnation,omitempty"`

	// PromotedGTIDSet is what the instance had executed just before it was opened.
	// +optional
	PromotedGTIDSet string `json:"promotedGTIDSet,omitempty"`

	// PromotedAt is when the record was made.
	PromotedAt metav1.Time `json:"promotedAt"`

	// Cause of the change; empty: it was not a change from another primary.
	// +optional
	Cause PromotionCause `json:"cause,omitempty"`
}

// PromotionCause says why a primary took the place of another one.
//
// +kubebuilder:validation:Enum=Failover;Switchover
type PromotionCause string

const (
	// CauseFailover means: the primary before was lost.
	CauseFailover PromotionCause = "Failover"
	// CauseSwitchover means: it was asked for.
	CauseSwitchover PromotionCause = "Switchover"
)

// Quorum is what must be assumed of acknowledgements: adding a member or lowering requiredAcks is recorded before it is
// done, removing or raising after (INV-4).
type Quorum struct {
	// Generation grows with every change.
	Generation int64 `json:"generation"`

	// RequiredAcks is the number of members that acknowledge a commit before its client hears OK (W).
	RequiredAcks int32 `json:"requiredAcks"`

	// Members are the instances whose acknowledgement may count (N of them).
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []QuorumMember `json:"members,omitempty"`
}

// QuorumMember is one instance in one life of its data: a rebuilt instance is another member and remembers no old acks.
type QuorumMember struct {
	// Name of the instance.
	Name string `json:"name"`

	// ServerUUID of its mysqld.
	ServerUUID string `json:"serverUUID"`

	// Incarnation of its data directory.
	Incarnation string `json:"incarnation"`
}

// OperationType names what the topology lane is doing over several steps.
type OperationType string

const (
	// OperationBootstrap makes the first primary.
	OperationBootstrap OperationType = "Bootstrap"
	// OperationResume brings a crashed primary back in place.
	OperationResume OperationType = "Resume"
	// OperationAdopt makes the record anew from the volumes.
	OperationAdopt OperationType = "Adopt"
	// OperationFailover puts another primary in the place of a lost one.
	OperationFailover OperationType = "Failover"
	// OperationSwitchover puts another primary in the place of one that serves.
	OperationSwitchover OperationType = "Switchover"
)

// TopologyOperation is the operation in progress.
type TopologyOperation struct {
	// ID is unique; commands to agents carry it.
	ID string `json:"id"`

	// Type of the operation.
	Type OperationType `json:"type"`

	// Target is the instance it is about.
	// +optional
	Target string `json:"target,omitempty"`

	// StartedAt is when it was recorded.
	StartedAt metav1.Time `json:"startedAt"`
}

// InstanceRole is the role that the record gives to an instance.
type InstanceRole string

const (
	// RolePrimary takes writes.
	RolePrimary InstanceRole = "Primary"
	// RoleReplica follows the primary.
	RoleReplica InstanceRole = "Replica"
	// RoleNone has no role yet.
	RoleNone InstanceRole = ""
)

// InstanceState says in one word how an instance is.
type InstanceState string

const (
	// InstancePending means: its pod does not run yet.
	InstancePending InstanceState = "Pending"
	// InstanceUnreachable means: its pod runs but its agent does not answer.
	InstanceUnreachable InstanceState = "Unreachable"
	// InstanceInitializing means: its data directory is being initialised.
	InstanceInitializing InstanceState = "Initializing"
	// InstanceCloning means: it is being cloned from a donor.
	InstanceCloning InstanceState = "Cloning"
	// InstanceStarting means: its mysqld is starting or recovering.
	InstanceStarting InstanceState = "Starting"
	// InstanceJoining means: it runs and catches up, but is no member yet.
	InstanceJoining InstanceState = "Joining"
	// InstanceRunning means: it serves in its role.
	InstanceRunning InstanceState = "Running"
	// InstanceBroken means: it cannot serve without an action; the message says why.
	InstanceBroken InstanceState = "Broken"
	// InstanceLeaving means: it is being removed from the quorum.
	InstanceLeaving InstanceState = "Leaving"
)

// TopologyInstance is what the topology lane observes of one instance.
type TopologyInstance struct {
	// Name of the instance.
	Name string `json:"name"`

	// Role given by the record.
	// +optional
	Role InstanceRole `json:"role,omitempty"`

	// State in one word.
	// +optional
	State InstanceState `json:"state,omitempty"`

	// ServerUUID of its mysqld, once known.
	// +optional
	ServerUUID string `json:"serverUUID,omitempty"`

	// Version of its mysqld, once known.
	// +optional
	Version string `json:"version,omitempty"`

	// Message says why it is in this state.
	// +optional
	Message string `json:"message,omitempty"`
}
