package conditions

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// healthy is a cluster of three in which all is well.
func healthy() Input {
	t := &v1.MySQLTopology{Status: v1.MySQLTopologyStatus{
		Phase: v1.TopologyStable, Reason: v1.TopologyHealthy, Message: "all is well", Epoch: 1, Primary: "m-0", Routed: true,
		Quorum: &v1.Quorum{Generation: 3, RequiredAcks: 1, Members: []v1.QuorumMember{{Name: "m-1"}, {Name: "m-2"}}},
	}}
	for _, name := range []string{"m-0", "m-1", "m-2"} {
		t.Status.Instances = append(t.Status.Instances, v1.TopologyInstance{Name: name, State: v1.InstanceRunning, ServerUUID: "u-" + name})
	}
	return Input{Generation: 4, Instances: []string{"m-0", "m-1", "m-2"}, Topology: t, EverReady: true, CertificateMessage: "valid"}
}

func stop(in *Input, name string, state v1.InstanceState) {
	for i := range in.Topology.Status.Instances {
		if in.Topology.Status.Instances[i].Name == name {
			in.Topology.Status.Instances[i].State = state
		}
	}
}

func topologyIs(in *Input, phase v1.TopologyPhase, reason, message string, operation v1.OperationType) {
	s := &in.Topology.Status
	s.Phase, s.Reason, s.Message = phase, reason, message
	if operation != "" {
		s.Operation = &v1.TopologyOperation{ID: "x", Type: operation, Target: "m-1"}
	}
}

