package plugin

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./internal/plugin -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// degraded has one instance of each trouble.
func degraded() Sources {
	s := healthy()
	s.Cluster.Generation = 4
	s.Cluster.Status.Phase, s.Cluster.Status.Ready, s.Cluster.Status.ReadyReplicas = porpoisev1.PhaseDegraded, false, 1
	s.Cluster.Status.Revisions.Target = "77aa1"
	s.Cluster.Status.Conditions = []metav1.Condition{
		condition(porpoisev1.ConditionReady, metav1.ConditionFalse, "QuorumLost", "1 of 2 members can acknowledge"),
		condition(porpoisev1.ConditionWritesBlocked, metav1.ConditionTrue, "AcksMissing", "commits wait for 2 acks, 1 member is connected; they go on when orders-2 is back"),
		condition(porpoisev1.ConditionReplicating, metav1.ConditionUnknown, "AgentsSilent", ""),
		condition(porpoisev1.ConditionStalled, metav1.ConditionFalse, "NotStalled", ""),
	}
	s.Topology.Spec.Acks = 2
	s.Topology.Status.Operation = &porpoisev1.TopologyOperation{ID: "x", Type: porpoisev1.OperationResume, Target: "orders-1", StartedAt: ago(4 * time.Second)}
	s.Topology.Status.Instances[2].State, s.Topology.Status.Instances[2].Message = porpoisev1.InstanceUnreachable, "its agent does not answer for 30 s"
	s.Pods[2].Status.Conditions[0].Status = corev1.ConditionFalse
	s.Pods[1].Annotations = map[string]string{"porpoise.dev/revision": "77aa1"}
	s.Agents["orders-2"] = AgentAnswer{Reason: "agent did not answer within 5s"}
	errant := replicaStatus("orders-0", uuidPrimary+":1-900,"+uuidOther+":1-2")
	errant.Server.SuperReadOnly, errant.Server.ReadOnly = false, false
	errant.Process.Exits, errant.Process.LastExit = 2, "signal: killed"
	errant.Server.Replication.Applier, errant.Server.Replication.ApplierError = "OFF", "Duplicate entry '7' for key 'PRIMARY'"
	errant.Server.Replication.LagSeconds = new(75.0)
	s.Agents["orders-0"] = AgentAnswer{Status: errant}
	s.Agents["orders-1"].Status.Server.SemiSync.WaitSessions = 3
	s.Notes = []string{"the table of notes is last"}
	return s
}

// failedOver is a moment after a failover: the former primary is held, another instance is still fenced.
func failedOver() Sources {
	s := healthy()
	s.Topology.Status.History = nil
	for i, name := range []string{"orders-0", "orders-1", "orders-2", "orders-0", "orders-2", "orders-1"} {
		s.Topology.Status.History = append(s.Topology.Status.History, porpoisev1.EpochRecord{
			Epoch: int64(2*i + 1), Instance: name, Cause: porpoisev1.CauseFailover, PromotedAt: ago(time.Duration(6-i) * time.Hour),
		})
	}
	s.Topology.Status.History[4].Cause = porpoisev1.CauseSwitchover
	s.Topology.Status.Epoch = 11
	s.Topology.Status.Switchover = &porpoisev1.SwitchoverStatus{ID: "orders-2@v9", State: porpoisev1.SwitchoverRefused, Message: "orders-2 lags"}
	s.Topology.Status.AcceptedDataLoss = &porpoisev1.DataLossAcceptance{ID: "a", By: "ann", At: ago(time.Hour)}
	s.Topology.Spec.AcceptDataLoss = &porpoisev1.DataLossAcceptance{ID: "b", By: "bob", At: ago(48 * time.Hour)}
	s.Cluster.Status.Conditions = append(s.Cluster.Status.Conditions,
		condition(porpoisev1.ConditionFailoverReady, metav1.ConditionFalse, "QuorumBeingRaised", "1 member could confirm"))
	held := replicaStatus("orders-2", uuidPrimary+":1-1000")
	held.Server, held.Process.State, held.Process.LastExit = nil, agentapi.ProcessHeld, "signal: killed"
	s.Agents["orders-2"] = AgentAnswer{Status: held}
	fenced := replicaStatus("orders-0", uuidPrimary+":1-1000")
	fenced.Epoch, fenced.Server.FencedEpoch = 10, 10
	fenced.Data.CutTail, fenced.Data.Quarantined = "3 transactions that were never acknowledged (x:1-3) were cut off; saved in tails/x.binlog", "2 transactions saved in quarantine/x.binlog"
	s.Agents["orders-0"] = AgentAnswer{Status: fenced}
	return s
}

