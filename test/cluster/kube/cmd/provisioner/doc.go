// Command provisioner serves the StorageClass "standard" of a local cluster: it makes a directory on the node the scheduler chose, offers
// it as a `local` volume bound to that node, removes it when the volume's reclaim policy is Delete, and lets claims grow.
//
// Volumes are of type `local` and not `hostPath`, because kubelet applies a pod's fsGroup to the first and not to the second. The
// directory is open to every user, as an empty disk formatted by a storage driver would be after fsGroup is applied, so that a pod
// running as a plain user can write without fsGroup as well.
//
// Growing follows the two halves of a real storage driver: this program is the controller half (condition Resizing, then the volume's
// capacity, then FileSystemResizePending) and kubelet is the node half, which ends it when a pod uses the claim. The size of a
// directory is not enforced.
package main
