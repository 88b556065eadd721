package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"

// growth is the next write that brings a claim nearer to its requested size. At most one field is set; none when there is
// nothing to do or when it is kubelet's turn.
type growth struct {
	claimStatus *corev1.PersistentVolumeClaimStatus
	capacity    *resource.Quantity // of the volume
}

// planGrowth decides the next step of the controller half. The order is that of Kubernetes' external-resizer:
//
//	request 2Gi, volume 1Gi                         → claim: allocated 2Gi, ControllerResizeInProgress, condition Resizing
//	claim ControllerResizeInProgress, volume 1Gi    → volume: capacity 2Gi
//	claim ControllerResizeInProgress, volume 2Gi    → claim: NodeResizePending, condition FileSystemResizePending
//	claim NodeResizePending                         → nothing: kubelet writes the claim's capacity and clears the rest
func planGrowth(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, now metav1.Time) growth {
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
	state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	capacity := volume.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case state == corev1.PersistentVolumeClaimControllerResizeInProgress:
		if capacity.Cmp(allocated) < 0 {
			return growth{capacity: &allocated}
		}
		return growth{claimStatus: withResize(claim, allocated, corev1.PersistentVolumeClaimNodeResizePending,
			corev1.PersistentVolumeClaimFileSystemResizePending, "Waiting for kubelet to finish on the node of a pod that uses the claim", now)}
	case capacity.Cmp(wanted) < 0:
		return growth{claimStatus: withResize(claim, wanted, corev1.PersistentVolumeClaimControllerResizeInProgress,
			corev1.PersistentVolumeClaimResizing, "", now)}
	}
	return growth{}
}

func withResize(claim *corev1.PersistentVolumeClaim, size resource.Quantity, state corev1.ClaimResourceStatus,
	kind corev1.PersistentVolumeClaimConditionType, message string, now metav1.Time) *corev1.PersistentVolumeClaimStatus {
	status := claim.Status.DeepCopy()
	if status.AllocatedResources == nil {
		status.AllocatedResources = corev1.ResourceList{}
	}
	status.AllocatedResources[corev1.ResourceStorage] = size
	status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimResizing || c.Type == corev1.PersistentVolumeClaimFileSystemResizePending
	})
	status.Conditions = append(status.Conditions, corev1.PersistentVolumeClaimCondition{
		Type: kind, Status: corev1.ConditionTrue, Message: message, LastTransitionTime: now,
	})
	return status
}

// isOurs tells whether the claim is bound to a volume this program made.
func isOurs(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return claim.Status.Phase == corev1.ClaimBound &&
		volume.Annotations[provisionedByAnnotation] == provisionerName &&
		volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID == claim.UID
}
