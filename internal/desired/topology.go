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

// Topology is what the cluster lane wants of the topology lane: these instances, so many acknowledgements, and room to
// replace the pod of restarting (empty: none).
func Topology(in Input, instances []string, acks int32, restarting string) *TopologyApplyConfiguration {
	cluster := in.Cluster
	return &TopologyApplyConfiguration{
		TypeMetaApplyConfiguration: *metav1ac.TypeMeta().
			WithAPIVersion(v1.GroupVersion.String()).
			WithKind("MySQLTopology"),
		ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().
			WithName(cluster.Name).
			WithNamespace(cluster.Namespace).
			WithLabels(naming.ClusterLabels(cluster.Name)).
			WithOwnerReferences(OwnerReference(cluster)),
		Spec: &v1.MySQLTopologySpec{
			ClusterID:  in.ClusterID,
			Acks:       acks,
			Instances:  instances,
			Restarting: restarting,
			Suspend:    cluster.Spec.Suspend,
		},
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
