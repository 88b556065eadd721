package plugin

import (
	"time"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// Identification of a Report in JSON and YAML. Fields are only ever added within a version.
const (
	ReportAPIVersion = "plugin.porpoise.dev/v1"
	ReportKind       = "ClusterReport"
	ListKind         = "ClusterList"
)

// Report is what `kubectl porpoise status CLUSTER -o json` prints.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// ObservedAt is when the objects and agents were read.
	ObservedAt time.Time `json:"observedAt"`
	// Cluster says what the MySQLCluster is and wants.
	Cluster ClusterReport `json:"cluster"`
	// Topology is the record: who is primary, whose acknowledgement counts.
	Topology TopologyReport `json:"topology"`
	// WritesBlocked says why no commit can be acknowledged; absent: they are not blocked as far as the operator knows.
	WritesBlocked *BlockedReport `json:"writesBlocked,omitempty"`
	// Instances: the primary first, then the others by ordinal.
	Instances []InstanceReport `json:"instances"`
	// Conditions are all of the MySQLCluster's, by type.
	Conditions []ConditionReport `json:"conditions"`
	// Events of the MySQLCluster, its MySQLTopology, StatefulSets, volume claims and pods, oldest first.
	Events []EventReport `json:"events"`
	// Notes say what this report lacks and what is missing to see it, e.g. a right.
	Notes []string `json:"notes,omitempty"`
}

// ClusterReport says what the MySQLCluster is and wants.
type ClusterReport struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Phase in one word, as in status.phase; empty: the operator has not seen it yet.
	Phase porpoisev1.ClusterPhase `json:"phase"`
	Ready bool                    `json:"ready"`
	// Reason and Message of condition Ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Version is spec.version, Image what it resolved to.
	Version string `json:"version"`
	Image   string `json:"image,omitempty"`
	// WantedInstances is spec.replicas; ReadyInstances those that serve in their role.
	WantedInstances int32 `json:"wantedInstances"`
	ReadyInstances  int32 `json:"readyInstances"`
	// Suspended: the operator watches but does not act.
	Suspended bool `json:"suspended,omitempty"`
	// Deleting: the object is being deleted.
	Deleting bool `json:"deleting,omitempty"`
	// StatusOutdated: the operator has not yet processed the last change of the spec.
	StatusOutdated bool `json:"statusOutdated,omitempty"`
	// StableRevision is the last shape which all instances ran while ready, TargetRevision what the spec asks for.
	StableRevision string `json:"stableRevision,omitempty"`
	TargetRevision string `json:"targetRevision,omitempty"`
}

// TopologyReport is the record of MySQLTopology.
type TopologyReport struct {
	// Phase of the state machine; empty: there is no record yet.
	Phase   porpoisev1.TopologyPhase `json:"phase"`
	Reason  string                   `json:"reason,omitempty"`
	Message string                   `json:"message,omitempty"`
	Primary string                   `json:"primary,omitempty"`
	Epoch   int64                    `json:"epoch"`
	// Since is when the present epoch was recorded.
	Since *time.Time `json:"since,omitempty"`
	// RequiredAcks is how many members acknowledge a commit now; WantedAcks what the spec asks for.
	RequiredAcks int32 `json:"requiredAcks"`
	WantedAcks   int32 `json:"wantedAcks"`
	// Members are the instances whose acknowledgement counts.
	Members []string `json:"members"`
	// Routed: clients may reach the primary through the Services.
	Routed bool `json:"routed"`
	// Operation in progress; absent: none.
	Operation *OperationReport `json:"operation,omitempty"`
	// History lists the last primaries, the newest first, at most five.
	History []EpochReport `json:"history,omitempty"`
	// Switchover is what became of the last one that was asked for; absent: none was.
	Switchover *SwitchoverReport `json:"switchover,omitempty"`
	// AcceptedLoss is the last acceptance of a loss that was made use of; WaitingLoss is one that counts for the next loss.
	AcceptedLoss *AcceptanceReport `json:"acceptedLoss,omitempty"`
	WaitingLoss  *AcceptanceReport `json:"waitingLoss,omitempty"`
}

// EpochReport says who became primary.
type EpochReport struct {
	Epoch   int64  `json:"epoch"`
	Primary string `json:"primary"`
	// Cause: Failover or Switchover; empty: it did not take another one's place.
	Cause string    `json:"cause,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// SwitchoverReport is what became of a switchover: Running, Done, Refused or RolledBack.
type SwitchoverReport struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// AcceptanceReport says who accepted a loss, and when.
type AcceptanceReport struct {
	ID string    `json:"id"`
	By string    `json:"by"`
	At time.Time `json:"at,omitzero"`
}

// OperationReport is what the operator is doing over several steps.
type OperationReport struct {
	Type      string    `json:"type"`
	Target    string    `json:"target,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
}

