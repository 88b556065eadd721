package mysqlcluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Reasons of problems with the specification and with volumes of another life.
const (
	reasonInvalidSpec             = "InvalidSpec"
	reasonVolumesOfAnotherCluster = "VolumesOfAnotherCluster"
)

// ending stops where the cluster is being deleted: its children go by their owner references.
func ending(_ context.Context, s *scope) (Result, error) {
	if !s.cluster.DeletionTimestamp.IsZero() {
		return Done("the cluster is being deleted"), nil
	}
	return Continue(), nil
}

// validate repeats the schema's rules. Invalid input stops nothing that works: what exists is kept and healed.
func validate(_ context.Context, s *scope) (Result, error) {
	if errs := desired.Validate(s.cluster, s.previous()); len(errs) > 0 {
		s.invalid = true
		s.problem(reasonInvalidSpec, errs.ToAggregate().Error())
	}
	return Continue(), nil
}

// previous gathers what the running instances were made from.
func (s *scope) previous() desired.Previous {
	old := desired.Previous{HasVolumes: len(s.live.claims) > 0}
	// What was asked for and never ran does not bind: a mistake can be taken back.
	old.Version = s.newestRun()
	for name := range s.live.statefulSets {
		claim := s.live.claims[naming.DataClaim(name)]
		if claim == nil {
			continue
		}
		old.StorageClassName = claim.Spec.StorageClassName
		if size := claimSize(claim); old.Size == nil || size.Cmp(*old.Size) > 0 {
			old.Size = &size
		}
	}
	return old
}

// newestRun returns the version of the newest mysqld that has run on the data; empty: none has.
func (s *scope) newestRun() string {
	newest := s.cluster.Status.Version
	if s.live.topology == nil {
		return newest
	}
	for _, i := range s.live.topology.Status.Instances {
		newest = desired.NewerVersion(newest, i.Version)
	}
	return newest
}

func claimSize(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// identify finds out whose data the cluster is about, before anything could touch it. A new MySQLCluster does not take
// over volumes that an earlier one left unless it is told to.
func identify(_ context.Context, s *scope) (Result, error) {
	adopt := s.cluster.Annotations[naming.AnnotationAdopt]
	switch {
	case s.live.topology != nil:
		s.in.ClusterID = s.live.topology.Spec.ClusterID
	case adopt != "" && s.hasVolumesOf(adopt):
		s.in.ClusterID = adopt
	default:
		s.in.ClusterID = string(s.cluster.UID)
	}
	foreign := map[string][]string{}
	var ids []string
	for _, instance := range s.claimNames() {
		id, known := s.live.claims[instance].Annotations[naming.AnnotationClusterID]
		if !known || id == s.in.ClusterID {
			continue
		}
		if foreign[id] == nil {
			ids = append(ids, id)
		}
		foreign[id] = append(foreign[id], instance)
	}
	for _, id := range ids {
		s.foreign = true
		s.problem(reasonVolumesOfAnotherCluster, s.foreignMessage(id, foreign[id]))
	}
	return Continue(), nil
}

func (s *scope) foreignMessage(id string, claims []string) string {
	message := fmt.Sprintf("PersistentVolumeClaims %s hold data of cluster id %s, not of this cluster", strings.Join(claims, ", "), id)
	if s.live.topology != nil {
		return message + "; this cluster has data of its own already, so delete or rename them"
	}
	if adopt := s.cluster.Annotations[naming.AnnotationAdopt]; adopt != "" {
		message += fmt.Sprintf("; the annotation %s names another one, %q", naming.AnnotationAdopt, adopt)
	}
	return message + fmt.Sprintf("; to take the data over set the annotation %s=%s on this MySQLCluster, else delete them", naming.AnnotationAdopt, id)
}

// claimNames returns the names of existing claims of wanted instances, by ordinal.
func (s *scope) claimNames() []string {
	var names []string
	for _, instance := range s.wanted() {
		if s.live.claims[naming.DataClaim(instance)] != nil {
			names = append(names, naming.DataClaim(instance))
		}
	}
	return names
}

func (s *scope) hasVolumesOf(id string) bool {
	for _, claim := range s.live.claims {
		if claim.Annotations[naming.AnnotationClusterID] == id {
			return true
		}
	}
	return false
}

// suspended stops before anything is changed, but for telling the topology lane to do the same.
func suspended(ctx context.Context, s *scope) (Result, error) {
	if !s.cluster.Spec.Suspend {
		return Continue(), nil
	}
	if s.live.topology != nil && !s.live.topology.Spec.Suspend {
		if err := s.apply(ctx, desired.Topology(s.in, s.live.topology.Spec), s.live.topology); err != nil {
			return Result{}, err
		}
	}
	return Done("spec.suspend is set"), nil
}
