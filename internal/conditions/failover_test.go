package conditions

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

func quorum(in *Input, acks int32, members ...string) {
	q := &v1.Quorum{Generation: 4, RequiredAcks: acks}
	for _, name := range members {
		q.Members = append(q.Members, v1.QuorumMember{Name: name})
	}
	in.Topology.Status.Quorum, in.Topology.Spec.Acks = q, acks
}

func failedOver(in *Input, ago ...time.Duration) {
	for _, d := range ago {
		in.Topology.Status.History = append(in.Topology.Status.History, v1.EpochRecord{Cause: v1.CauseFailover, PromotedAt: metav1.NewTime(now.Add(-d))})
	}
}

func TestFailoverReady(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"healthy":       {func(*Input) {}, "FailoverReady=True/Healthy m-1 or m-2 could take over from m-0: 2 are needed that confirm what they hold, and 2 could"},
		"no record":     {func(in *Input) { in.Topology = nil }, "FailoverReady=False/Bootstrapping"},
		"not let in":    {func(in *Input) { in.Topology.Status.Routed = false }, "FailoverReady=False/Bootstrapping"},
		"bootstrapping": {func(in *Input) { in.Topology.Status.Phase = v1.TopologyBootstrapping }, "FailoverReady=False/Bootstrapping"},
		"suspended":     {func(in *Input) { in.Suspended = true }, "FailoverReady=False/Suspended"},
		"deleting":      {func(in *Input) { in.Deleting = true }, "FailoverReady=False/Deleting"},
		"manual":        {func(in *Input) { in.Topology.Spec.Failover.Manual = true }, "FailoverReady=False/ManualMode"},
		"alone": {func(in *Input) {
			in.Instances = in.Instances[:1]
			quorum(in, 0)
		}, "FailoverReady=False/SingleInstance"},
		"the primary does not answer": {func(in *Input) {
			stop(in, "m-0", v1.InstanceUnreachable)
			in.Topology.Status.Reason = v1.TopologyPrimaryUnreachable
		}, "FailoverReady=True/Healthy"},
		// Two seats, one acknowledgement: either could be the one that has it.
		"one of two is down":           {func(in *Input) { stop(in, "m-2", v1.InstanceUnreachable) }, "FailoverReady=False/TooFewMembers 1 member could confirm what they hold; not serving: m-2"},
		"one of two is down, two acks": {func(in *Input) { quorum(in, 2, "m-1", "m-2"); stop(in, "m-2", v1.InstancePending) }, "FailoverReady=True/Healthy m-1 could take over from m-0: 1 are needed"},
		"one member is enough of one":  {func(in *Input) { quorum(in, 1, "m-1"); stop(in, "m-2", v1.InstanceCloning) }, "FailoverReady=True/Healthy m-1 could take over"},
		"a member that joins confirms": {func(in *Input) { stop(in, "m-2", v1.InstanceJoining) }, "FailoverReady=True/Healthy m-1 could take over from m-0: 2 are needed that confirm what they hold, and 2 could"},
		"a member that is broken does not": {func(in *Input) { stop(in, "m-2", v1.InstanceBroken) },
			"FailoverReady=False/TooFewMembers"},
		"nobody could be primary": {func(in *Input) { stop(in, "m-1", v1.InstanceJoining); stop(in, "m-2", v1.InstanceJoining) },
			"FailoverReady=False/NoCandidate"},
		// After a failover the primary has a seat of its own, and could not confirm if it were lost.
		"the primary has a seat": {func(in *Input) { quorum(in, 1, "m-0", "m-1", "m-2") },
			"FailoverReady=False/QuorumBeingRaised with 3 seats and 1 of them per commit a failover needs 3 that confirm, and 2 members could"},
		"the primary has a seat, two acks": {func(in *Input) { quorum(in, 2, "m-0", "m-1", "m-2") }, "FailoverReady=True/Healthy"},
		"the primary has a seat, and one is down": {func(in *Input) { quorum(in, 1, "m-0", "m-1", "m-2"); stop(in, "m-1", v1.InstancePending) },
			"FailoverReady=False/TooFewMembers"},
		"acks are raised": {func(in *Input) {
			quorum(in, 1, "m-1", "m-2", "m-3")
			in.Topology.Spec.Acks = 2
		}, "FailoverReady=False/QuorumBeingRaised"},
		"no acks yet": {func(in *Input) {
			quorum(in, 0, "m-1", "m-2")
			in.Topology.Spec.Acks = 1
		}, "FailoverReady=False/QuorumBeingRaised commits wait for no replica yet"},
		"five of late": {func(in *Input) {
			failedOver(in, time.Hour, 9*time.Minute, 4*time.Minute, 3*time.Minute, 2*time.Minute, time.Minute)
		}, "FailoverReady=False/FailoversCapped 5 failovers within 10m0s, spec.failover.maxFailovers allows 5: until 2026-05-01T12:01:00Z"},
		"five not of late": {func(in *Input) {
			failedOver(in, 11*time.Minute, 4*time.Minute, 3*time.Minute, 2*time.Minute, time.Minute)
		}, "FailoverReady=True/Healthy"},
		"as many as allowed": {func(in *Input) {
			in.Topology.Spec.Failover.MaxFailovers = 1
			failedOver(in, 9*time.Minute, time.Minute)
		}, "FailoverReady=False/FailoversCapped 2 failovers within 10m0s, spec.failover.maxFailovers allows 1: until 2026-05-01T12:09:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			in := healthy()
			tc.change(&in)
			_, conditions := Evaluate(in, nil, now)
			requireCondition(t, conditions, tc.want)
		})
	}
}

func TestCapEnds(t *testing.T) {
	in := healthy()
	if end := CapEnds(in.Topology, now); !end.IsZero() {
		t.Errorf("ends at %s without a failover", end)
	}
	in.Topology.Spec.Failover.MaxFailovers = 2
	failedOver(&in, 8*time.Minute, 3*time.Minute)
	if end, want := CapEnds(in.Topology, now), now.Add(2*time.Minute); !end.Equal(want) {
		t.Errorf("ends at %s, want %s", end, want)
	}
	if end := CapEnds(nil, now); !end.IsZero() {
		t.Errorf("ends at %s without a record", end)
	}
}
