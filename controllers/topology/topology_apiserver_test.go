//go:build apiserver

package topology_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
)

// TestNewClusterIsRouted: from nothing to clients let in; the labels, the record and the Events are right, and then, under
// write load, nothing is written any more.
func TestNewClusterIsRouted(t *testing.T) {
	f := newFixture(t, 1, 3, 200)
	sent, _ := f.startManager(false)
	f.eventually("healthy", f.healthy)
	st := f.topology().Status
	if st.Epoch != 1 || st.Primary != "orders-0" || st.Quorum.RequiredAcks != 1 || len(st.Quorum.Members) != 2 || st.Operation != nil {
		t.Fatalf("record: %+v", st)
	}
	f.eventually("labels", func() bool {
		p, r := f.pod(0).Labels, f.pod(1).Labels
		if f.pod(2).Labels[naming.LabelReadOnly] != "true" {
			return false
		}
		return p[naming.LabelRole] == naming.RolePrimary && p[naming.LabelReadOnly] == "" &&
			r[naming.LabelRole] == naming.RoleReplica && r[naming.LabelReadOnly] == "true"
	})
	f.expectEvents(failover.EventPrimaryPromoted, failover.EventMemberAdmitted, failover.EventClientsLetIn)
	f.expectQuiet(sent)
}

// expectQuiet waits for 20 heartbeats of every agent, in which transactions are committed, and allows no API write. Events
// are sent behind the lane's back, so the count begins once they are there.
func (f *fixture) expectQuiet(sent *traffic) {
	f.t.Helper()
	before := sent.writes.Load()
	first := f.heartbeats()
	commits := len(f.world.Acknowledged())
	f.eventually("20 heartbeats of each agent", func() bool {
		now := f.heartbeats()
		for name, n := range first {
			if now[name] < n+20 {
				return false
			}
		}
		return true
	})
	if now := len(f.world.Acknowledged()); now <= commits {
		f.t.Fatalf("no commits in the quiet time: %d before, %d after", commits, now)
	}
	if n := sent.writes.Load() - before; n != 0 {
		f.t.Errorf("%d API writes while nothing happened: %v", n, sent.since(before))
	}
}

func (f *fixture) heartbeats() map[string]uint64 {
	out := map[string]uint64{}
	for _, name := range f.topology().Spec.Instances {
		out[name] = f.world.Sent(name)
	}
	return out
}

// expectEvents waits for Events of the given reasons on the MySQLCluster.
func (f *fixture) expectEvents(reasons ...string) {
	f.t.Helper()
	f.eventually("events", func() bool {
		var list eventsv1.EventList
		must(api.List(context.Background(), &list, client.InNamespace(f.key.Namespace)))
		for _, reason := range reasons {
			if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
				return e.Reason == reason && e.Regarding.Kind == "MySQLCluster" && e.Regarding.Name == f.key.Name
			}) {
				return false
			}
		}
		return true
	})
}

// TestNextManagerFinishes: the leader dies in the middle of the bootstrap and gives nothing back.
func TestNextManagerFinishes(t *testing.T) {
	// Nothing that takes time ends before the gate opens, so the bootstrap cannot either.
	gate := make(chan struct{})
	f := newFixture(t, 1, 3, 0, fakeagent.WithTime(time.Now, func(d time.Duration, then func()) {
		go func() {
			select {
			case <-gate:
				time.AfterFunc(d, then)
			case <-t.Context().Done():
			}
		}()
	}))
	_, kill := f.startManager(true)
	f.eventually("an epoch is recorded", func() bool { return f.topology().Status.Epoch == 1 })
	kill()
	if f.topology().Status.Routed {
		t.Fatal("the bootstrap ended before the manager was killed")
	}
	close(gate)
	f.startManager(true)
	f.eventually("healthy", f.healthy)
	if st := f.topology().Status; st.Epoch != 1 || len(st.History) != 1 {
		t.Errorf("the second manager did not go on with the first one's record: %+v", st)
	}
}

// TestTwoManagersAtOnce: without any election both work on the same cluster; compare and swap decides.
func TestTwoManagersAtOnce(t *testing.T) {
	f := newFixture(t, 1, 3, 50)
	a, _ := f.startManager(false)
	b, _ := f.startManager(false)
	f.eventually("healthy", f.healthy)
	if st := f.topology().Status; st.Epoch != 1 || len(st.History) != 1 || len(st.Quorum.Members) != 2 {
		t.Errorf("record: %+v", st)
	}
	f.expectEvents(failover.EventClientsLetIn)
	t.Logf("conflicts: %d and %d", a.conflicts.Load(), b.conflicts.Load())
}

