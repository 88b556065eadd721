// Package cluster brings a local Kubernetes up and down, and takes single nodes away and back.
//
// Every operation is a list of "ensure" steps: a step does nothing where its result already exists. So `up` on a running cluster
// returns at once, `up` on a half-dead one repairs it, and `up` after an interrupted `up` goes on where that stopped.
//
// Where everything is, for the cluster NAME:
//
//	STATE/NAME/cluster.json        the plan and the options, written first and removed last
//	STATE/NAME/kubeconfig          the administrator's
//	STATE/NAME/{pki,config,etcd}   of the control plane
//	STATE/NAME/pids/               one process record for each process of the control plane and one for each node's process 1
//	STATE/NAME/logs/               of the control plane
//	STATE/NAME/nodes/node-N/       var-lib and var-log, which the node sees as /var/lib and /var/log
//	/porpoise-cluster/NAME         the cgroup of all of its processes
//	ppcI, ppcInN                   bridge and cables
package cluster
