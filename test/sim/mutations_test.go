package sim_test

import (
	"slices"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/topology"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
	"github.com/porpoise-dev/porpoise/test/sim"
)

const (
	mutationSeed      = 77_000
	mutationSchedules = 5000
)

// mutation is a rule that is broken on purpose.
type mutation struct {
	rule     string
	snapshot func(v1.MySQLTopologyStatus, *topology.Snapshot)
	decision func(v1.MySQLTopologyStatus, *failover.Decision)
	run      func(*sim.Run)
	// from is a little before the schedule that finds it: the ones before would only take time.
	from uint64
}

// servers changes copies of what SQL told.
func servers(change func(v1.MySQLTopologyStatus, *agentapi.Status, *agentapi.ServerStatus)) func(v1.MySQLTopologyStatus, *topology.Snapshot) {
	return func(rec v1.MySQLTopologyStatus, s *topology.Snapshot) {
		for i := range s.Instances {
			st := s.Instances[i].Status
			if st == nil || st.Server == nil {
				continue
			}
			copied, server := *st, *st.Server
			change(rec, &copied, &server)
			copied.Server = &server
			s.Instances[i].Status = &copied
		}
	}
}

// promotes says whether a decision records another primary.
func promotes(old v1.MySQLTopologyStatus, d *failover.Decision) bool {
	return d.Record.Phase == v1.TopologyPromoting && old.Phase != v1.TopologyPromoting && d.Record.Quorum != nil
}

// model breaks a rule of MySQL or of the agent.
func model(f fakeagent.Flaw) mutation {
	return mutation{rule: string(f), run: func(r *sim.Run) { r.Spoil(f) }}
}

// received makes all that anybody holds seem to be received by every replica, in one phase.
func received(phase v1.TopologyPhase) func(v1.MySQLTopologyStatus, *topology.Snapshot) {
	return func(rec v1.MySQLTopologyStatus, s *topology.Snapshot) {
		all := gtid.Set{}
		for i := range s.Instances {
			holds, _ := s.Instances[i].Holds()
			all = all.Union(holds)
		}
		servers(func(rec v1.MySQLTopologyStatus, _ *agentapi.Status, server *agentapi.ServerStatus) {
			if rec.Phase == phase && server.Replication != nil {
				r := *server.Replication
				r.Received = all
				server.Replication = &r
			}
		})(rec, s)
	}
}

var mutations = []mutation{
	model(fakeagent.Degrades),
	model(fakeagent.ForgetsReceived),
	model(fakeagent.ReleasesAtStop),
	model(fakeagent.OpensAlone),
	{rule: "the record is written by compare and swap", run: func(r *sim.Run) { r.Overwrites = true }},
	{rule: "a member leaves, and more acks are recorded, once a barrier has passed", snapshot: received(v1.TopologyStable)},
	{rule: "a member is one life of its data, not a name", snapshot: func(rec v1.MySQLTopologyStatus, s *topology.Snapshot) {
		if rec.Quorum == nil {
			return
		}
		for _, m := range rec.Quorum.Members {
			if i := s.Instance(m.Name); i.Answers() {
				copied := *i.Status
				copied.Data.Incarnation, copied.Data.ServerUUID = m.Incarnation, m.ServerUUID
				i.Status = &copied
			}
		}
	}},
	{rule: "a switchover waits until its target holds everything", snapshot: received(v1.TopologyDraining)},
	{
		rule: "a quorum counts once it is carried out, not once it is stored", from: 5300,
		snapshot: servers(func(_ v1.MySQLTopologyStatus, st *agentapi.Status, server *agentapi.ServerStatus) {
			if st.Quorum == nil {
				return
			}
			server.AppliedQuorum = st.Quorum.Generation
			server.SemiSync.SourceEnabled, server.SemiSync.WaitForReplicaCount = st.Quorum.RequiredAcks > 0, int(st.Quorum.RequiredAcks)
		}),
	},
	{
		// The primary seems to be gone though it is not: only the fence keeps it from acknowledging beside the new one.
		rule: "a member confirms once it receives nothing any more", snapshot: func(rec v1.MySQLTopologyStatus, s *topology.Snapshot) {
			if p := s.Instance(rec.Primary); p != nil && (rec.Phase == v1.TopologyStable || rec.Phase == v1.TopologyFencing) {
				p.Status, p.Pod = nil, topology.Pod{}
			}
			servers(func(rec v1.MySQLTopologyStatus, st *agentapi.Status, server *agentapi.ServerStatus) {
				if rec.Phase == v1.TopologyFencing {
					st.Epoch, server.FencedEpoch = rec.Epoch, rec.Epoch
				}
			})(rec, s)
		},
	},
	{
		rule: "confirmations and acknowledgements overlap", decision: func(old v1.MySQLTopologyStatus, d *failover.Decision) {
			if d.Record.Phase == v1.TopologyFencing && old.Phase != v1.TopologyFencing && d.Record.Quorum != nil && len(d.Record.Quorum.Members) > 1 {
				q := *d.Record.Quorum
				q.Members = slices.Clone(q.Members[:len(q.Members)-1])
				d.Record.Quorum = &q
			}
		},
	},
	{
		rule: "a new primary keeps its seat", decision: func(old v1.MySQLTopologyStatus, d *failover.Decision) {
			if promotes(old, d) {
				q := *d.Record.Quorum
				q.Members = slices.DeleteFunc(slices.Clone(q.Members), func(m v1.QuorumMember) bool { return m.Name == d.Record.Primary })
				q.RequiredAcks = min(q.RequiredAcks, int32(len(q.Members)))
				d.Record.Quorum = &q
			}
		},
	},
	{
		rule: "no more acks are recorded than seats that hold what a new primary shows",
		decision: func(old v1.MySQLTopologyStatus, d *failover.Decision) {
			if promotes(old, d) && old.Quorum != nil {
				q := *d.Record.Quorum
				q.RequiredAcks = old.Quorum.RequiredAcks
				d.Record.Quorum = &q
			}
		},
	},
	{
		rule: "the holder of everything is promoted", snapshot: servers(func(rec v1.MySQLTopologyStatus, st *agentapi.Status, server *agentapi.ServerStatus) {
			if rec.Phase == v1.TopologyFencing && st.Instance != "orders-1" && server.Replication != nil {
				r := *server.Replication
				r.Received = gtid.Set{}
				server.Replication, server.GTIDExecuted = &r, gtid.Set{}
			}
		}),
	},
	{
		rule: "a crashed primary reopens once members hold all of it", snapshot: received(v1.TopologyRecovering),
	},
	{
		rule: "writes have ended before a switchover", snapshot: servers(func(rec v1.MySQLTopologyStatus, st *agentapi.Status, server *agentapi.ServerStatus) {
			if rec.Phase == v1.TopologyDraining && st.Role == agentapi.RolePrimary {
				st.Role, st.Epoch = agentapi.RoleNone, rec.Epoch
				server.SuperReadOnly, server.SemiSync.SourceEnabled, server.SemiSync.WaitSessions = true, false, 0
			}
		}),
	},
}