func TestEvaluate(t *testing.T) {
	quota := Problem{Reason: "QuotaExceeded", Message: "exceeded quota: small"}
	for name, tc := range map[string]struct {
		change func(*Input)
		phase  v1.ClusterPhase
		// want lists conditions as Type=Status/Reason, and message parts after a space.
		want []string
	}{
		"healthy": {
			func(*Input) {}, v1.PhaseRunning,
			[]string{"Ready=True/Ready m-0 takes writes, acknowledged by 1 replica", "PrimaryAvailable=True/Healthy", "Replicating=True/Healthy", "QuorumHealthy=True/Healthy", "WritesBlocked=False/WritesPossible", "Progressing=False/Stable", "CertificatesValid=True/Valid", "Stalled=False/None"},
		},
		"just made": {
			func(in *Input) { *in = Input{Instances: []string{"m-0"}} }, v1.PhaseCreating,
			[]string{"Ready=False/Creating", "PrimaryAvailable=False/NoPrimary", "WritesBlocked=True/Creating", "Progressing=True/Creating", "QuorumHealthy=False/Creating", "Stalled=False/None"},
		},
		"cannot be made": {
			func(in *Input) { *in = Input{Instances: []string{"m-0"}, Problems: []Problem{quota}} }, v1.PhasePending,
			[]string{"Ready=False/QuotaExceeded exceeded quota: small", "WritesBlocked=True/QuotaExceeded", "Stalled=True/QuotaExceeded exceeded quota: small"},
		},
		"ready the first time, the last replica still missing": {
			func(in *Input) { in.EverReady = false; stop(in, "m-2", v1.InstanceUnreachable) }, v1.PhaseCreating,
			[]string{"Ready=True/Ready", "Replicating=False/ReplicasDown m-2", "Progressing=True/Creating"},
		},
		"a problem changes nothing that works": {
			func(in *Input) { in.Problems = []Problem{quota, {Reason: "X", Message: "and more"}} }, v1.PhaseRunning,
			[]string{"Ready=True/Ready", "Stalled=True/QuotaExceeded exceeded quota: small; and more"},
		},
		"a replica is down": {
			func(in *Input) { stop(in, "m-2", v1.InstanceUnreachable) }, v1.PhaseDegraded,
			[]string{"Ready=True/Ready", "Replicating=False/ReplicasDown m-2", "QuorumHealthy=True/Healthy", "WritesBlocked=False/WritesPossible"},
		},
		"a replica is no member": {
			func(in *Input) { in.Topology.Status.Quorum.Members = in.Topology.Status.Quorum.Members[:1] }, v1.PhaseDegraded,
			[]string{"Ready=True/Ready", "Replicating=False/ReplicasDown m-2"},
		},
		"no member serves": {
			func(in *Input) { stop(in, "m-1", v1.InstanceStarting); stop(in, "m-2", v1.InstancePending) }, v1.PhaseBlocked,
			[]string{"Ready=False/TooFewMembers a commit waits for 1 replica and 0 members serve; not serving: m-1, m-2", "PrimaryAvailable=True/Healthy", "QuorumHealthy=False/TooFewMembers", "WritesBlocked=True/TooFewMembers m-1, m-2"},
		},
		"no member is heard": {
			func(in *Input) { stop(in, "m-1", v1.InstanceUnreachable); stop(in, "m-2", v1.InstancePending) }, v1.PhaseUnknown,
			[]string{"Ready=False/TooFewMembers", "WritesBlocked=Unknown/TooFewMembers m-1, m-2"},
		},
		"the primary is not heard": {
			func(in *Input) {
				stop(in, "m-0", v1.InstanceUnreachable)
				in.Topology.Status.Reason, in.Topology.Status.Message = v1.TopologyPrimaryUnreachable, "m-0 does not answer"
			}, v1.PhaseUnknown,
			[]string{"Ready=False/PrimaryUnreachable", "WritesBlocked=Unknown/PrimaryUnreachable m-0"},
		},
		"a change restarts the primary": {
			func(in *Input) {
				in.Change, in.Topology.Spec.Restarting = "restarting m-0", "m-0"
				s := &in.Topology.Status
				s.Phase, s.Reason, s.Message = v1.TopologyRecovering, v1.TopologyPrimaryStarting, "m-0 is starting"
			}, v1.PhaseUpdating,
			[]string{"Ready=False/PrimaryStarting", "Progressing=True/Updating restarting m-0", "WritesBlocked=True/PrimaryStarting"},
		},
		"a replica is rebuilt": {
			func(in *Input) { stop(in, "m-2", v1.InstanceCloning) }, v1.PhaseDegraded,
			[]string{"Ready=True/Ready", "Progressing=True/Scaling adding m-2"},
		},
		"the topology lane says that writes are blocked": {
			func(in *Input) {
				in.Topology.Status.Reason, in.Topology.Status.Message = v1.TopologyWritesBlocked, "m-1 is missing"
			}, v1.PhaseBlocked,
			[]string{"Ready=False/WritesBlocked m-1 is missing", "WritesBlocked=True/WritesBlocked m-1 is missing"},
		},
		"the primary is being brought back": {
			func(in *Input) {
				s := &in.Topology.Status
				s.Phase, s.Reason, s.Message = v1.TopologyRecovering, v1.TopologyPrimaryStarting, "m-0 is starting"
			}, v1.PhaseBlocked,
			[]string{"Ready=False/PrimaryStarting m-0 is starting", "PrimaryAvailable=False/PrimaryStarting", "WritesBlocked=True/PrimaryStarting m-0 is starting"},
		},
		"clients were not let in yet": {
			func(in *Input) { in.EverReady, in.Topology.Status.Routed = false, false }, v1.PhaseCreating,
			[]string{"Ready=False/Healthy", "PrimaryAvailable=False/Healthy"},
		},
		"a change rolls": {
			func(in *Input) { in.Change = "restarting m-1" }, v1.PhaseUpdating,
			[]string{"Ready=True/Ready", "Progressing=True/Updating restarting m-1"},
		},
		"an instance leaves": {
			func(in *Input) { in.Leaving = []string{"m-3"} }, v1.PhaseRunning,
			[]string{"Progressing=True/Scaling removing m-3"},
		},
		"an instance is added": {
			func(in *Input) { in.Instances = append(in.Instances, "m-3") }, v1.PhaseDegraded,
			[]string{"Progressing=True/Scaling adding m-3"},
		},
		"alone": {
			func(in *Input) {
				in.Instances = []string{"m-0"}
				in.Topology.Status.Quorum = &v1.Quorum{Generation: 1}
			}, v1.PhaseRunning,
			[]string{"Ready=True/Ready m-0 takes writes, acknowledged by no replica", "Replicating=True/NoReplicas"},
		},
		"suspended": {
			func(in *Input) { in.Suspended = true }, v1.PhaseRunning,
			[]string{"Progressing=False/Suspended"},
		},
		"deleting": {
			func(in *Input) { in.Deleting = true }, v1.PhaseDeleting,
			[]string{"Ready=False/Deleting", "Progressing=True/Deleting"},
		},
		"a request cannot be read": {
			func(in *Input) {
				in.EverReady, in.Topology = false, nil
				in.Requests = []Problem{{Reason: "InvalidAnnotation", Message: "annotation x"}}
			}, v1.PhaseCreating,
			[]string{"Stalled=True/InvalidAnnotation annotation x", "Ready=False/Creating"},
		},
		"the primary is a member of its own quorum": {
			func(in *Input) {
				members := &in.Topology.Status.Quorum.Members
				*members = append(*members, v1.QuorumMember{Name: "m-0"})
				stop(in, "m-1", v1.InstanceUnreachable)
				stop(in, "m-2", v1.InstancePending)
				in.Topology.Status.Instances[1].State = v1.InstanceStarting
			}, v1.PhaseBlocked,
			[]string{"Ready=False/TooFewMembers 0 members serve", "QuorumHealthy=False/TooFewMembers", "WritesBlocked=True/TooFewMembers"},
		},
		"members are being fenced": {
			func(in *Input) {
				topologyIs(in, v1.TopologyFencing, v1.TopologyFencingMembers, "m-0 is lost", v1.OperationFailover)
			}, v1.PhaseFailingOver,
			[]string{"Ready=False/FencingMembers m-0 is lost", "PrimaryAvailable=False/FencingMembers", "WritesBlocked=True/FencingMembers m-0 is lost", "FailoverReady=False/FailingOver m-0 is lost"},
		},
		"a primary is lost in the middle of a change": {
			func(in *Input) {
				in.Change, in.Topology.Spec.Restarting = "restarting m-0", "m-0"
				topologyIs(in, v1.TopologyFencing, v1.TopologyFencingMembers, "m-0 is lost", v1.OperationFailover)
			}, v1.PhaseFailingOver,
			[]string{"Progressing=True/Updating restarting m-0"},
		},
		"another instance is being opened": {
			func(in *Input) {
				topologyIs(in, v1.TopologyPromoting, v1.TopologyOpening, "opening m-1", v1.OperationFailover)
			}, v1.PhaseFailingOver,
			[]string{"Ready=False/Opening opening m-1", "WritesBlocked=True/Opening", "FailoverReady=False/FailingOver"},
		},
		"a switchover": {
			func(in *Input) {
				topologyIs(in, v1.TopologyDraining, v1.TopologyDrainingPrimary, "m-0 ends its writes", v1.OperationSwitchover)
			}, v1.PhaseSwitchingOver,
			[]string{"Ready=False/DrainingPrimary", "WritesBlocked=True/DrainingPrimary m-0 ends its writes", "FailoverReady=False/SwitchingOver"},
		},
		"the target of a switchover is being opened": {
			func(in *Input) {
				topologyIs(in, v1.TopologyPromoting, v1.TopologyOpening, "opening m-1", v1.OperationSwitchover)
			}, v1.PhaseSwitchingOver,
			[]string{"FailoverReady=False/SwitchingOver"},
		},
		"a change switches over": {
			func(in *Input) {
				in.Change, in.Topology.Spec.Restarting = "restarting m-0", "m-0"
				topologyIs(in, v1.TopologyDraining, v1.TopologyDrainingPrimary, "m-0 ends its writes", v1.OperationSwitchover)
			}, v1.PhaseUpdating,
			[]string{"WritesBlocked=True/DrainingPrimary"},
		},
		"a loss is to be accepted": {
			func(in *Input) {
				topologyIs(in, v1.TopologyBlocked, v1.TopologyMembersLost, "m-0 is lost", "")
			}, v1.PhaseBlocked,
			[]string{"WritesBlocked=True/MembersLost m-0 is lost", "FailoverReady=False/MembersLost"},
		},
		"a certificate cannot be kept": {
			func(in *Input) { in.CertificateProblem = &Problem{Reason: "Forbidden", Message: "no"} }, v1.PhaseRunning,
			[]string{"CertificatesValid=False/Forbidden no"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := healthy()
			tc.change(&in)
			phase, conditions := Evaluate(in, nil, now)
			if phase != tc.phase {
				t.Errorf("phase %s, want %s", phase, tc.phase)
			}
			if len(conditions) != 9 {
				t.Errorf("%d conditions, want 9", len(conditions))
			}
			for _, want := range tc.want {
				requireCondition(t, conditions, want)
			}
		})
	}
}

