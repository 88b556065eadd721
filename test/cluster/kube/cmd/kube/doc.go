// Command kube is all of Kubernetes and etcd in one program, which looks at the name it is called by. The parts share most of their
// packages, so one link instead of seven halves the cold build, and the processes share their code in memory.
package main
