package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Volume is what is asked of an instance's volume.
type Volume struct {
	Size resource.Quantity
	// Class of storage; nil: the default one.
	Class *string
	// Blank is true while nothing may be written to it.
	Blank bool
}

// DataClaim is the volume of an instance. It carries the cluster id of its data. The cluster owns it only while it is
// blank or with reclaim policy Delete: a kept volume has no owner, so that nothing deletes it.
func DataClaim(in Input, instance string, volume Volume) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	cluster := in.Cluster
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceStorage: volume.Size}))
	if volume.Class != nil {
		spec.WithStorageClassName(*volume.Class)
	}
	claim := corev1ac.PersistentVolumeClaim(naming.DataClaim(instance), cluster.Namespace).
		WithLabels(naming.InstanceLabels(cluster.Name, instance)).
		WithAnnotations(map[string]string{naming.AnnotationClusterID: in.ClusterID}).
		WithSpec(spec)
	if volume.Blank {
		claim.WithAnnotations(map[string]string{naming.AnnotationBlank: "true"})
	}
	if volume.Blank || cluster.Spec.Storage.ReclaimPolicy == v1.ReclaimDelete {
		claim.WithOwnerReferences(OwnerReference(cluster))
	}
	return claim
}
