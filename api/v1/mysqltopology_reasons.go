package v1

// Reasons of MySQLTopology.status.reason. Each belongs to the phase that it is listed under; the message beside it names
// the instances.
const (
	// TopologySuspended: any phase; spec.suspend is set, nothing is done.
	TopologySuspended = "Suspended"

	// TopologyWaitingForAgents: Bootstrapping; the agents needed for the first decision have not answered yet.
	TopologyWaitingForAgents = "WaitingForAgents"
	// TopologyWaitingForInstances: Bootstrapping; volumes hold data of this cluster and the record does not know it: every
	// instance must answer before one is chosen.
	TopologyWaitingForInstances = "WaitingForInstances"
	// TopologyInitializing: Bootstrapping; the first primary's data directory is being made.
	TopologyInitializing = "Initializing"
	// TopologyOpening: Bootstrapping or Promoting; the new primary applies what it received and is being opened.
	TopologyOpening = "Opening"
	// TopologyWaitingForMembers: Bootstrapping or Stable before clients were ever let in: fewer members than wanted acks.
	TopologyWaitingForMembers = "WaitingForMembers"

	// TopologyHealthy: Stable; the primary takes writes and every wanted instance follows as a member.
	TopologyHealthy = "Healthy"
	// TopologyDegraded: Stable; the primary takes writes, some wanted instance is missing, joining or broken.
	TopologyDegraded = "Degraded"
	// TopologyWritesBlocked: Stable or Recovering; no commit can be acknowledged, the message says who is missing.
	TopologyWritesBlocked = "WritesBlocked"
	// TopologyPrimaryUnreachable: Stable; the primary's pod exists and its agent does not answer. Nothing is concluded.
	TopologyPrimaryUnreachable = "PrimaryUnreachable"
	// TopologyPrimaryHung: Recovering; the primary's mysqld answers neither its agent nor its replicas, and is restarted in place.
	TopologyPrimaryHung = "PrimaryHung"
	// TopologyPrimaryUnresponsive: Stable; the primary's mysqld runs and does not answer its agent.
	TopologyPrimaryUnresponsive = "PrimaryUnresponsive"
	// TopologyChangingQuorum: Stable; members or required acks are being changed.
	TopologyChangingQuorum = "ChangingQuorum"

	// TopologyPrimaryGone: Recovering; the primary's pod does not exist.
	TopologyPrimaryGone = "PrimaryGone"
	// TopologyPrimaryStarting: Recovering; the primary's mysqld is starting.
	TopologyPrimaryStarting = "PrimaryStarting"
	// TopologyRecordAdopted: Recovering; the record was made anew from the volumes, in a new epoch.
	TopologyRecordAdopted = "RecordAdopted"
	// TopologyResuming: Recovering; the primary is being reopened.
	TopologyResuming = "Resuming"

	// TopologyFencingMembers: Fencing; members are being told to receive nothing more, the message says who is waited for.
	TopologyFencingMembers = "FencingMembers"
	// TopologyFailoversCapped: Recovering; too many failovers in a short time, so the primary is brought back in place.
	TopologyFailoversCapped = "FailoversCapped"
	// TopologyRolledBack: Recovering; a failover or switchover was given up in a new epoch, the primary stays.
	TopologyRolledBack = "RolledBack"
	// TopologyDrainingPrimary: Draining; the primary ends its writes.
	TopologyDrainingPrimary = "DrainingPrimary"

	// TopologyMembersLost: Blocked; the primary is lost, and so many members lost their data that acknowledged commits may be
	// lost. A person can accept that.
	TopologyMembersLost = "MembersLost"
	// TopologyNoCandidate: Blocked; enough members were fenced, and none that holds everything can be primary.
	TopologyNoCandidate = "NoCandidate"
	// TopologyForeignVolume: Blocked; a volume holds data of another cluster.
	TopologyForeignVolume = "ForeignVolume"
	// TopologyPrimaryDataLost: Blocked; the primary came back with another data directory.
	TopologyPrimaryDataLost = "PrimaryDataLost"
	// TopologyPrimaryBehind: Blocked; a member holds transactions that the primary lost.
	TopologyPrimaryBehind = "PrimaryBehind"
	// TopologyRecordBehind: Blocked; agents know a higher epoch than the record, and not all instances answer.
	TopologyRecordBehind = "RecordBehind"
	// TopologyPrimaryAmbiguous: Blocked; the volumes do not agree on who was primary.
	TopologyPrimaryAmbiguous = "PrimaryAmbiguous"
)
