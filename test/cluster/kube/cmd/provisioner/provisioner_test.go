package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func claimOf(request string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pv",
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(request)}},
		},
		Status: corev1.PersistentVolumeClaimStatus{
			Phase:    corev1.ClaimBound,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
}

func volumeOf(size string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{provisionedByAnnotation: provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "data", UID: "u"},
		},
	}
}

func TestGrowthGoesThroughTheStepsOfKubernetes(t *testing.T) {
	claim, volume, now := claimOf("2Gi"), volumeOf("1Gi"), metav1.Now()

	step := planGrowth(claim, volume, now)
	if step.claimStatus == nil || step.claimStatus.Conditions[0].Type != corev1.PersistentVolumeClaimResizing {
		t.Fatalf("first step %+v; want condition Resizing", step)
	}
	claim.Status = *step.claimStatus

	step = planGrowth(claim, volume, now)
	if step.capacity == nil || step.capacity.String() != "2Gi" {
		t.Fatalf("second step %+v; want the volume to become 2Gi", step)
	}
	volume.Spec.Capacity[corev1.ResourceStorage] = *step.capacity

	step = planGrowth(claim, volume, now)
	if step.claimStatus == nil || len(step.claimStatus.Conditions) != 1 ||
		step.claimStatus.Conditions[0].Type != corev1.PersistentVolumeClaimFileSystemResizePending ||
		step.claimStatus.AllocatedResourceStatuses[corev1.ResourceStorage] != corev1.PersistentVolumeClaimNodeResizePending {
		t.Fatalf("third step %+v; want FileSystemResizePending alone", step)
	}
	claim.Status = *step.claimStatus

	if step = planGrowth(claim, volume, now); step.claimStatus != nil || step.capacity != nil {
		t.Fatalf("fourth step %+v; want none, it is kubelet's turn", step)
	}
	if capacity := claim.Status.Capacity[corev1.ResourceStorage]; capacity.String() != "1Gi" {
		t.Fatalf("the controller half wrote the claim's capacity %s; that is kubelet's", capacity.String())
	}
}

func TestNoGrowthWithoutNeed(t *testing.T) {
	for _, c := range []struct{ request, volume string }{{"1Gi", "1Gi"}, {"1Gi", "2Gi"}} {
		if step := planGrowth(claimOf(c.request), volumeOf(c.volume), metav1.Now()); step.claimStatus != nil || step.capacity != nil {
			t.Errorf("request %s, volume %s: %+v; want nothing", c.request, c.volume, step)
		}
	}
	strange := volumeOf("1Gi")
	strange.Spec.ClaimRef.UID = "of an earlier claim with this name"
	if isOurs(claimOf("2Gi"), strange) {
		t.Error("the volume of another claim counts as ours")
	}
}

func TestVolumeIsMadeAndRemovedOnTheChosenNode(t *testing.T) {
	root := t.TempDir()
	p := provisioner{dirs: directories{hostPattern: filepath.Join(root, "*", "volumes"), nodeDir: "/var/lib/volumes"}}
	reclaim := corev1.PersistentVolumeReclaimDelete
	options := controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{ReclaimPolicy: &reclaim}, PVName: "pv-1", PVC: claimOf("1Gi"), SelectedNodeName: "node-2",
	}
	volume, _, err := p.Provision(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "node-2", "volumes", "pv-1")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Fatalf("directory %s: %v, %v; want mode 0777", dir, info, err)
	}
	if volume.Spec.Local.Path != "/var/lib/volumes/pv-1" {
		t.Errorf("path on the node %q", volume.Spec.Local.Path)
	}
	if node, err := nodeOf(volume); err != nil || node != "node-2" {
		t.Errorf("node affinity %q, %v", node, err)
	}
	if err := p.Delete(context.Background(), volume); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("directory after Delete: %v", err)
	}

	options.SelectedNodeName = ""
	if _, _, err := p.Provision(context.Background(), options); err == nil {
		t.Error("a volume was made without a chosen node")
	}
	options.SelectedNodeName = "../../etc"
	if _, _, err := p.Provision(context.Background(), options); err == nil {
		t.Error("a node name led out of the directory")
	}
}