func requireCondition(t *testing.T, conditions []metav1.Condition, want string) {
	t.Helper()
	head, message, _ := strings.Cut(want, " ")
	kind, _, _ := strings.Cut(head, "=")
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		t.Fatalf("no condition %s", kind)
	}
	if got := kind + "=" + string(c.Status) + "/" + c.Reason; got != head || !strings.Contains(c.Message, message) {
		t.Errorf("got %s %q, want %s", got, c.Message, want)
	}
}

// TestTransitions: lastTransitionTime moves only when a status changes, and the same input gives the same conditions.
func TestTransitions(t *testing.T) {
	in := healthy()
	_, first := Evaluate(in, nil, now)
	_, again := Evaluate(in, first, now.Add(time.Hour))
	for i := range first {
		if first[i] != again[i] {
			t.Errorf("%s changed without a cause: %+v", first[i].Type, again[i])
		}
	}
	stop(&in, "m-2", v1.InstanceUnreachable)
	_, later := Evaluate(in, again, now.Add(2*time.Hour))
	for _, c := range later {
		moved := !c.LastTransitionTime.Equal(&metav1.Time{Time: now})
		if moved != (c.Type == v1.ConditionReplicating || c.Type == v1.ConditionFailoverReady) {
			t.Errorf("%s: lastTransitionTime %s", c.Type, c.LastTransitionTime)
		}
	}
}

