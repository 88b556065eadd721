//go:build apiserver

package mysqlcluster_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

func annotate(t *testing.T, cluster *v1.MySQLCluster, key, value string) {
	t.Helper()
	mutate(t, cluster, func(c *v1.MySQLCluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		if c.Annotations[key] = value; value == "-" {
			delete(c.Annotations, key)
		}
	})
}

// waitTopology waits until the record's specification is as wanted.
func waitTopology(t *testing.T, cluster *v1.MySQLCluster, check func(v1.MySQLTopologySpec) bool) {
	t.Helper()
	eventually(t, func() error {
		topology := &v1.MySQLTopology{}
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), topology); err != nil {
			return err
		}
		if !check(topology.Spec) {
			return fmt.Errorf("the topology's specification is %+v", topology.Spec)
		}
		return nil
	})
}

func waitSwitchover(t *testing.T, cluster *v1.MySQLCluster, want v1.SwitchoverStatus) {
	t.Helper()
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if got := cluster.Status.Switchover; got == nil || *got != want {
			return fmt.Errorf("status.switchover is %+v, want %+v", got, want)
		}
		return nil
	})
}

// TestSwitchoverByAnnotation: the annotation reaches the topology lane, its answer the status and an Event; what cannot be read
// is named and changes nothing.
func TestSwitchoverByAnnotation(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	annotate(t, cluster, naming.AnnotationSwitchover, "orders-1@v1")
	waitSwitchover(t, cluster, v1.SwitchoverStatus{ID: "orders-1@v1", State: v1.SwitchoverDone, Message: "orders-1 is primary"})
	waitEvent(t, cluster, "SwitchoverDone", "orders-1@v1", "orders-1 is primary")
	waitEvent(t, cluster, "PrimaryChanged", "orders-1 is primary in epoch 2 (was orders-0): Switchover")
	if cluster.Status.Topology.Primary != "orders-1" {
		t.Errorf("the primary is %s", cluster.Status.Topology.Primary)
	}

	annotate(t, cluster, naming.AnnotationSwitchover, "order-2@v2")
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "InvalidAnnotation", "annotation porpoise.dev/switchover", `"order-2@v2"`, "TO@ANYTHING", "orders-0", `"any"`)
	waitEvent(t, cluster, "InvalidAnnotation", `"order-2@v2"`)
	waitCondition(t, cluster, v1.ConditionReady, metav1.ConditionTrue, "")
	settled(t, namespace)
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool {
		return s.Switchover != nil && *s.Switchover == v1.SwitchoverRequest{ID: "orders-1@v1", To: "orders-1"}
	})

	w.set(func(w *world) { w.refusal = "orders-7 is no instance of this cluster" })
	annotate(t, cluster, naming.AnnotationSwitchover, "orders-7")
	waitSwitchover(t, cluster, v1.SwitchoverStatus{ID: "orders-7", State: v1.SwitchoverRefused, Message: "orders-7 is no instance of this cluster"})
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionFalse, "")

	annotate(t, cluster, naming.AnnotationSwitchover, "any@v3")
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool {
		return s.Switchover != nil && *s.Switchover == v1.SwitchoverRequest{ID: "any@v3"}
	})
	annotate(t, cluster, naming.AnnotationSwitchover, "-")
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool { return s.Switchover == nil })
}

// TestAcceptedDataLoss: it reaches the topology lane although the specification is wrong.
func TestAcceptedDataLoss(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	annotate(t, cluster, naming.AnnotationAcceptDataLoss, "yes")
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "InvalidAnnotation", "annotation porpoise.dev/accept-data-loss", `"yes"`, "WHO@TIME")
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool { return s.AcceptDataLoss == nil })
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Version = "9.9" })
	annotate(t, cluster, naming.AnnotationAcceptDataLoss, "ann@example.org@2026-05-01T12:00:00Z")
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool {
		a := s.AcceptDataLoss
		return a != nil && a.ID == "ann@example.org@2026-05-01T12:00:00Z" && a.By == "ann@example.org" && a.At.UTC().Format("15:04") == "12:00"
	})
	waitCondition(t, cluster, v1.ConditionStalled, metav1.ConditionTrue, "UnknownVersion")
}

