package failover_test

import (
	"testing"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// TestStoredQuorumIsSetAgain: the primary stored a quorum of the same number of acks and failed before it was in force. Its
// settings do not tell it; that its barrier waits would never end.
func TestStoredQuorumIsSetAgain(t *testing.T) {
	s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
	s.settle()
	s.spec.Instances = s.spec.Instances[:2]
	s.world.HalfDone("orders-0")
	for range 40 {
		s.pass()
	}
	if q := s.record.Quorum; len(q.Members) != 1 || s.record.Reason != v1.TopologyHealthy {
		t.Errorf("%s with %d members\n%s", s.record.Reason, len(q.Members), s.out.String())
	}
}

// TestBlockedIsLeftOnEvidenceOnly: the witness that holds more than the primary falls silent; the primary stays closed.
func TestBlockedIsLeftOnEvidenceOnly(t *testing.T) {
	s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
	s.spec.Failover.Manual = true
	s.settle()
	hear := func(name string, change func(*agentapi.Status)) {
		s.clock = s.clock.Add(1000)
		st, err := s.world.Status(name)
		if err != nil {
			t.Fatal(err)
		}
		change(&st)
		s.manager.Hear(st, s.clock, s.clock)
	}
	closed := func(st *agentapi.Status) { st.Server.ReadOnly, st.Server.SuperReadOnly = true, true }
	lost := func(st *agentapi.Status) {
		closed(st)
		st.Server.GTIDExecuted = st.Server.GTIDPurged
	}
	same := func(*agentapi.Status) {}
	plan := func(want v1.TopologyPhase) {
		t.Helper()
		d := s.manager.Plan(s.spec, s.record, s.clock)
		if len(d.Actions) > 0 || d.Record.Phase != want || want == v1.TopologyBlocked && d.Record.Reason != v1.TopologyPrimaryBehind {
			t.Fatalf("%s: %s/%s with %d actions, want %s", d.Row, d.Record.Phase, d.Record.Reason, len(d.Actions), want)
		}
		s.record = d.Record
	}
	hear("orders-0", lost)
	plan(v1.TopologyRecovering)
	hear("orders-0", lost)
	plan(v1.TopologyBlocked)
	message := s.record.Message
	s.manager.Lose("orders-1", s.clock)
	s.manager.Lose("orders-2", s.clock)
	hear("orders-0", lost)
	plan(v1.TopologyBlocked)
	s.spec.Suspend = true
	plan(v1.TopologyBlocked)
	s.spec.Suspend = false
	s.manager.Lose("orders-0", s.clock)
	plan(v1.TopologyBlocked)
	if s.record.Message != message {
		t.Errorf("the message forgets who held more: %q", s.record.Message)
	}
	hear("orders-1", same)
	hear("orders-2", same)
	hear("orders-0", closed) // What was lost is back, and everybody was heard.
	plan(v1.TopologyRecovering)
}

// TestHeldPrimaryWaitsForOthers: every node went down and comes back a minute later, the primary's first. It is not started in
// place just before its members answer, which would often cost it its data.
func TestHeldPrimaryWaitsForOthers(t *testing.T) {
	s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
	s.settle()
	for name := range s.up {
		s.world.StopPod(name)
		s.up[name] = false
	}
	s.settle()
	if s.record.Phase != v1.TopologyRecovering {
		t.Fatalf("%s with every pod gone", s.record.Phase)
	}
	s.clock = s.clock.Add(time.Minute)
	s.world.StartPod("orders-0")
	st, err := s.world.Status("orders-0")
	if err != nil {
		t.Fatal(err)
	}
	s.manager.SeePod("orders-0", true)
	s.manager.Hear(st, s.clock, s.clock)
	for _, test := range []struct {
		after time.Duration
		pod   topology.Pod
		row   string
	}{
		{0, topology.Pod{Exists: true, Bound: true}, "Recovering/primary-held-waits"},
		{2 * time.Second, topology.Pod{Exists: true, Bound: true}, "Recovering/primary-held-waits"},
		{2 * time.Second, topology.Pod{Exists: true}, "Recovering/primary-held"},
		{4 * time.Second, topology.Pod{Exists: true, Bound: true}, "Recovering/primary-held"},
	} {
		snap := s.manager.Snapshot(s.spec)
		for _, name := range []string{"orders-1", "orders-2"} {
			snap.Instance(name).Pod = test.pod
		}
		if d := failover.Plan(snap, s.record, s.clock.Add(test.after)); d.Row != test.row {
			t.Errorf("%s after it was held, the others' pods %+v: %s, want %s", test.after, test.pod, d.Row, test.row)
		}
	}
}

// TestSwitchoverOutlivesSilence: a target whose mysqld does not answer for a moment is waited for, though not for long, since
// writes are closed.
func TestSwitchoverOutlivesSilence(t *testing.T) {
	s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
	s.settle()
	s.spec.Switchover = &v1.SwitchoverRequest{ID: "1"}
	s.pass()
	if s.record.Phase != v1.TopologyDraining {
		t.Fatalf("%s after a switchover was asked for", s.record.Phase)
	}
	s.clock = s.clock.Add(10 * time.Millisecond)
	st, err := s.world.Status(s.record.Operation.Target)
	if err != nil {
		t.Fatal(err)
	}
	st.Server = nil
	s.manager.Hear(st, s.clock, s.clock)
	for after, row := range map[time.Duration]string{0: "Draining/drain", 2 * time.Second: "Draining/drain", 6 * time.Second: "Draining/give-up"} {
		if d := s.manager.Plan(s.spec, s.record, s.clock.Add(after)); d.Row != row {
			t.Errorf("%s later: %s, want %s", after, d.Row, row)
		}
	}
}