// TestTransitionTimeOfChangedMessage: a new message or reason is no transition.
func TestTransitionTimeOfChangedMessage(t *testing.T) {
	in := healthy()
	in.Problems = []Problem{{Reason: "A", Message: "a"}}
	_, first := Evaluate(in, nil, now)
	in.Problems = []Problem{{Reason: "B", Message: strings.Repeat("b", 10000)}}
	_, second := Evaluate(in, first, now.Add(time.Hour))
	c := meta.FindStatusCondition(second, v1.ConditionStalled)
	if c.Reason != "B" || !c.LastTransitionTime.Equal(&metav1.Time{Time: now}) || len(c.Message) > 4096 {
		t.Errorf("reason %s, transition %s, %d bytes", c.Reason, c.LastTransitionTime, len(c.Message))
	}
}

func TestEveryPhaseHasARow(t *testing.T) {
	rows := map[v1.ClusterPhase]bool{}
	for _, row := range phases {
		rows[row.phase] = true
	}
	for _, phase := range []v1.ClusterPhase{v1.PhasePending, v1.PhaseCreating, v1.PhaseRunning, v1.PhaseDegraded, v1.PhaseFailingOver, v1.PhaseSwitchingOver, v1.PhaseUpdating, v1.PhaseBlocked, v1.PhaseUnknown, v1.PhaseDeleting} {
		if !rows[phase] {
			t.Errorf("phase %s has no row", phase)
		}
	}
	if last := phases[len(phases)-1]; !last.when(Input{}, facts{}) {
		t.Error("the last row does not always hold")
	}
}
