package agentapi

import (
	"time"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// Version of this contract. It grows when the meaning of a field or command changes.
const Version = 1

// TerminationGrace is how long Kubernetes lets an instance's pod end before it kills what is left: long enough for mysqld to
// flush a large buffer pool. The agent is to be done before.
const TerminationGrace = 120 * time.Second

// HeartbeatInterval is the longest silence on a healthy status stream.
const HeartbeatInterval = 500 * time.Millisecond

// MaxCommandBytes bounds a command's body; a larger one is refused unread.
const MaxCommandBytes = 1 << 20

// Paths of the HTTPS API. Those under /v1 need a client certificate whose common name is naming.CertCNManager or, to read
// PathStatus and PathStream alone, naming.CertCNViewer; PathHealth, PathReady and PathMetrics need none, so that kubelet
// and Prometheus can ask.
const (
	PathStatus  = "/v1/status"
	PathStream  = "/v1/status/stream"
	PathCommand = "/v1/command"
	PathHealth  = "/healthz"
	PathReady   = "/readyz"
	PathMetrics = "/metrics"
)

// Role that an agent holds by the last command it accepted.
type Role string

const (
	// RoleNone means: no role was given yet.
	RoleNone Role = ""
	// RolePrimary means: it may be writable in its epoch.
	RolePrimary Role = "Primary"
	// RoleReplica means: it follows the primary of its epoch.
	RoleReplica Role = "Replica"
)

// Peer names an instance that another one can reach.
type Peer struct {
	// Instance name, e.g. orders-0.
	Instance string `json:"instance"`
	// Host name as in naming.Host; its certificate must carry it.
	Host string `json:"host"`
	// Port of mysqld.
	Port int `json:"port"`
	// ServerUUID expected there; empty if unknown.
	ServerUUID string `json:"serverUUID,omitempty"`
}

// Quorum as in the record (api/v1 Quorum).
type Quorum struct {
	Generation   int64    `json:"generation"`
	RequiredAcks int32    `json:"requiredAcks"`
	Members      []Member `json:"members,omitempty"`
}

// Member as in the record (api/v1 QuorumMember).
type Member struct {
	Name        string `json:"name"`
	ServerUUID  string `json:"serverUUID"`
	Incarnation string `json:"incarnation"`
}

// CommandType names what an agent is to do.
type CommandType string

const (
	// CommandInitialize makes a new, empty data directory and starts mysqld on it, read-only. Refused where data exists
	// of another incarnation; done already: nothing happens. Runs on after the answer; Status.Operation tells.
	CommandInitialize CommandType = "Initialize"
	// CommandClone makes the data directory a copy of Donor's and starts mysqld on it, read-only. Refused where data
	// exists. Runs on after the answer.
	CommandClone CommandType = "Clone"
	// CommandFollow makes the instance a read-only replica of Primary with auto-position.
	CommandFollow CommandType = "Follow"
	// CommandPromote makes the instance the writable primary of the command's epoch with the given Quorum: everything
	// received is applied, replication is reset, source semi-sync is set (RequiredAcks 0: off), then it opens. In the
	// epoch in which it is primary already it reopens after a restart, or changes nothing.
	CommandPromote CommandType = "Promote"
	// CommandSetQuorum makes the primary wait for Quorum.RequiredAcks and end dump threads with semi-sync of others than
	// its members; on a replica it is stored, and the replica acknowledges from then on exactly if it is a member.
	CommandSetQuorum CommandType = "SetQuorum"
	// CommandRestart ends mysqld by the shutdown rule and starts it again, read-only, in the same pod.
	CommandRestart CommandType = "Restart"
	// CommandDemote makes a primary read-only and takes the role away: first super_read_only, with its bound; if that
	// does not succeed mysqld is killed, never shut down while commits wait for acknowledgement.
	CommandDemote CommandType = "Demote"
	// CommandFence makes an instance other than the primary stop receiving, in an epoch in which nobody is primary yet: from
	// then on it acknowledges nothing, until a Follow or Promote of a higher epoch. The applier goes on. What it holds is
	// final in documents whose ServerStatus.FencedEpoch is that epoch. A mysqld that does not run is fenced by nature: it
	// boots without replication. Refused by a primary: it is to be demoted.
	CommandFence CommandType = "Fence"
	// CommandRebuild makes the data directory anew as a copy of Donor's though it holds data, and starts mysqld on it,
	// read-only, as another incarnation. The transactions of Quarantine, which nobody else has, are saved first, readable by
	// mysqlbinlog; while they cannot be saved nothing is destroyed (INV-9). Refused by the primary of its epoch. Runs on after the answer.
	CommandRebuild CommandType = "Rebuild"
	// CommandStart starts a mysqld that is ProcessHeld, read-only, as it is: what its binary log holds without an
	// acknowledgement becomes visible. Where mysqld runs already nothing happens. In a higher epoch the role goes, also a
	// primary's: it is opened by Promote alone.
	CommandStart CommandType = "Start"
)

// Command is the body of a POST to PathCommand.
type Command struct {
	// ClusterID must equal the agent's once it has one; the first command gives it.
	ClusterID string `json:"clusterID"`
	// Epoch must not be lower than the agent's. From 1.
	Epoch int64 `json:"epoch"`
	// OperationID of the record's operation or decision that caused the command, for logs and idempotence.
	OperationID string `json:"operationID"`
	// Type of the command.
	Type CommandType `json:"type"`
	// Primary of Epoch: needed for Follow, stored in every case where given.
	Primary *Peer `json:"primary,omitempty"`
	// Donor to clone from: needed for Clone and Rebuild.
	Donor *Peer `json:"donor,omitempty"`
	// Quorum in force: needed for Promote and SetQuorum, stored where its generation is not lower than the stored one.
	Quorum *Quorum `json:"quorum,omitempty"`
	// ProcessStartedAt is the life of mysqld (ProcessStatus.StartedAt) that the sender decided about; absent: any. Restart and Promote of
	// another life is refused: what a crash left in the binary log must be looked at before it is shown to clients.
	ProcessStartedAt *time.Time `json:"processStartedAt,omitempty"`
	// PromotedGTIDSet is what Primary had executed when it was opened in Epoch; absent: unknown. Follow needs it to let a
	// former primary that is ProcessHeld rejoin: what its binary log holds beyond it was never acknowledged, and is saved and
	// cut off before mysqld starts, then with another server UUID: a replica may hold what was cut off, so its numbers must
	// never be given again.
	PromotedGTIDSet *gtid.Set `json:"promotedGTIDSet,omitempty"`
	// Quarantine is what Rebuild saves before it destroys; absent: nothing that others lack is there.
	Quarantine *gtid.Set `json:"quarantine,omitempty"`
}

// ErrorCode classifies a refusal.
type ErrorCode string

const (
	// ErrInvalid means: the command is malformed; HTTP 400.
	ErrInvalid ErrorCode = "Invalid"
	// ErrUnauthorized means: no or another client certificate; HTTP 403.
	ErrUnauthorized ErrorCode = "Unauthorized"
	// ErrWrongCluster means: the volume belongs to another cluster id; HTTP 409.
	ErrWrongCluster ErrorCode = "WrongCluster"
	// ErrStaleEpoch means: the agent knows a higher epoch; HTTP 409.
	ErrStaleEpoch ErrorCode = "StaleEpoch"
	// ErrBusy means: another long command is running; HTTP 409.
	ErrBusy ErrorCode = "Busy"
	// ErrPrecondition means: the instance is not in a state in which this may be done; HTTP 412.
	ErrPrecondition ErrorCode = "Precondition"
	// ErrInternal means: it was tried and failed; HTTP 500.
	ErrInternal ErrorCode = "Internal"
)

// Error is the body of a refusal. It implements error.
type Error struct {
	Code    ErrorCode `json:"code"`
	Message string    `json:"message"`
}

// Error gives code and message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// DataState says what is in the data directory.
type DataState string

const (
	// DataEmpty means: nothing yet.
	DataEmpty DataState = "Empty"
	// DataInitializing means: being made by Initialize.
	DataInitializing DataState = "Initializing"
	// DataCloning means: being made by Clone.
	DataCloning DataState = "Cloning"
	// DataReady means: complete.
	DataReady DataState = "Ready"
	// DataFailed means: Initialize or Clone did not end well; both may be tried again (nothing unique is there).
	DataFailed DataState = "Failed"
	// DataUnknown means: the agent's state or the data directory cannot be read or do not belong together; DataStatus.Error says
	// why. Every command is refused, nothing is ever wiped; the agent looks again every few seconds.
	DataUnknown DataState = "Unknown"
)

// ProcessState says how mysqld is.
type ProcessState string

const (
	// ProcessStopped means: not running, by intent or since there is no data.
	ProcessStopped ProcessState = "Stopped"
	// ProcessStarting means: started, does not accept the agent's session yet (it may be recovering).
	ProcessStarting ProcessState = "Starting"
	// ProcessRunning means: the agent has a session.
	ProcessRunning ProcessState = "Running"
	// ProcessStopping means: being ended.
	ProcessStopping ProcessState = "Stopping"
	// ProcessCrashed means: ended by itself; the agent starts it again after RestartBackoff.
	ProcessCrashed ProcessState = "Crashed"
	// ProcessHeld means: not running, and not started before a manager says how. The data was a primary's
	// (DataStatus.WasPrimary), and starting mysqld would make visible what nobody acknowledged: Start does that, where the
	// instance is to stay primary; Follow cuts it off first, where another one was promoted.
	ProcessHeld ProcessState = "Held"
)

// Status is what an agent reports: a whole document each time, so that losing one loses nothing.
type Status struct {
	// APIVersion is Version of the agent.
	APIVersion int `json:"apiVersion"`
	// AgentVersion is the build's version.
	AgentVersion string `json:"agentVersion"`
	// Instance name.
	Instance string `json:"instance"`
	// AgentStart distinguishes lives of the agent.
	AgentStart time.Time `json:"agentStart"`
	// Sequence grows by one with each document of one life.
	Sequence uint64 `json:"sequence"`

	// ClusterID, Epoch, Role, Primary and Quorum are what is fsynced on the volume.
	ClusterID string  `json:"clusterID,omitempty"`
	Epoch     int64   `json:"epoch"`
	Role      Role    `json:"role,omitempty"`
	Primary   string  `json:"primary,omitempty"`
	Quorum    *Quorum `json:"quorum,omitempty"`
	// PrimaryEpoch is the epoch in which Primary was named; it is lower than Epoch while nobody is primary in Epoch.
	PrimaryEpoch int64 `json:"primaryEpoch,omitempty"`
	// Confirmed is true once a manager of this life of the agent has confirmed Role by a command. Readiness needs it.
	Confirmed bool `json:"confirmed"`

	// Data describes the data directory.
	Data DataStatus `json:"data"`
	// Process describes mysqld.
	Process ProcessStatus `json:"process"`
	// Server is what SQL tells; nil: unknown now (INV-5: never taken for a no).
	Server *ServerStatus `json:"server,omitempty"`
	// Operation is the last long command, running or ended.
	Operation *OperationStatus `json:"operation,omitempty"`
	// TLSError says why changed certificate files are not in use; the former ones are. Empty: all is in use.
	TLSError string `json:"tlsError,omitempty"`
}

// DataStatus describes the data directory.
type DataStatus struct {
	State DataState `json:"state"`
	// Incarnation is a UUID made with the data directory; a rebuilt one gets another.
	Incarnation string `json:"incarnation,omitempty"`
	// ServerUUID as in auto.cnf.
	ServerUUID string `json:"serverUUID,omitempty"`
	// Error of the last Initialize or Clone that failed, or why State is Unknown.
	Error string `json:"error,omitempty"`
	// WasPrimary is true from the moment that the data directory is opened for writes until its instance follows another
	// primary and was shown to hold nothing that this one lacks. Where others might be promoted instead (the stored quorum
	// has members), such a mysqld is not started by the agent alone: see ProcessHeld.
	WasPrimary bool `json:"wasPrimary,omitempty"`
	// CutTail tells of the last cut: how many transactions were cut off, and the file that they were saved in; empty: none.
	CutTail string `json:"cutTail,omitempty"`
	// Quarantined tells of the transactions that the last Rebuild saved: how many, and the file; empty: none. It is there from
	// the moment that they are saved, also when the rebuild fails later.
	Quarantined string `json:"quarantined,omitempty"`
}

// ProcessStatus describes mysqld.
type ProcessStatus struct {
	State ProcessState `json:"state"`
	PID   int          `json:"pid,omitempty"`
	// StartedAt of the running or last process.
	StartedAt *time.Time `json:"startedAt,omitempty"`
	// Exits counts ends that nobody asked for in this life of the agent.
	Exits int `json:"exits"`
	// LastExit tells how it last ended ("signal: killed", "exit status 1") with the last error of its log.
	LastExit string `json:"lastExit,omitempty"`
	// Version of the binary, e.g. 9.7.4.
	Version string `json:"version,omitempty"`
	// LoginBlocked: mysqld accepts connections but no login comes through: an account statement waits for an
	// acknowledgement. Replicas cannot log in either; the agent ends it by killing mysqld after its bound.
	LoginBlocked bool `json:"loginBlocked,omitempty"`
	// UnresponsiveSince is when SQL stopped answering though mysqld runs; absent: it answers.
	UnresponsiveSince *time.Time `json:"unresponsiveSince,omitempty"`
}

// ServerStatus is what SQL tells, all of one moment.
type ServerStatus struct {
	// SuperReadOnly and ReadOnly are false while an open server is being made read-only: until that has succeeded commits go on.
	SuperReadOnly bool     `json:"superReadOnly"`
	ReadOnly      bool     `json:"readOnly"`
	OfflineMode   bool     `json:"offlineMode"`
	GTIDExecuted  gtid.Set `json:"gtidExecuted"`
	GTIDPurged    gtid.Set `json:"gtidPurged"`
	// GTIDOwned are transactions being committed, read before GTIDExecuted: each that was acknowledged is in one of the two.
	GTIDOwned gtid.Set `json:"gtidOwned,omitzero"`
	// FencedEpoch is the epoch of the Fence whose effect this sample shows: the receiver was stopped before the sample was
	// begun, and starts again only in a higher epoch; 0: not fenced.
	FencedEpoch int64 `json:"fencedEpoch,omitempty"`
	// Replication of the default channel; nil: none configured.
	Replication *ReplicationStatus `json:"replication,omitempty"`
	SemiSync    SemiSyncStatus     `json:"semiSync"`
	// AccountsApplied is true when the mounted accounts' present content has been applied on this primary.
	AccountsApplied bool `json:"accountsApplied"`
	// AccountsError says why it is not.
	AccountsError string `json:"accountsError,omitempty"`
	// AppliedQuorum is the generation of the quorum whose settings were in force in mysqld before this sample was begun
	// (on a primary; 0: none was applied in this life of mysqld): all of GTIDExecuted was then sampled under it.
	AppliedQuorum int64 `json:"appliedQuorum,omitempty"`
}

// ReplicationStatus describes the default channel, from performance_schema.
type ReplicationStatus struct {
	SourceHost string `json:"sourceHost"`
	SourceUUID string `json:"sourceUUID,omitempty"`
	// Receiver is ON, OFF or CONNECTING.
	Receiver string `json:"receiver"`
	// Applier is ON or OFF.
	Applier string `json:"applier"`
	// Received is the set received over this channel (RECEIVED_TRANSACTION_SET).
	Received gtid.Set `json:"received"`
	// LastHeard is the newer of last heartbeat and last queued transaction; zero: never.
	LastHeard time.Time `json:"lastHeard,omitzero"`
	// LagSeconds of the applier; nil: unknown.
	LagSeconds     *float64 `json:"lagSeconds,omitempty"`
	ReceiverError  string   `json:"receiverError,omitempty"`
	ReceiverErrno  int      `json:"receiverErrno,omitempty"`
	ApplierError   string   `json:"applierError,omitempty"`
	ApplierErrno   int      `json:"applierErrno,omitempty"`
	SemiSyncActive bool     `json:"semiSyncActive"`
}

// SemiSyncStatus describes the source side.
type SemiSyncStatus struct {
	SourceEnabled bool `json:"sourceEnabled"`
	// WaitForReplicaCount is the acks that a commit waits for, when enabled.
	WaitForReplicaCount int `json:"waitForReplicaCount"`
	// Clients is the number of semi-sync replicas connected. It may be too high for some seconds after one is cut off.
	Clients int `json:"clients"`
	// WaitSessions is the number of commits that wait for acks (of group leaders only).
	WaitSessions int `json:"waitSessions"`
}

// OperationStatus is the progress or result of a long command.
type OperationStatus struct {
	ID      string      `json:"id"`
	Type    CommandType `json:"type"`
	Running bool        `json:"running"`
	// Progress for people, e.g. "1.2 GiB of 3.4 GiB".
	Progress string `json:"progress,omitempty"`
	// Error means: empty when running or ended well.
	Error string `json:"error,omitempty"`
}
