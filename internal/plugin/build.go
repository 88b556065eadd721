package plugin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Sources is everything that was read about a cluster. Only Cluster is always there.
type Sources struct {
	ObservedAt time.Time
	Cluster    *porpoisev1.MySQLCluster
	Topology   *porpoisev1.MySQLTopology
	Pods       []corev1.Pod
	Events     []corev1.Event
	// Agents by instance name.
	Agents map[string]AgentAnswer
	Notes  []string
}

// AgentAnswer is what asking an agent gave: a status or the reason why there is none.
type AgentAnswer struct {
	Status *agentapi.Status
	Reason string
}

// Build makes the report. It is pure, and takes partial and contradictory sources as they come.
func Build(s Sources) Report {
	report := Report{
		APIVersion: ReportAPIVersion,
		Kind:       ReportKind,
		ObservedAt: s.ObservedAt.UTC(),
		Cluster:    buildCluster(s.Cluster),
		Topology:   buildTopology(s.Cluster, s.Topology),
		Conditions: buildConditions(s.Cluster.Status.Conditions),
		Events:     buildEvents(s.Events),
		Notes:      s.Notes,
	}
	report.WritesBlocked = buildBlocked(s.Cluster, report.Topology)
	report.Instances = buildInstances(s, report)
	return report
}

func buildCluster(c *porpoisev1.MySQLCluster) ClusterReport {
	out := ClusterReport{
		Name: c.Name, Namespace: c.Namespace, CreatedAt: c.CreationTimestamp.UTC(),
		Phase: c.Status.Phase, Ready: c.Status.Ready,
		Version: c.Spec.Version, Image: c.Status.Image,
		WantedInstances: c.Spec.Replicas, ReadyInstances: c.Status.ReadyReplicas,
		Suspended: c.Spec.Suspend, Deleting: c.DeletionTimestamp != nil,
		StatusOutdated: c.Generation > c.Status.ObservedGeneration,
		StableRevision: c.Status.Revisions.Stable, TargetRevision: c.Status.Revisions.Target,
	}
	if ready := findCondition(c, porpoisev1.ConditionReady); ready != nil {
		out.Reason, out.Message = ready.Reason, ready.Message
	}
	return out
}

// buildTopology takes the record; where it cannot be read, what MySQLCluster mirrors of it.
func buildTopology(c *porpoisev1.MySQLCluster, t *porpoisev1.MySQLTopology) TopologyReport {
	if t == nil {
		mirror := c.Status.Topology
		return TopologyReport{
			Primary: mirror.Primary, Epoch: mirror.Epoch, RequiredAcks: mirror.RequiredAcks,
			Members: append([]string{}, mirror.Members...), Switchover: buildSwitchover(c.Status.Switchover),
		}
	}
	out := TopologyReport{
		Phase: t.Status.Phase, Reason: t.Status.Reason, Message: t.Status.Message,
		Primary: t.Status.Primary, Epoch: t.Status.Epoch, Routed: t.Status.Routed,
		WantedAcks: t.Spec.Acks, Members: []string{},
	}
	for _, h := range t.Status.History {
		if h.Epoch == t.Status.Epoch && !h.PromotedAt.IsZero() {
			out.Since = new(h.PromotedAt.UTC())
		}
	}
	if q := t.Status.Quorum; q != nil {
		out.RequiredAcks = q.RequiredAcks
		for _, m := range q.Members {
			out.Members = append(out.Members, m.Name)
		}
	}
	if op := t.Status.Operation; op != nil {
		out.Operation = &OperationReport{Type: string(op.Type), Target: op.Target, StartedAt: op.StartedAt.UTC()}
	}
	for _, h := range slices.Backward(t.Status.History) {
		if len(out.History) == maxHistory {
			break
		}
		out.History = append(out.History, EpochReport{Epoch: h.Epoch, Primary: h.Instance, Cause: string(h.Cause), Since: h.PromotedAt.UTC()})
	}
	out.Switchover = buildSwitchover(t.Status.Switchover)
	out.AcceptedLoss = buildAcceptance(t.Status.AcceptedDataLoss)
	if a := t.Spec.AcceptDataLoss; a != nil && (out.AcceptedLoss == nil || out.AcceptedLoss.ID != a.ID) {
		out.WaitingLoss = buildAcceptance(a)
	}
	return out
}

