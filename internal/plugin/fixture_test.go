package plugin

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const (
	uuidPrimary = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidOther   = "5f22fa47-71ca-11e1-9e33-c80aa9429562"
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func mustSet(text string) gtid.Set {
	set, err := gtid.Parse(text)
	if err != nil {
		panic(err)
	}
	return set
}

// healthy is the cluster orders with three instances, of which orders-1 is primary.
func healthy() Sources {
	s := Sources{ObservedAt: now, Cluster: healthyCluster(), Topology: healthyTopology(), Agents: map[string]AgentAnswer{}}
	for _, name := range []string{"orders-0", "orders-1", "orders-2"} {
		s.Pods = append(s.Pods, pod(name))
		s.Agents[name] = AgentAnswer{Status: replicaStatus(name, uuidPrimary+":1-1000")}
	}
	s.Agents["orders-1"] = AgentAnswer{Status: primaryStatus(uuidPrimary + ":1-1002")}
	s.Events = []corev1.Event{
		event("MySQLCluster", "orders", "Normal", "PrimaryElected", "orders-1 is primary in epoch 7", 26*time.Hour),
		event("Pod", "orders-0-0", "Warning", "Unhealthy", "Readiness probe failed", 3*time.Minute),
	}
	return s
}

func healthyCluster() *porpoisev1.MySQLCluster {
	c := &porpoisev1.MySQLCluster{}
	c.Name, c.Namespace, c.CreationTimestamp, c.Generation = "orders", "shop", ago(72*time.Hour), 3
	c.Spec.Version, c.Spec.Replicas = "9.7", 3
	c.Status = porpoisev1.MySQLClusterStatus{
		ObservedGeneration: 3, Phase: porpoisev1.PhaseRunning, Ready: true, Replicas: 3, ReadyReplicas: 3,
		Image:     "porpoise.dev/mysql:9.7.4",
		Topology:  porpoisev1.TopologySummary{Primary: "orders-1", Epoch: 7, RequiredAcks: 1, Members: []string{"orders-0", "orders-2"}},
		Revisions: porpoisev1.Revisions{Stable: "5f7c9", Target: "5f7c9"},
		Conditions: []metav1.Condition{
			condition(porpoisev1.ConditionReady, metav1.ConditionTrue, "Ready", "a primary takes writes"),
			condition(porpoisev1.ConditionWritesBlocked, metav1.ConditionFalse, "Writable", ""),
			condition(porpoisev1.ConditionStalled, metav1.ConditionFalse, "NotStalled", ""),
		},
	}
	for _, name := range []string{"orders-0", "orders-1", "orders-2"} {
		role := porpoisev1.RoleReplica
		if name == "orders-1" {
			role = porpoisev1.RolePrimary
		}
		c.Status.Instances = append(c.Status.Instances, porpoisev1.InstanceStatus{
			Name: name, Role: role, State: porpoisev1.InstanceRunning, Revision: "5f7c9", Version: "9.7.4", Node: "node-1",
		})
	}
	return c
}

func healthyTopology() *porpoisev1.MySQLTopology {
	t := &porpoisev1.MySQLTopology{}
	t.Name, t.Namespace = "orders", "shop"
	t.Spec = porpoisev1.MySQLTopologySpec{ClusterID: "c1", Acks: 1, Instances: []string{"orders-0", "orders-1", "orders-2"}}
	t.Status = porpoisev1.MySQLTopologyStatus{
		Phase: porpoisev1.TopologyStable, Epoch: 7, Primary: "orders-1", Routed: true,
		History: []porpoisev1.EpochRecord{{Epoch: 7, Instance: "orders-1", PromotedAt: ago(26 * time.Hour)}},
		Quorum: &porpoisev1.Quorum{Generation: 4, RequiredAcks: 1, Members: []porpoisev1.QuorumMember{
			{Name: "orders-0", ServerUUID: uuidOther}, {Name: "orders-2", ServerUUID: uuidOther},
		}},
	}
	for _, i := range healthyCluster().Status.Instances {
		t.Status.Instances = append(t.Status.Instances, porpoisev1.TopologyInstance{Name: i.Name, Role: i.Role, State: i.State, Version: i.Version})
	}
	return t
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(90 * time.Second)}
}

func pod(instance string) corev1.Pod {
	p := corev1.Pod{}
	p.Name, p.Namespace = naming.Pod(instance), "shop"
	p.Labels = naming.InstanceLabels("orders", instance)
	p.Annotations = map[string]string{naming.AnnotationRevision: "5f7c9"}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

func event(kind, name, severity, reason, message string, since time.Duration) corev1.Event {
	e := corev1.Event{Type: severity, Reason: reason, Message: message, LastTimestamp: ago(since), Count: 1}
	e.Name, e.Namespace = name+"."+reason, "shop"
	e.InvolvedObject = corev1.ObjectReference{Kind: kind, Name: name, Namespace: "shop"}
	if kind == "MySQLCluster" || kind == "MySQLTopology" {
		e.InvolvedObject.APIVersion = "porpoise.dev/v1"
	}
	return e
}

func primaryStatus(executed string) *agentapi.Status {
	return &agentapi.Status{
		APIVersion: 1, AgentVersion: "v0.1.0", Instance: "orders-1", Role: agentapi.RolePrimary, Epoch: 7,
		Data:    agentapi.DataStatus{State: agentapi.DataReady, ServerUUID: uuidPrimary},
		Process: agentapi.ProcessStatus{State: agentapi.ProcessRunning, Version: "9.7.4"},
		Server: &agentapi.ServerStatus{
			GTIDExecuted: mustSet(executed),
			SemiSync:     agentapi.SemiSyncStatus{SourceEnabled: true, WaitForReplicaCount: 1, Clients: 2},
		},
	}
}

func replicaStatus(name, executed string) *agentapi.Status {
	return &agentapi.Status{
		APIVersion: 1, AgentVersion: "v0.1.0", Instance: name, Role: agentapi.RoleReplica, Epoch: 7,
		Data:    agentapi.DataStatus{State: agentapi.DataReady, ServerUUID: uuidOther},
		Process: agentapi.ProcessStatus{State: agentapi.ProcessRunning, Version: "9.7.4"},
		Server: &agentapi.ServerStatus{
			SuperReadOnly: true, ReadOnly: true, GTIDExecuted: mustSet(executed),
			Replication: &agentapi.ReplicationStatus{
				SourceHost: naming.Host("orders", "shop", "orders-1"), Receiver: "ON", Applier: "ON", LagSeconds: new(0.04),
				Received: mustSet(uuidPrimary + ":1-1001"), LastHeard: now.Add(-time.Second), SemiSyncActive: true,
			},
		},
	}
}
