package desired

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// TopologyApplyConfiguration is the part of a MySQLTopology that the cluster lane owns. It has no status: that is the
// topology lane's.
type TopologyApplyConfiguration struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`

	Spec *v1.MySQLTopologySpec `json:"spec,omitempty"`
}

// IsApplyConfiguration marks the type for the client.
func (*TopologyApplyConfiguration) IsApplyConfiguration() {}

// Topology is what the cluster lane wants of the topology lane. Cluster id and suspend are the cluster's, the rest of the
// wanted specification is taken as it is.
func Topology(in Input, want v1.MySQLTopologySpec) *TopologyApplyConfiguration {
	cluster := in.Cluster
	spec := want.DeepCopy()
	spec.ClusterID, spec.Suspend = in.ClusterID, cluster.Spec.Suspend
	return &TopologyApplyConfiguration{
		TypeMetaApplyConfiguration: *metav1ac.TypeMeta().
			WithAPIVersion(v1.GroupVersion.String()).
			WithKind("MySQLTopology"),
		ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().
			WithName(cluster.Name).
			WithNamespace(cluster.Namespace).
			WithLabels(naming.ClusterLabels(cluster.Name)).
			WithOwnerReferences(OwnerReference(cluster)),
		Spec: spec,
	}
}

// TopologySpec is what a specification asks of the topology lane, but for what is asked for at a moment: a restart, a
// switchover, an accepted loss.
func TopologySpec(cluster *v1.MySQLCluster) v1.MySQLTopologySpec {
	return v1.MySQLTopologySpec{
		Instances: Instances(cluster),
		Acks:      Acks(&cluster.Spec),
		Failover:  Failover(cluster.Spec.Failover),
	}
}

// Acks returns how many replicas must acknowledge a commit: as specified, or half of the instances rounded down and at
// least one where there is a replica.
func Acks(spec *v1.MySQLClusterSpec) int32 {
	switch {
	case spec.Replication.Acks != nil:
		return *spec.Replication.Acks
	case spec.Replicas <= 1:
		return 0
	default:
		return max(1, spec.Replicas/2)
	}
}

// Instances returns the names of the wanted instances, by ordinal.
func Instances(cluster *v1.MySQLCluster) []string {
	names := make([]string, 0, cluster.Spec.Replicas)
	for ordinal := range int(cluster.Spec.Replicas) {
		names = append(names, naming.Instance(cluster.Name, ordinal))
	}
	return names
}
