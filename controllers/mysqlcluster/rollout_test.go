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