// TestFailoverSpec: the defaults of the schema and what is set reach the topology lane.
func TestFailoverSpec(t *testing.T) {
	namespace := newNamespace(t)
	startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	waitCondition(t, cluster, v1.ConditionFailoverReady, metav1.ConditionTrue, "Healthy", "orders-1 or orders-2 could take over from orders-0")
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Failover.Mode = v1.FailoverManual })
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool {
		return s.Failover == v1.TopologyFailover{Manual: true, MaxFailovers: 5}
	})
	waitCondition(t, cluster, v1.ConditionFailoverReady, metav1.ConditionFalse, "ManualMode")
	mutate(t, cluster, func(c *v1.MySQLCluster) {
		c.Spec.Failover = v1.FailoverSpec{MaxFailovers: 2, ErrantTransactions: v1.ErrantHold}
	})
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool {
		return s.Failover == v1.TopologyFailover{HoldErrant: true, MaxFailovers: 2}
	})
}

// TestChangeRestartsTheFormerPrimaryOnce: the primary hands over before its pod is replaced; nobody is restarted twice, and
// the one that took over keeps the role.
func TestChangeRestartsTheFormerPrimaryOnce(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	annotate(t, cluster, naming.AnnotationSwitchover, "orders-1")
	waitSwitchover(t, cluster, v1.SwitchoverStatus{ID: "orders-1", State: v1.SwitchoverDone, Message: "orders-1 is primary"})
	w.set(func(w *world) { w.hold = true })
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Config = map[string]v1.ConfigValue{"max_connections": "321"} })
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool { return s.Restarting == "orders-1" })
	settled(t, namespace)
	if got, want := w.restarted(), []string{"orders-0", "orders-2"}; !slices.Equal(got, want) {
		t.Errorf("restarted %v before the primary handed over, want %v", got, want)
	}
	w.set(func(w *world) { w.hold = false })
	waitRunning(t, cluster)
	if got, want := w.restarted(), []string{"orders-0", "orders-2", "orders-1"}; !slices.Equal(got, want) {
		t.Errorf("restarted %v, want %v", got, want)
	}
	if cluster.Status.Topology.Primary != "orders-0" {
		t.Errorf("the primary is %s, want orders-0, which took over", cluster.Status.Topology.Primary)
	}
}

// TestScaleInOfThePrimary: an instance that is no longer wanted stays until another one is primary.
func TestScaleInOfThePrimary(t *testing.T) {
	namespace := newNamespace(t)
	w := startWorld(t, namespace)
	cluster := newCluster(namespace)
	create(t, cluster)
	annotate(t, cluster, naming.AnnotationSwitchover, "orders-2")
	waitSwitchover(t, cluster, v1.SwitchoverStatus{ID: "orders-2", State: v1.SwitchoverDone, Message: "orders-2 is primary"})
	w.set(func(w *world) { w.hold = true })
	mutate(t, cluster, func(c *v1.MySQLCluster) { c.Spec.Replicas = 2 })
	waitTopology(t, cluster, func(s v1.MySQLTopologySpec) bool { return len(s.Instances) == 2 })
	waitCondition(t, cluster, v1.ConditionProgressing, metav1.ConditionTrue, "Scaling", "orders-2")
	settled(t, namespace)
	if children(t, namespace)["StatefulSet/orders-2"] == nil {
		t.Fatal("the primary was removed")
	}
	w.set(func(w *world) { w.hold = false })
	waitRunning(t, cluster)
	eventually(t, func() error {
		if children(t, namespace)["StatefulSet/orders-2"] != nil {
			return fmt.Errorf("orders-2 is still there")
		}
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		if got := cluster.Status.Topology.Primary; got != "orders-0" {
			return fmt.Errorf("the primary is %q", got)
		}
		return nil
	})
}
