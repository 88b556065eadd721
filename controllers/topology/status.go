package topology

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/clip"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// record writes the decision's record when it differs, by compare and swap. When another writer was quicker the decision
// is void: the record is read anew and decided on again.
func (s *scope) record(ctx context.Context) (outcome, error) {
	old := s.topo.Status
	if equality.Semantic.DeepEqual(old, s.decision.Record) {
		return goOn, nil
	}
	next := s.topo.DeepCopy()
	next.Status = s.decision.Record
	if err := s.client.Status().Update(ctx, next); err != nil {
		s.memory.keep(s.key, nil)
		if apierrors.IsConflict(err) {
			s.log.V(1).Info("The record moved on; deciding again", "row", s.decision.Row)
			return again, nil
		}
		if apierrors.IsNotFound(err) {
			return done, nil
		}
		return done, err
	}
	s.topo = next
	s.recorded = true
	s.memory.keep(s.key, next)
	s.log.Info("Recorded", "row", s.decision.Row, "phase", next.Status.Phase, "reason", next.Status.Reason, "message", next.Status.Message,
		"epoch", next.Status.Epoch, "evidence", s.decision.Evidence)
	s.report(failover.Transitions(old, next.Status))
	return goOn, nil
}

// maxNote is what the note of an Event may hold.
const maxNote = 1024

// report makes Events, on the owner, which is what people look at.
func (s *scope) report(list []failover.Event) {
	about := s.regarding()
	for _, e := range list {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		// client-go joins events that differ in their text alone: what they relate to keeps instances apart.
		var related runtime.Object
		if e.Instance != "" {
			related = &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: naming.Pod(e.Instance)},
			}
		}
		s.recorder.Eventf(about, related, kind, e.Reason, "Topology", "%s", clip.Text(e.Message, maxNote))
	}
}

// regarding is the MySQLCluster that owns the topology, by reference only; without an owner the topology itself.
func (s *scope) regarding() runtime.Object {
	owner := controllerOf(s.topo)
	if owner == nil || owner.Kind != "MySQLCluster" {
		return s.topo
	}
	return &v1.MySQLCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: owner.Name, UID: owner.UID},
	}
}

// wantedRole is the role label that a pod should carry. It is given to an instance whose agent confirmed the role; a label
// that contradicts the record is corrected at once, since a Service may lead by it.
func wantedRole(rec v1.MySQLTopologyStatus, i *topology.Instance, present string) string {
	role, agentRole := naming.RoleReplica, agentapi.RoleReplica
	if i.Name == rec.Primary {
		role, agentRole = naming.RolePrimary, agentapi.RolePrimary
	}
	if role == naming.RolePrimary && !rec.Routed {
		return "" // Clients are let in only once the wanted acks are in the record.
	}
	confirmed := i.Answers() && i.Status.Confirmed && i.Status.Role == agentRole && i.Status.Epoch == rec.Epoch
	if confirmed || present != "" {
		return role
	}
	return ""
}

// ignoreReplaced drops errors of a pod that is not the observed one any more: its watch triggers.
func ignoreReplaced(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}
