// Command node is process 1 of one node of a local cluster. It is started in mount, PID, network, host name and IPC namespaces of
// its own, arranges the file system, waits until its network cable is plugged in, and keeps containerd, kubelet and kube-proxy running.
//
// Because it is process 1 of a PID namespace, killing it makes the kernel kill everything on the node at once, containers and
// their shims included: that is a power failure. Because its mounts and network are its own, nothing of the node is left on the
// machine afterwards.
package main
