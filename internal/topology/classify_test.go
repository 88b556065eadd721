package topology_test

import (
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

const primaryUUID, replicaUUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"

func instance(executed, received string) *topology.Instance {
	server := &agentapi.ServerStatus{GTIDExecuted: gtid.MustParse(executed)}
	if received != "" {
		server.Replication = &agentapi.ReplicationStatus{Received: gtid.MustParse(received)}
	}
	return &topology.Instance{Status: &agentapi.Status{
		Data: agentapi.DataStatus{State: agentapi.DataReady}, Process: agentapi.ProcessStatus{State: agentapi.ProcessRunning}, Server: server,
	}}
}

func TestErrantNeedsTheOrderOfSampling(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	uuid, err := gtid.ParseUUID(primaryUUID)
	if err != nil {
		t.Fatal(err)
	}
	primary := instance(primaryUUID+":1-100", "")
	for name, test := range map[string]struct {
		executed string
		sampled  time.Time
		want     topology.Fact
	}{
		"behind":                                   {primaryUUID + ":1-90", time.Time{}, topology.False},
		"has what the primary waits to show":       {primaryUUID + ":1-101", at, topology.False},
		"errant, order of sampling not known":      {primaryUUID + ":1-90," + replicaUUID + ":1", time.Time{}, topology.Unknown},
		"errant, primary sampled before":           {primaryUUID + ":1-90," + replicaUUID + ":1", at.Add(-time.Second), topology.Unknown},
		"errant, primary sampled after it or then": {primaryUUID + ":1-90," + replicaUUID + ":1", at, topology.True},
	} {
		t.Run(name, func(t *testing.T) {
			replica := instance(test.executed, "")
			replica.ExecutedSince, primary.SampledAfter = at, test.sampled
			if _, got := topology.Errant(replica, primary, uuid); got != test.want {
				t.Errorf("errant is %v, want %v", got, test.want)
			}
		})
	}
}

func TestUnknownIsNeverNo(t *testing.T) {
	primary := instance(primaryUUID+":1-100", "")
	silent := &topology.Instance{Pod: topology.Pod{Exists: true, Running: true}}
	l := topology.Lineage{Epoch: 1, Primary: "p"}
	for name, got := range map[string]topology.Fact{
		"HasData": silent.HasData(), "NeedsData": silent.NeedsData(), "MySQLRuns": silent.MySQLRuns(), "Writable": silent.Writable(),
		"Follows": silent.Follows(l), "Acknowledges": silent.Acknowledges(l), "CaughtUp": topology.CaughtUp(silent, primary),
	} {
		if got != topology.Unknown {
			t.Errorf("%s of an instance that does not answer is %v", name, got)
		}
	}
	unreadable := instance("", "")
	unreadable.Status.Data.State = agentapi.DataUnknown
	if got := unreadable.HasData(); got != topology.Unknown {
		t.Errorf("HasData of an unreadable volume is %v", got)
	}
}

func TestCaughtUpCountsWhatIsReceived(t *testing.T) {
	primary := instance(primaryUUID+":1-100", "")
	if got := topology.CaughtUp(instance(primaryUUID+":1-90", primaryUUID+":80-100"), primary); got != topology.True {
		t.Errorf("received but not applied: %v", got)
	}
	if got := topology.CaughtUp(instance(primaryUUID+":1-90", ""), primary); got != topology.False {
		t.Errorf("behind: %v", got)
	}
}

// TestWhatIsBeingCommittedCounts: a commit that waits may be acknowledged already by a member whose data is gone by now. A
// barrier that left it out would let members that lack it stand for it.
func TestWhatIsBeingCommittedCounts(t *testing.T) {
	primary, member := instance(primaryUUID+":1-9", ""), instance(primaryUUID+":1-9", primaryUUID+":1-9")
	primary.Status.Server.GTIDOwned = gtid.MustParse(primaryUUID + ":10")
	if got := topology.CaughtUp(member, primary); got != topology.False {
		t.Errorf("without what the primary is committing: %s", got)
	}
	member.Status.Server.Replication.Received = gtid.MustParse(primaryUUID + ":1-10")
	if got := topology.CaughtUp(member, primary); got != topology.True {
		t.Errorf("with what the primary is committing: %s", got)
	}
}

// TestKnowingThePrimaryIsNotFollowingIt: a command about the quorum names the new primary to a replica whose receiver has the
// last one as its source still.
func TestKnowingThePrimaryIsNotFollowingIt(t *testing.T) {
	l := topology.Lineage{Epoch: 3, Primary: "p", Host: "p.example"}
	replica := instance(primaryUUID+":1-9", primaryUUID+":1-9")
	st := replica.Status
	st.Role, st.Confirmed, st.Epoch, st.Primary = agentapi.RoleReplica, true, 3, "p"
	st.Server.Replication.Receiver, st.Server.Replication.Applier = "ON", "ON"
	for host, want := range map[string]topology.Fact{"p.example": topology.True, "former.example": topology.False} {
		st.Server.Replication.SourceHost = host
		if got := replica.Follows(l); got != want {
			t.Errorf("with the source %s it follows: %s, want %s", host, got, want)
		}
	}
}
