package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// directories knows where volumes are, seen from the machine and from a node.
type directories struct {
	hostPattern string // holds one *, for the node's name
	nodeDir     string
}

// onHost is where this program finds a volume of a node.
func (d directories) onHost(node, volume string) (string, error) {
	for _, name := range []string{node, volume} {
		if name == "" || strings.ContainsAny(name, "/*") || strings.HasPrefix(name, ".") {
			return "", fmt.Errorf("%q cannot be part of a path", name)
		}
	}
	return filepath.Join(strings.Replace(d.hostPattern, "*", node, 1), volume), nil
}

// onNode is where kubelet finds the volume.
func (d directories) onNode(volume string) string { return filepath.Join(d.nodeDir, volume) }

type provisioner struct{ dirs directories }

// Provision makes the directory of a new volume on the node the scheduler chose.
func (p provisioner) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if o.PVC.Spec.VolumeMode != nil && *o.PVC.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim %s/%s: volumeMode Block is not supported, only Filesystem", o.PVC.Namespace, o.PVC.Name)
	}
	if o.PVC.Spec.Selector != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim %s/%s: a selector is not supported", o.PVC.Namespace, o.PVC.Name)
	}
	if o.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim %s/%s: no node chosen; the class must have volumeBindingMode WaitForFirstConsumer", o.PVC.Namespace, o.PVC.Name)
	}
	dir, err := p.dirs.onHost(o.SelectedNodeName, o.PVName)
	if err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("place volume: %w", err)
	}
	if err := makeDir(dir); err != nil {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("make volume %s on %s: %w", o.PVName, o.SelectedNodeName, err)
	}
	return volumeFor(o, p.dirs.onNode(o.PVName)), controller.ProvisioningFinished, nil
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777) // whatever the umask
}

func volumeFor(o controller.ProvisionOptions, path string) *corev1.PersistentVolume {
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    &mode,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{o.SelectedNodeName},
				}}}},
			}},
		},
	}
}

// Delete removes the directory of a released volume.
func (p provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	node, err := nodeOf(volume)
	if err != nil {
		return err
	}
	dir, err := p.dirs.onHost(node, volume.Name)
	if err != nil {
		return fmt.Errorf("find volume %s: %w", volume.Name, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove volume %s on %s: %w", volume.Name, node, err)
	}
	return nil
}

func nodeOf(volume *corev1.PersistentVolume) (string, error) {
	if volume.Spec.NodeAffinity != nil && volume.Spec.NodeAffinity.Required != nil {
		for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Key == corev1.LabelHostname && len(e.Values) == 1 {
					return e.Values[0], nil
				}
			}
		}
	}
	return "", fmt.Errorf("volume %s: no node affinity to a single node; it was not made by this provisioner", volume.Name)
}