// failoverReady knows how much would have to be applied.
func failoverReady() Sources {
	s := healthy()
	s.Cluster.Status.Conditions = append(s.Cluster.Status.Conditions,
		condition(porpoisev1.ConditionFailoverReady, metav1.ConditionTrue, "Healthy", "orders-0 or orders-2 could take over"))
	s.Topology.Status.Switchover = &porpoisev1.SwitchoverStatus{ID: "any@v9", State: porpoisev1.SwitchoverDone, Message: "orders-1 is primary in epoch 7"}
	return s
}

// creating is what there is a moment after the object was made.
func creating() Sources {
	c := &porpoisev1.MySQLCluster{}
	c.Name, c.Namespace, c.CreationTimestamp, c.Generation = "orders", "shop", ago(time.Second), 1
	c.Spec.Version, c.Spec.Replicas = "9.7", 3
	return Sources{ObservedAt: now, Cluster: c, Notes: []string{"no record yet: MySQLTopology orders does not exist"}}
}

// withoutRights is what someone sees who may read the cluster's objects only.
func withoutRights() Sources {
	s := healthy()
	s.Agents = nil
	s.Notes = []string{missingRight(liveColumns, "get", "secrets/orders-viewer-tls", "shop")}
	return s
}

func TestRender(t *testing.T) {
	tests := []struct {
		name    string
		sources Sources
		options RenderOptions
	}{
		{"healthy.txt", healthy(), RenderOptions{}},
		{"healthy-color.txt", healthy(), RenderOptions{Color: true, Full: true}},
		{"degraded.txt", degraded(), RenderOptions{}},
		{"failed-over.txt", failedOver(), RenderOptions{}},
		{"failover-ready.txt", failoverReady(), RenderOptions{}},
		{"creating.txt", creating(), RenderOptions{}},
		{"without-rights.txt", withoutRights(), RenderOptions{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { golden(t, tt.name, Render(Build(tt.sources), tt.options)) })
	}
}

func TestJSONKeepsItsFields(t *testing.T) {
	text, err := encode("json", Build(degraded()))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "degraded.json", text)
}

func TestACommitThatThePrimaryStillWaitsForIsNotErrant(t *testing.T) {
	s := healthy()
	s.Agents["orders-0"] = AgentAnswer{Status: replicaStatus("orders-0", uuidPrimary+":1-1003")}
	live := Build(s).Instances[1].Live
	if live.ErrantGTIDs != nil {
		t.Errorf("errant %v, want none: %s:1003 was first committed on the primary", live.ErrantGTIDs, uuidPrimary)
	}
	if *live.TransactionsBehind != 0 {
		t.Errorf("behind %d, want 0", *live.TransactionsBehind)
	}
}

func TestHostileDataNeitherPanicsNorReachesTheTerminal(t *testing.T) {
	evil := "\x1b]0;pwned\a\x1b[2J\r\n\u202Eabc\x9b31m\xff"
	for name, s := range hostile(evil) {
		t.Run(name, func(t *testing.T) {
			report := Build(s)
			text := Render(report, RenderOptions{Full: true})
			if strings.ContainsAny(text, "\x1b\a\r\u202E\u009b") {
				t.Errorf("control characters reach the terminal: %q", text)
			}
			if _, err := json.Marshal(report); err != nil {
				t.Errorf("encode as JSON: %v", err)
			}
		})
	}
}

