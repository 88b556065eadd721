// Package image makes the container images of the project without docker or any daemon.
//
// Two images are made:
//
//   - the operator image holds the static binaries manager, agent and kubectl-porpoise, a list of
//     public certificate authorities and nothing else. The same binaries give the same digest on
//     every machine: file order, times and owners are fixed, and the certificate authorities come
//     from a pinned Go module instead of the machine;
//   - the MySQL image for tests holds Debian's mysqld, made by mmdebstrap from the mirror which the
//     machine's own apt uses. It is a test fixture, not a product: production uses images of MySQL
//     that are not made here.
//
// An image is kept as an OCI layout (a folder) together with an archive of it that containerd
// (`ctr images import`), kind and docker load; [Push] sends the layout to a registry. What was built
// is written down in a [Manifest], which other tools read to learn the references to deploy.
//
// The root file system of the MySQL image is also unpacked for tests which start mysqld as a process
// of the host ([HostMySQL]): MySQL in the image is newer than the host's C library, so the
// programs are started through the image's own loader.
package image