// TestForeignWriterOfTheObject: somebody changes the object just before the lane writes; every lost race is decided anew and
// nothing is lost.
func TestForeignWriterOfTheObject(t *testing.T) {
	const races = 4
	f := newFixture(t, 1, 2, 0)
	var meddled atomic.Int64
	f.meddle = func() {
		n := meddled.Add(1)
		if n > races {
			return
		}
		base := f.topology()
		changed := base.DeepCopy()
		changed.Annotations = map[string]string{"example.com/n": strconv.FormatInt(n, 10)}
		if err := api.Patch(context.WithoutCancel(t.Context()), changed, client.MergeFrom(base)); err != nil {
			t.Errorf("meddle: %v", err)
		}
	}
	sent, _ := f.startManager(false)
	f.eventually("healthy", f.healthy)
	if got := sent.conflicts.Load(); got < races {
		t.Errorf("%d conflicts, want at least %d", got, races)
	}
	if st := f.topology().Status; st.Epoch != 1 || len(st.History) != 1 {
		t.Errorf("record: %+v", st)
	}
}

// TestCrashedPrimaryIsReplaced: another instance takes over in an epoch of its own, and the former primary follows it.
func TestCrashedPrimaryIsReplaced(t *testing.T) {
	f := newFixture(t, 1, 3, 100)
	f.startManager(false)
	f.eventually("healthy", f.healthy)
	f.world.Crash("orders-0")
	f.expectEvents(failover.EventPrimaryLost, failover.EventPrimaryElected, failover.EventPrimaryPromoted)
	f.eventually("healthy again", f.healthy)
	if st := f.topology().Status; st.Epoch != 3 || st.Primary == "orders-0" || len(st.History) != 2 || st.History[1].Cause != v1.CauseFailover {
		t.Errorf("record: %+v", st)
	}
	if lost := f.world.Lost(); len(lost) > 0 {
		t.Error(lost)
	}
}

// TestCrashedPrimaryResumes in the same epoch, once a member holds everything, where nobody is to take over by itself.
func TestCrashedPrimaryResumes(t *testing.T) {
	f := newFixture(t, 1, 3, 100)
	f.startManager(false)
	f.eventually("healthy", f.healthy)
	base := f.topology()
	changed := base.DeepCopy()
	changed.Spec.Failover.Manual = true
	if err := api.Patch(t.Context(), changed, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	f.eventually("the lane has seen it", func() bool {
		topo := f.topology()
		return topo.Status.ObservedGeneration == topo.Generation
	})
	f.world.Crash("orders-0")
	f.expectEvents(failover.EventPrimaryLost, failover.EventPrimaryResumed)
	f.eventually("healthy again", f.healthy)
	if st := f.topology().Status; st.Epoch != 1 || st.Primary != "orders-0" {
		t.Errorf("record: %+v", st)
	}
}

// TestPrimaryPodIsReplaced: another instance takes over; the pod comes back from a template that still carries the role, which
// it has no more.
func TestPrimaryPodIsReplaced(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.startManager(false)
	f.eventually("healthy", f.healthy)
	f.stopPod(0)
	f.eventually("orders-1 is primary", func() bool {
		st := f.topology().Status
		return st.Phase == v1.TopologyStable && st.Primary == "orders-1"
	})
	f.world.StartPod("orders-0")
	f.startPod(0, naming.RolePrimary)
	f.eventually("healthy again", f.healthy)
	f.eventually("labels", func() bool {
		return f.pod(1).Labels[naming.LabelRole] == naming.RolePrimary && f.pod(0).Labels[naming.LabelRole] == naming.RoleReplica &&
			f.pod(0).Labels[naming.LabelReadOnly] == "true"
	})
}

// TestWrongRoleLabelIsCorrected even before the instance confirmed its role: a Service may lead by it.
func TestWrongRoleLabelIsCorrected(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.startManager(false)
	f.eventually("healthy", f.healthy)
	f.stopPod(1)
	f.world.StartPod("orders-1")
	f.world.Silence("orders-1", true)
	f.startPod(1, naming.RolePrimary)
	f.eventually("corrected label", func() bool { return f.pod(1).Labels[naming.LabelRole] == naming.RoleReplica })
	f.world.Silence("orders-1", false)
	f.eventually("healthy again", f.healthy)
}

// TestSilentPrimaryIsNotDead: its agent does not answer and its pod exists: nothing is done, the reason says so.
func TestSilentPrimaryIsNotDead(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.startManager(false)
	f.eventually("healthy", f.healthy)
	f.expectEvents(failover.EventClientsLetIn)
	f.world.Silence("orders-0", true)
	f.eventually("the silence is reported", func() bool { return f.topology().Status.Reason == v1.TopologyPrimaryUnreachable })
	if st := f.topology().Status; st.Phase != v1.TopologyStable || st.Epoch != 1 || !st.Routed {
		t.Errorf("record: %+v", st)
	}
	f.world.Silence("orders-0", false)
	f.eventually("healthy again", f.healthy)
}

// TestFailedCommandIsTriedAgain without hammering.
func TestFailedCommandIsTriedAgain(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	f.world.FailNext("orders-0", "Promote", "disk on fire")
	f.world.FailNext("orders-1", "Follow", "no route")
	f.startManager(false)
	f.eventually("healthy", f.healthy)
}