func hostile(evil string) map[string]Sources {
	out := map[string]Sources{}
	out["nothing but the object"] = Sources{Cluster: &porpoisev1.MySQLCluster{}}
	out["empty record"] = Sources{Cluster: healthyCluster(), Topology: &porpoisev1.MySQLTopology{}}
	noServer := healthy()
	noServer.Agents["orders-1"] = AgentAnswer{Status: &agentapi.Status{}}
	noServer.Agents["orders-9"] = AgentAnswer{}
	out["agents without server"] = noServer
	s := degraded()
	s.Cluster.Name, s.Cluster.Namespace, s.Cluster.Spec.Version = evil, evil, evil
	s.Cluster.Spec.Replicas = math.MinInt32
	s.Cluster.Status.Phase = porpoisev1.ClusterPhase(evil)
	s.Cluster.Status.Conditions = append(s.Cluster.Status.Conditions, condition(evil, metav1.ConditionStatus(evil), evil, evil))
	s.Topology.Status.Primary, s.Topology.Status.Message = "gone-7", evil
	s.Topology.Status.Operation.Target = evil
	s.Topology.Status.Quorum.Members[0].Name = evil
	s.Topology.Status.Switchover = &porpoisev1.SwitchoverStatus{ID: evil, State: porpoisev1.SwitchoverState(evil), Message: evil}
	s.Topology.Spec.AcceptDataLoss = &porpoisev1.DataLossAcceptance{ID: evil, By: evil}
	s.Topology.Status.AcceptedDataLoss = &porpoisev1.DataLossAcceptance{ID: "other", By: evil}
	s.Topology.Status.History = append(s.Topology.Status.History, porpoisev1.EpochRecord{Instance: evil, Cause: porpoisev1.PromotionCause(evil)})
	s.Agents["orders-0"].Status.Data.CutTail, s.Agents["orders-0"].Status.Data.Quarantined = evil, evil
	s.Pods = append(s.Pods, corev1.Pod{}, pod(evil))
	s.Events = append(s.Events, corev1.Event{}, event(evil, evil, evil, evil, evil, -time.Hour))
	s.Agents["orders-0"].Status.Server.Replication.ReceiverError = evil
	s.Agents["orders-0"].Status.Operation = &agentapi.OperationStatus{Running: true, Type: agentapi.CommandType(evil), Progress: evil}
	s.Agents["orders-1"].Status.Data.ServerUUID = evil
	s.Agents[evil] = AgentAnswer{Reason: evil}
	s.Notes = append(s.Notes, evil)
	out["everything at once"] = s
	return out
}

func TestColorIsForTerminalsUnlessAskedFor(t *testing.T) {
	env := func(pairs map[string]string) func(string) string { return func(k string) string { return pairs[k] } }
	tests := []struct {
		flag string
		env  map[string]string
		want bool
	}{
		{ColorAuto, nil, false}, // a buffer is no terminal
		{ColorAlways, map[string]string{"NO_COLOR": "1"}, true},
		{ColorNever, nil, false},
	}
	for _, tt := range tests {
		if got := wantsColor(tt.flag, &strings.Builder{}, env(tt.env)); got != tt.want {
			t.Errorf("--color %s with %v: %t, want %t", tt.flag, tt.env, got, tt.want)
		}
	}
}

func TestEventsOfBothAPIsAreOrderedByWhenTheyWereLastSeen(t *testing.T) {
	old := event("Pod", "orders-0-0", "Normal", "Old", "", time.Hour)
	series := event("Pod", "orders-0-0", "Normal", "Series", "", 2*time.Hour)
	series.Series = &corev1.EventSeries{Count: 5, LastObservedTime: metav1.NewMicroTime(now.Add(-time.Minute))}
	fresh := corev1.Event{Reason: "New", EventTime: metav1.NewMicroTime(now.Add(-time.Second))}
	got := buildEvents([]corev1.Event{fresh, series, old})
	var order []string
	for _, e := range got {
		order = append(order, e.Reason)
	}
	if diff := cmp.Diff([]string{"Old", "Series", "New"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if got[1].Count != 5 || got[2].Count != 1 {
		t.Errorf("counts %d and %d, want 5 and 1", got[1].Count, got[2].Count)
	}
}
