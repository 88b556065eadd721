package mysqlcluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/conditions"
)

// TestTroubleOfAContainerIsNoEvidenceAgainstAnInstanceThatServes: a sidecar that crashes must not let a change replace a serving
// primary without the handshake.
func TestTroubleOfAContainerIsNoEvidenceAgainstAnInstanceThatServes(t *testing.T) {
	for state, want := range map[v1.InstanceState]bool{
		v1.InstanceRunning: false,
		v1.InstancePending: true,
		v1.InstanceBroken:  true,
	} {
		s := &scope{trouble: map[string]conditions.Problem{"orders-0": {Reason: reasonCrashLoop}}}
		s.live.statefulSets = map[string]*appsv1.StatefulSet{"orders-0": {}}
		s.live.pods = map[string]*corev1.Pod{"orders-0": {}}
		s.live.topology = &v1.MySQLTopology{Status: v1.MySQLTopologyStatus{Primary: "orders-0", Instances: []v1.TopologyInstance{{Name: "orders-0", State: state}}}}
		if got := s.rolloutInstance("orders-0").Broken; got != want {
			t.Errorf("%s: broken %t, want %t", state, got, want)
		}
	}
}

// TestNothingIsRemovedWhileAnotherPrimaryIsMade: a former primary is named by nothing in the record, and may be the only
// other one that holds everything.
func TestNothingIsRemovedWhileAnotherPrimaryIsMade(t *testing.T) {
	for phase, want := range map[v1.TopologyPhase]bool{
		v1.TopologyStable:     true,
		v1.TopologyRecovering: true,
		v1.TopologyBlocked:    true,
		v1.TopologyDraining:   false,
		v1.TopologyFencing:    false,
		v1.TopologyPromoting:  false,
	} {
		cluster := &v1.MySQLCluster{}
		cluster.Name, cluster.Spec.Replicas = "orders", 1
		s := &scope{cluster: cluster}
		s.live.topology = &v1.MySQLTopology{
			Spec:   v1.MySQLTopologySpec{Instances: []string{"orders-0"}},
			Status: v1.MySQLTopologyStatus{Phase: phase, Primary: "orders-0"},
		}
		if got := s.released("orders-1"); got != want {
			t.Errorf("%s: released %t, want %t", phase, got, want)
		}
	}
}