// maxHistory is how many epochs are shown.
const maxHistory = 5

func buildSwitchover(s *porpoisev1.SwitchoverStatus) *SwitchoverReport {
	if s == nil {
		return nil
	}
	return &SwitchoverReport{ID: s.ID, State: string(s.State), Message: s.Message}
}

func buildAcceptance(a *porpoisev1.DataLossAcceptance) *AcceptanceReport {
	if a == nil {
		return nil
	}
	return &AcceptanceReport{ID: a.ID, By: a.By, At: a.At.UTC()}
}

// buildBlocked prefers the condition, which tells since when; the record knows it earlier.
func buildBlocked(c *porpoisev1.MySQLCluster, t TopologyReport) *BlockedReport {
	if cond := findCondition(c, porpoisev1.ConditionWritesBlocked); cond != nil && cond.Status == metav1.ConditionTrue {
		return &BlockedReport{Reason: cond.Reason, Message: cond.Message, Since: new(cond.LastTransitionTime.UTC())}
	}
	if t.Phase == porpoisev1.TopologyBlocked {
		return &BlockedReport{Reason: t.Reason, Message: t.Message}
	}
	return nil
}

func findCondition(c *porpoisev1.MySQLCluster, kind string) *metav1.Condition {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == kind {
			return &c.Status.Conditions[i]
		}
	}
	return nil
}

// abnormalWhenTrue are the conditions that are good when False; see their comments in api/v1.
var abnormalWhenTrue = map[string]bool{
	porpoisev1.ConditionWritesBlocked: true,
	porpoisev1.ConditionProgressing:   true,
	porpoisev1.ConditionStalled:       true,
}

func buildConditions(conditions []metav1.Condition) []ConditionReport {
	out := make([]ConditionReport, 0, len(conditions))
	for _, c := range conditions {
		normal := metav1.ConditionTrue
		if abnormalWhenTrue[c.Type] {
			normal = metav1.ConditionFalse
		}
		out = append(out, ConditionReport{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message,
			Since: c.LastTransitionTime.UTC(), Abnormal: c.Status != normal,
		})
	}
	slices.SortStableFunc(out, func(a, b ConditionReport) int { return cmp.Compare(a.Type, b.Type) })
	return out
}

func buildEvents(events []corev1.Event) []EventReport {
	out := make([]EventReport, 0, len(events))
	for _, e := range events {
		seen, count := lastSeen(e)
		out = append(out, EventReport{
			LastSeen: seen.UTC(), Type: e.Type, Reason: e.Reason, Count: count,
			Object:  e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name,
			Message: strings.TrimSpace(e.Message),
		})
	}
	slices.SortStableFunc(out, func(a, b EventReport) int { return a.LastSeen.Compare(b.LastSeen) })
	return out
}

// lastSeen reads an Event of either API: the old one counts, the new one has a series.
func lastSeen(e corev1.Event) (time.Time, int32) {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time, max(1, e.Series.Count)
	}
	seen := e.CreationTimestamp.Time
	for _, t := range []time.Time{e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time} {
		if t.After(seen) {
			seen = t
		}
	}
	return seen, max(1, e.Count)
}

// byOrdinal orders instances orders-2 before orders-10; names that are no instances come last.
func byOrdinal(cluster string) func(a, b InstanceReport) int {
	rank := func(name string) int {
		n, err := naming.Ordinal(cluster, name)
		if err != nil {
			return int(^uint(0) >> 1)
		}
		return n
	}
	return func(a, b InstanceReport) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	}
}
