package topology

import (
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// Fact is a claim that is true, false or unknown. The zero value is Unknown.
type Fact int8

const (
	// Unknown means: no live evidence.
	Unknown Fact = iota
	// False by live evidence.
	False
	// True by live evidence.
	True
)

// String names the fact.
func (f Fact) String() string {
	switch f {
	case True:
		return "true"
	case False:
		return "false"
	default:
		return "unknown"
	}
}

// FactOf makes a known fact.
func FactOf(claim bool) Fact {
	if claim {
		return True
	}
	return False
}

// Unless makes the fact Unknown when the condition holds.
func (f Fact) Unless(condition bool) Fact {
	if condition {
		return Unknown
	}
	return f
}

// Answers says whether the agent is heard. It is a plain bool: hearing is the manager's own observation.
func (i *Instance) Answers() bool { return i != nil && i.Status != nil }

// HasData says whether a complete data directory is there.
func (i *Instance) HasData() Fact {
	if !i.Answers() || i.Status.Data.State == agentapi.DataUnknown {
		return Unknown
	}
	return FactOf(i.Status.Data.State == agentapi.DataReady)
}

// NeedsData says whether the instance waits for Initialize or Clone: it has no data, or an attempt failed.
func (i *Instance) NeedsData() Fact {
	if !i.Answers() {
		return Unknown
	}
	state := i.Status.Data.State
	return FactOf(state == agentapi.DataEmpty || state == agentapi.DataFailed)
}

// MakesData says whether Initialize or Clone runs.
func (i *Instance) MakesData() Fact {
	if !i.Answers() {
		return Unknown
	}
	state := i.Status.Data.State
	return FactOf(state == agentapi.DataInitializing || state == agentapi.DataCloning)
}

// MySQLRuns says whether mysqld runs and accepted its agent's session.
func (i *Instance) MySQLRuns() Fact {
	if !i.Answers() {
		return Unknown
	}
	return FactOf(i.Status.Process.State == agentapi.ProcessRunning)
}

// Held says whether mysqld waits for a manager to say how it is to start.
func (i *Instance) Held() Fact {
	if !i.Answers() {
		return Unknown
	}
	return FactOf(i.Status.Process.State == agentapi.ProcessHeld)
}

// Fenced says whether the instance has shown that it receives nothing in the given epoch, and what it holds in that epoch.
func (i *Instance) Fenced(epoch int64) Fact {
	server := i.Server()
	if server == nil {
		return Unknown
	}
	return FactOf(i.Status.Epoch == epoch && server.FencedEpoch == epoch)
}

// HearsSource says whether the replica's receiver is connected to its source now: it is a witness of the primary's life.
func (i *Instance) HearsSource() Fact {
	server := i.Server()
	if server == nil {
		return Unknown
	}
	return FactOf(server.Replication != nil && server.Replication.Receiver == "ON")
}

// Backlog is how many transactions the replica has received and not applied; -1: unknown.
func (i *Instance) Backlog() int64 {
	server := i.Server()
	if server == nil {
		return -1
	}
	if server.Replication == nil {
		return 0
	}
	return int64(server.Replication.Received.Subtract(server.GTIDExecuted).Count())
}

// Server returns what SQL tells; nil: unknown.
func (i *Instance) Server() *agentapi.ServerStatus {
	if i.MySQLRuns() != True {
		return nil
	}
	return i.Status.Server
}

// Writable says whether mysqld takes writes of ordinary accounts.
func (i *Instance) Writable() Fact {
	server := i.Server()
	if server == nil {
		return Unknown
	}
	return FactOf(!server.ReadOnly && !server.SuperReadOnly && !server.OfflineMode)
}

// Holds returns everything that the instance has executed, is committing, or has received and kept. A commit that waits for
// acknowledgement may have some already, of a member whose data is gone by now: a barrier must not leave it out.
func (i *Instance) Holds() (gtid.Set, Fact) {
	server := i.Server()
	if server == nil {
		return gtid.Set{}, Unknown
	}
	holds := server.GTIDExecuted.Union(server.GTIDOwned)
	if server.Replication == nil {
		return holds, True
	}
	return holds.Union(server.Replication.Received), True
}

// CaughtUp says whether the replica has received all that the primary held when it was sampled: had executed or, where it
// was not opened yet, received. A replica sampled before the primary can only look worse than it is.
func CaughtUp(replica, primary *Instance) Fact {
	holds, known := replica.Holds()
	source, sourceKnown := primary.Holds()
	if known != True || sourceKnown != True {
		return Unknown
	}
	return FactOf(holds.Contains(source))
}

// Errant returns the transactions that the replica executed and the primary, whose server UUID is given, neither executed
// nor received: a new primary may still have to apply what others have applied already. It is True only when the primary was sampled after the replica's set was received, since otherwise it may just be the older
// picture; in that case the answer is Unknown.
func Errant(replica, primary *Instance, primaryUUID gtid.UUID) (gtid.Set, Fact) {
	server, source := replica.Server(), primary.Server()
	if server == nil || source == nil {
		return gtid.Set{}, Unknown
	}
	held, _ := primary.Holds()
	extra := server.GTIDExecuted.Subtract(held)
	errant := extra.Subtract(extra.Restrict(primaryUUID))
	if errant.IsEmpty() {
		return gtid.Set{}, False
	}
	if primary.SampledAfter.IsZero() || primary.SampledAfter.Before(replica.ExecutedSince) {
		return errant, Unknown
	}
	return errant, True
}

// Ahead says whether the member holds transactions of the primary's own history, which own picks from a set, that the
// primary, read-only and with no commit that waits, lacks. It is True only when the primary was sampled after the member's sets were received: it may have been
// opened in between. An open primary's members may hold what it waits to make visible: that says nothing.
func Ahead(member, primary *Instance, own func(gtid.Set) gtid.Set) Fact {
	holds, known := member.Holds()
	source := primary.Server()
	if known != True || source == nil || primary.Writable() != False || source.SemiSync.WaitSessions > 0 {
		return Unknown
	}
	if held, _ := primary.Holds(); held.Contains(own(holds)) {
		return False
	}
	return FactOf(true).Unless(primary.SampledAfter.IsZero() || primary.SampledAfter.Before(member.HeldSince))
}

// Purged returns what the primary has purged from its binary logs and the replica still needs.
func Purged(replica, primary *Instance) (gtid.Set, Fact) {
	holds, known := replica.Holds()
	source := primary.Server()
	if known != True || source == nil {
		return gtid.Set{}, Unknown
	}
	missing := source.GTIDPurged.Subtract(holds)
	return missing, FactOf(!missing.IsEmpty())
}

// Lineage names the primary that a replica should follow.
type Lineage struct {
	// Epoch of the primary.
	Epoch int64
	// Primary is its instance name.
	Primary string
	// Host is its stable host name, by which replicas connect to it.
	Host string
	// ServerUUID of its mysqld; zero if unknown.
	ServerUUID gtid.UUID
}

// Follows says whether the instance replicates from the given primary, its role confirmed in this life of its agent. A
// receiver that is connecting counts: it tries for ever. That its agent knows the primary is not enough: a quorum is told to
// leaving members too, and names the new primary to one whose receiver still has the last one as its source.
func (i *Instance) Follows(l Lineage) Fact {
	server := i.Server()
	if server == nil {
		if i.MySQLRuns() == False {
			return False
		}
		return Unknown
	}
	st := i.Status
	if st.Role != agentapi.RoleReplica || !st.Confirmed || st.Epoch != l.Epoch || st.Primary != l.Primary || server.Replication == nil ||
		server.Replication.SourceHost != l.Host {
		return False
	}
	return FactOf(server.Replication.Receiver != "OFF" && server.Replication.Applier != "OFF")
}

// Acknowledges says whether the instance acknowledges commits of the given primary now: it is connected with semi-sync.
func (i *Instance) Acknowledges(l Lineage) Fact {
	connected := i.Connected(l)
	if connected != True {
		return connected
	}
	return FactOf(i.Status.Server.Replication.SemiSyncActive)
}

// Connected says whether the instance follows and its receiver is connected to that very server.
func (i *Instance) Connected(l Lineage) Fact {
	if !i.Answers() {
		return FactOf(false).Unless(i.Pod.Exists)
	}
	if follows := i.Follows(l); follows != True {
		return follows
	}
	repl := i.Status.Server.Replication
	if repl.Receiver != "ON" {
		return False
	}
	uuid, err := gtid.ParseUUID(repl.SourceUUID)
	return FactOf(err != nil && repl.SourceUUID == "" || err == nil && uuid == l.ServerUUID)
}

// ReplicationError returns why the receiver or applier stopped; empty: neither stopped with an error.
func (i *Instance) ReplicationError() string {
	server := i.Server()
	if server == nil || server.Replication == nil {
		return ""
	}
	r := server.Replication
	switch {
	case r.Applier == "OFF" && r.ApplierErrno != 0:
		return "applier stopped: " + r.ApplierError
	case r.Receiver == "OFF" && r.ReceiverErrno != 0:
		return "receiver stopped: " + r.ReceiverError
	default:
		return ""
	}
}
