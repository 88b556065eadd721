package failover

import (
	"fmt"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// Event reasons.
const (
	EventPrimaryPromoted    = "PrimaryPromoted"
	EventPrimaryLost        = "PrimaryLost"
	EventSwitchoverRefused  = "SwitchoverRefused"
	EventSwitchoverBegun    = "SwitchoverBegun"
	EventPrimaryElected     = "PrimaryElected"
	EventFailoverRolledBack = "FailoverRolledBack"
	EventPrimaryResumed     = "PrimaryResumed"
	EventMemberAdmitted     = "MemberAdmitted"
	EventMemberRemoved      = "MemberRemoved"
	EventInstanceBroken     = "InstanceBroken"
	EventWritesBlocked      = "WritesBlocked"
	EventWritesUnblocked    = "WritesUnblocked"
	EventRecordAdopted      = "RecordAdopted"
	EventTopologyBlocked    = "TopologyBlocked"
	EventClientsLetIn       = "ClientsLetIn"
	EventPrimaryNotHeard    = "PrimaryNotHeard"
	EventPrimaryHeardAgain  = "PrimaryHeardAgain"
)

// Event is something that people should see once.
type Event struct {
	Reason  string
	Message string
	// Instance that it is about beside the cluster; empty: none. Events of one reason about several instances stay apart.
	Instance string
	// Warning is false for what went well.
	Warning bool
}

// Transitions compares two records, the second of which has been written, and gives the events between them. A record
// that is written again as it is gives none.
func Transitions(old, next v1.MySQLTopologyStatus) []Event {
	var out []Event
	add := func(warning bool, reason, format string, args ...any) {
		out = append(out, Event{Reason: reason, Message: fmt.Sprintf(format, args...), Warning: warning})
	}
	was, is := old.Phase, next.Phase
	switch {
	case was != adopting && is == adopting:
		add(true, EventRecordAdopted, "the record is being made anew from the volumes, in epoch %d", next.Epoch)
	case (next.Epoch > old.Epoch && was != fencing && was != draining && was != adopting || was == adopting) && is == recovering:
		add(true, EventRecordAdopted, "the record was made anew from the volumes: %s is primary in epoch %d", next.Primary, next.Epoch)
	case was != fencing && is == fencing:
		add(true, EventPrimaryLost, "failing over in epoch %d: %s", next.Epoch, next.Message)
	case was == fencing && is == promoting:
		add(false, EventPrimaryElected, "%s is to be primary in epoch %d", next.Primary, next.Epoch)
	case was == promoting && is == stable:
		add(false, EventPrimaryPromoted, "%s is primary in epoch %d", next.Primary, next.Epoch)
	case was != draining && is == draining:
		add(false, EventSwitchoverBegun, "%s hands over to %s", next.Primary, next.Operation.Target)
	case was == draining && is == promoting:
		add(false, EventPrimaryElected, "%s is to be primary in epoch %d", next.Primary, next.Epoch)
	case (was == fencing || was == draining) && is == recovering:
		add(true, EventFailoverRolledBack, "%s", next.Message)
	case was != recovering && is == recovering:
		add(true, EventPrimaryLost, "%s in epoch %d: %s", next.Primary, next.Epoch, next.Message)
	case was == recovering && is == stable:
		add(false, EventPrimaryResumed, "%s takes writes again in epoch %d", next.Primary, next.Epoch)
	case was != blocked && is == blocked:
		add(true, EventTopologyBlocked, "%s: %s", next.Reason, next.Message)
	}
	if len(old.History) == 0 && len(next.History) > 0 && is == bootstrapping {
		add(false, EventPrimaryPromoted, "%s is primary in epoch %d", next.Primary, next.Epoch)
	}
	if !old.Routed && next.Routed {
		add(false, EventClientsLetIn, "%s takes writes; each is acknowledged by %d", next.Primary, quorumOf(next).RequiredAcks)
	}
	if s := next.Switchover; s != nil && s.State == v1.SwitchoverRefused && (old.Switchover == nil || old.Switchover.ID != s.ID) {
		add(true, EventSwitchoverRefused, "%s", s.Message)
	}
	out = append(out, memberEvents(quorumOf(old), quorumOf(next))...)
	out = append(out, reasonEvents(old, next)...)
	return append(out, instanceEvents(old, next)...)
}

func memberEvents(old, next v1.Quorum) []Event {
	var out []Event
	for _, m := range next.Members {
		if !isMember(old, m.Name) {
			out = append(out, Event{Reason: EventMemberAdmitted, Instance: m.Name, Message: fmt.Sprintf("%s may acknowledge commits (quorum generation %d)", m.Name, next.Generation)})
		}
	}
	for _, m := range old.Members {
		if !isMember(next, m.Name) {
			out = append(out, Event{Reason: EventMemberRemoved, Instance: m.Name, Message: fmt.Sprintf("%s no longer acknowledges commits (quorum generation %d)", m.Name, next.Generation)})
		}
	}
	return out
}

func reasonEvents(old, next v1.MySQLTopologyStatus) []Event {
	was, is := old.Reason, next.Reason
	if was == is {
		return nil
	}
	var out []Event
	if is == v1.TopologyWritesBlocked {
		out = append(out, Event{Reason: EventWritesBlocked, Message: next.Message, Warning: true})
	}
	if was == v1.TopologyWritesBlocked && next.Phase == stable {
		out = append(out, Event{Reason: EventWritesUnblocked, Message: "commits are acknowledged again"})
	}
	silent := func(r string) bool { return r == v1.TopologyPrimaryUnreachable || r == v1.TopologyPrimaryUnresponsive }
	if next.Phase == stable && silent(is) && !silent(was) {
		out = append(out, Event{Reason: EventPrimaryNotHeard, Message: next.Message, Warning: true})
	}
	if next.Phase == stable && silent(was) && !silent(is) {
		out = append(out, Event{Reason: EventPrimaryHeardAgain, Message: next.Primary + " is heard again"})
	}
	return out
}

func instanceEvents(old, next v1.MySQLTopologyStatus) []Event {
	before := map[string]v1.InstanceState{}
	for _, i := range old.Instances {
		before[i.Name] = i.State
	}
	var out []Event
	for _, i := range next.Instances {
		if i.State == v1.InstanceBroken && before[i.Name] != v1.InstanceBroken {
			out = append(out, Event{Reason: EventInstanceBroken, Instance: i.Name, Message: i.Name + ": " + i.Message, Warning: true})
		}
	}
	return out
}

func quorumOf(s v1.MySQLTopologyStatus) v1.Quorum {
	if s.Quorum == nil {
		return v1.Quorum{}
	}
	return *s.Quorum
}