// BlockedReport says why no commit can be acknowledged.
type BlockedReport struct {
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since,omitempty"`
}

// InstanceReport describes one instance by objects, and by its agent where that could be asked.
type InstanceReport struct {
	Name  string                   `json:"name"`
	Role  porpoisev1.InstanceRole  `json:"role,omitempty"`
	State porpoisev1.InstanceState `json:"state,omitempty"`
	// Message says why it is not Running.
	Message string `json:"message,omitempty"`
	// Member: its acknowledgement counts.
	Member bool `json:"member"`
	// Pod is empty when there is none.
	Pod      string `json:"pod,omitempty"`
	PodPhase string `json:"podPhase,omitempty"`
	PodReady bool   `json:"podReady"`
	Node     string `json:"node,omitempty"`
	// Revision that its pod was built from; Outdated: it is not the target.
	Revision string `json:"revision,omitempty"`
	Outdated bool   `json:"outdated,omitempty"`
	Version  string `json:"version,omitempty"`
	// Live is what its agent said; absent: it could not be asked, LiveError says why.
	Live      *LiveReport `json:"live,omitempty"`
	LiveError string      `json:"liveError,omitempty"`
}

// LiveReport is what an agent said. Pointers are null where it does not know.
type LiveReport struct {
	AgentVersion string `json:"agentVersion,omitempty"`
	// Epoch that the agent knows.
	Epoch int64 `json:"epoch,omitempty"`
	// Fenced: it receives nothing more, since a failover is under way. Held: mysqld waits to be told how it is to start.
	Fenced bool `json:"fenced,omitempty"`
	Held   bool `json:"held,omitempty"`
	// CutTail and Quarantined tell of transactions that were saved on its volume and taken out of its data: what was never
	// acknowledged, and what no primary had.
	CutTail     string `json:"cutTail,omitempty"`
	Quarantined string `json:"quarantined,omitempty"`
	// Process is the state of mysqld: Running, Starting, Stopped, Stopping, Crashed or Held.
	Process string `json:"process"`
	// Exits counts ends of mysqld that nobody asked for since the agent started.
	Exits    int    `json:"exits"`
	LastExit string `json:"lastExit,omitempty"`
	// Operation is a long command that runs, with its progress.
	Operation string `json:"operation,omitempty"`
	// Writable: super_read_only is off.
	Writable     *bool     `json:"writable,omitempty"`
	GTIDExecuted *gtid.Set `json:"gtidExecuted,omitempty"`
	// TransactionsBehind counts transactions that the primary has executed and this instance has not.
	TransactionsBehind *uint64 `json:"transactionsBehind,omitempty"`
	// TransactionsUnapplied counts transactions that it has received and not executed.
	TransactionsUnapplied *uint64 `json:"transactionsUnapplied,omitempty"`
	// ErrantGTIDs are transactions that it executed and that came from no primary that the primary knows.
	ErrantGTIDs *gtid.Set `json:"errantGTIDs,omitempty"`
	// WaitingCommits is the number of commits that wait for acknowledgements, on the primary.
	WaitingCommits *int `json:"waitingCommits,omitempty"`
	// SemiSyncReplicas is the number of replicas connected that acknowledge, on the primary.
	SemiSyncReplicas *int `json:"semiSyncReplicas,omitempty"`
	// Replication of a replica; absent: none is set up.
	Replication *ReplicationReport `json:"replication,omitempty"`
}

// ReplicationReport describes a replica's channel.
type ReplicationReport struct {
	Source string `json:"source"`
	// Receiver is ON, OFF or CONNECTING; Applier ON or OFF.
	Receiver   string   `json:"receiver"`
	Applier    string   `json:"applier"`
	LagSeconds *float64 `json:"lagSeconds,omitempty"`
	// Received is what came over this channel.
	Received      gtid.Set   `json:"received"`
	LastHeard     *time.Time `json:"lastHeard,omitempty"`
	ReceiverError string     `json:"receiverError,omitempty"`
	ApplierError  string     `json:"applierError,omitempty"`
	// SemiSync: it acknowledges what it receives.
	SemiSync bool `json:"semiSync"`
}

// ConditionReport is a condition of the MySQLCluster.
type ConditionReport struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
	// Abnormal: it is not as it should be.
	Abnormal bool `json:"abnormal"`
}

// EventReport is one Event, repeated Count times until LastSeen.
type EventReport struct {
	LastSeen time.Time `json:"lastSeen"`
	Type     string    `json:"type"`
	Reason   string    `json:"reason"`
	// Object as KIND/NAME.
	Object  string `json:"object"`
	Message string `json:"message"`
	Count   int32  `json:"count"`
}

// ListReport is what `kubectl porpoise status -o json` prints without a name.
type ListReport struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      []ClusterReport `json:"items"`
}
