package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// DataClaim is the volume of an instance. It carries the cluster id of its data. The cluster owns it only with reclaim
// policy Delete: a kept volume has no owner, so that nothing deletes it. class is the class to ask for, nil: the default.
func DataClaim(in Input, instance string, size resource.Quantity, class *string) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	cluster := in.Cluster
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
	if class != nil {
		spec.WithStorageClassName(*class)
	}
	claim := corev1ac.PersistentVolumeClaim(naming.DataClaim(instance), cluster.Namespace).
		WithLabels(naming.InstanceLabels(cluster.Name, instance)).
		WithAnnotations(map[string]string{naming.AnnotationClusterID: in.ClusterID}).
		WithSpec(spec)
	if cluster.Spec.Storage.ReclaimPolicy == v1.ReclaimDelete {
		claim.WithOwnerReferences(OwnerReference(cluster))
	}
	return claim
}
