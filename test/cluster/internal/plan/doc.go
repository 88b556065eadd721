// Package plan is the arithmetic of a cluster: which addresses, names and directories belong to it.
//
// Everything follows from the cluster's name, its index (0..31, unique on the machine) and two root directories, so that
// several clusters run side by side and that `down` finds what `up` made even when the state directory is damaged.
//
// Worked example for index 0: bridge ppc0 has 172.30.0.1 (kube-apiserver listens there), node 2 has 172.30.0.12 and the pod
// range 10.64.2.0/24, Services come from 10.128.0.0/16 and cluster DNS is 10.128.0.10. Processes of the control plane that only
// talk on the machine listen on 127.30.0.1.
package plan
