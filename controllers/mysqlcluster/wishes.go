package mysqlcluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/conditions"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	// reasonInvalidAnnotation: an annotation that asks for something cannot be read.
	reasonInvalidAnnotation = "InvalidAnnotation"
	eventPrimaryChanged     = "PrimaryChanged"
)

// wishes carries what people ask for by annotation into the topology's specification. Each request has an id, by which the
// topology lane tells a new one from one that was carried out or refused: an annotation may stay. One that cannot be read
// changes nothing: what was asked for before it stands.
func (s *scope) wishes(spec *v1.MySQLTopologySpec) {
	var before v1.MySQLTopologySpec
	if s.live.topology != nil {
		before = s.live.topology.Spec
	}
	spec.Switchover = nil
	if value, ok := s.cluster.Annotations[naming.AnnotationSwitchover]; ok {
		request, err := desired.ParseSwitchover(s.cluster.Name, value)
		if err != nil {
			s.unreadable(err)
			request = before.Switchover
		}
		spec.Switchover = request
	}
	spec.AcceptDataLoss = nil
	if value, ok := s.cluster.Annotations[naming.AnnotationAcceptDataLoss]; ok {
		acceptance, err := desired.ParseAcceptDataLoss(value)
		if err != nil {
			s.unreadable(err)
			acceptance = before.AcceptDataLoss
		}
		spec.AcceptDataLoss = acceptance
	}
}

// unreadable records a request that cannot be read. It is no problem of the cluster, which goes on.
func (s *scope) unreadable(err error) {
	s.requests = append(s.requests, conditions.Problem{Reason: reasonInvalidAnnotation, Message: err.Error()})
}

// switchoverStatus mirrors what became of the last request.
func (s *scope) switchoverStatus() *v1.SwitchoverStatus {
	if s.live.topology == nil {
		return nil
	}
	return s.live.topology.Status.Switchover.DeepCopy()
}

// announceTopology makes Events of another primary, and of the end of a request for one.
func (s *scope) announceTopology(old, status v1.MySQLClusterStatus) {
	if was, is := old.Topology.Primary, status.Topology.Primary; was != "" && is != "" && was != is {
		s.event(corev1.EventTypeNormal, eventPrimaryChanged, actionReport,
			fmt.Sprintf("%s is primary in epoch %d (was %s)%s", is, status.Topology.Epoch, was, s.changeCause()), s.child("v1", "Pod", naming.Pod(is)))
	}
	end := status.Switchover
	// A refusal is announced by the topology lane, whose decision it is.
	if end == nil || end.State == v1.SwitchoverRunning || end.State == v1.SwitchoverRefused || old.Switchover != nil && *old.Switchover == *end {
		return
	}
	kind := corev1.EventTypeWarning
	if end.State == v1.SwitchoverDone {
		kind = corev1.EventTypeNormal
	}
	s.event(kind, "Switchover"+string(end.State), end.ID, fmt.Sprintf("switchover %s: %s", end.ID, end.Message), nil)
}

// changeCause says why the present primary took the place of another one.
func (s *scope) changeCause() string {
	history := s.live.topology.Status.History
	if len(history) == 0 || history[len(history)-1].Cause == "" {
		return ""
	}
	return ": " + string(history[len(history)-1].Cause)
}
