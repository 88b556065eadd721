package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// Reasons of FailoverReady that are not the topology's.
const (
	ReasonBootstrapping      = "Bootstrapping"
	ReasonFailingOver        = "FailingOver"
	ReasonSwitchingOver      = "SwitchingOver"
	ReasonManualMode         = "ManualMode"
	ReasonFailoversCapped    = v1.TopologyFailoversCapped
	ReasonSingleInstance     = "SingleInstance"
	ReasonQuorumBeingRaised  = "QuorumBeingRaised"
	ReasonNoCandidate        = v1.TopologyNoCandidate
	ReasonPrimaryUnavailable = "PrimaryUnavailable"
)

const (
	// CapWindow is the time within which spec.failover.maxFailovers are allowed.
	CapWindow = 10 * time.Minute
	// defaultMaxFailovers within it, where the specification says nothing.
	defaultMaxFailovers = 5
)

// failoverReady says whether the topology lane would and could answer the loss of the primary with a failover, by the rule
// that it uses itself (INV-4): with N seats in the quorum and W acknowledgements per commit it needs more than N-W members
// that confirm what they hold. The primary, which may have a seat, could not confirm.
func failoverReady(in Input, now time.Time) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return condition(v1.ConditionFailoverReady, false, reason, fmt.Sprintf(format, args...))
	}
	switch t := in.Topology; {
	case in.Deleting:
		return no(ReasonDeleting, "the cluster is being deleted")
	case t == nil || t.Status.Phase == "" || t.Status.Phase == v1.TopologyBootstrapping || !t.Status.Routed || t.Status.Quorum == nil:
		return no(ReasonBootstrapping, "clients were not let in yet")
	case in.Suspended:
		return no(ReasonSuspended, "spec.suspend is set: a lost primary stays lost")
	case in.changesPrimary() == v1.OperationFailover:
		return no(ReasonFailingOver, "a failover is under way: %s", t.Status.Message)
	case in.changesPrimary() == v1.OperationSwitchover:
		return no(ReasonSwitchingOver, "a switchover is under way: %s", t.Status.Message)
	case t.Status.Phase != v1.TopologyStable:
		return no(orElse(t.Status.Reason, ReasonPrimaryUnavailable), "the primary is not open, and nobody takes its place: %s", t.Status.Message)
	case t.Spec.Failover.Manual:
		return no(ReasonManualMode, "spec.failover.mode is Manual: a lost primary is brought back in place")
	case len(in.Instances) == 1:
		return no(ReasonSingleInstance, "there is one instance: a lost primary is brought back in place")
	}
	if made, end := recentFailovers(in.Topology, now); !end.IsZero() {
		return no(ReasonFailoversCapped, "%d failovers within %s, spec.failover.maxFailovers allows %d: until %s a lost primary is brought back in place",
			made, CapWindow, maxFailovers(in.Topology), end.UTC().Format(time.RFC3339))
	}
	return quorumAnswers(in.Topology)
}

// quorumAnswers says whether the members that live could fence the primary off, and whether one of them could take over.
func quorumAnswers(t *v1.MySQLTopology) metav1.Condition {
	q, primary := t.Status.Quorum, t.Status.Primary
	seats, w := len(q.Members), int(q.RequiredAcks)
	confirming, candidates, down := confirmers(t)
	need := seats - w + 1
	// What the quorum is on its way to: the wanted acknowledgements, and no seat of the primary's own.
	settled := seats - max(w, int(t.Spec.Acks)) + 1
	if slices.ContainsFunc(q.Members, func(m v1.QuorumMember) bool { return m.Name == primary }) {
		settled--
	}
	no := func(reason, format string, args ...any) metav1.Condition {
		return condition(v1.ConditionFailoverReady, false, reason, fmt.Sprintf(format, args...))
	}
	switch {
	case w < 1:
		return no(ReasonQuorumBeingRaised, "commits wait for no replica yet: what only %s holds would be lost by a failover", primary)
	case confirming < need && confirming >= settled:
		return no(ReasonQuorumBeingRaised, "%s, and %s could confirm what they hold: once the quorum is up to date that is enough", needed(need, seats, w), plural(confirming, "member"))
	case confirming < need:
		return no(ReasonTooFewMembers, "%s, and %s could confirm what they hold; not serving: %s", needed(need, seats, w), plural(confirming, "member"), list(down))
	case len(candidates) == 0:
		return no(ReasonNoCandidate, "no replica serves that could be primary; not serving: %s", list(down))
	}
	return condition(v1.ConditionFailoverReady, true, ReasonHealthy, fmt.Sprintf("%s could take over from %s: %d are needed that confirm what they hold, and %d could",
		strings.Join(candidates, " or "), primary, need, confirming))
}

// needed says how many must confirm, and why.
func needed(need, seats, w int) string {
	return fmt.Sprintf("with %s and %d of them per commit a failover needs %d that confirm", plural(seats, "seat"), w, need)
}

// confirmers counts the members besides the primary whose mysqld answers, names who of all could be primary, and the
// members that could not confirm.
func confirmers(t *v1.MySQLTopology) (confirming int, candidates, down []string) {
	member := map[string]bool{}
	for _, m := range t.Status.Quorum.Members {
		member[m.Name] = true
	}
	for _, i := range t.Status.Instances {
		if i.Name == t.Status.Primary {
			continue
		}
		answers := i.State == v1.InstanceRunning || i.State == v1.InstanceJoining || i.State == v1.InstanceLeaving
		switch {
		case member[i.Name] && answers:
			confirming++
		case member[i.Name]:
			down = append(down, i.Name)
		}
		if i.State == v1.InstanceRunning {
			candidates = append(candidates, i.Name)
		}
	}
	return confirming, candidates, down
}

// maxFailovers is how many failovers the topology lane makes within the window.
func maxFailovers(t *v1.MySQLTopology) int {
	if n := int(t.Spec.Failover.MaxFailovers); n > 0 {
		return n
	}
	return defaultMaxFailovers
}

// recentFailovers counts those within the window, and says when the cap ends; zero: it is not reached.
func recentFailovers(t *v1.MySQLTopology, now time.Time) (int, time.Time) {
	var made []time.Time // Oldest first, as the history is.
	for _, e := range t.Status.History {
		if e.Cause == v1.CauseFailover && now.Sub(e.PromotedAt.Time) < CapWindow {
			made = append(made, e.PromotedAt.Time)
		}
	}
	if most := maxFailovers(t); len(made) >= most {
		return len(made), made[len(made)-most].Add(CapWindow)
	}
	return len(made), time.Time{}
}

// CapEnds is when failovers are allowed again; zero: they are. No watch tells of it.
func CapEnds(t *v1.MySQLTopology, now time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	_, end := recentFailovers(t, now)
	return end
}

// changesPrimary names the operation by which another instance is becoming primary; empty: none is.
func (in Input) changesPrimary() v1.OperationType {
	if in.Topology == nil {
		return ""
	}
	switch status := in.Topology.Status; status.Phase {
	case v1.TopologyFencing:
		return v1.OperationFailover
	case v1.TopologyDraining:
		return v1.OperationSwitchover
	case v1.TopologyPromoting:
		if status.Operation != nil && status.Operation.Type == v1.OperationSwitchover {
			return v1.OperationSwitchover
		}
		return v1.OperationFailover
	}
	return ""
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
