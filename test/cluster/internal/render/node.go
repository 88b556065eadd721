package render

import (
	"bytes"
	"fmt"
	"text/template"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

// NodeOptions are what the user may choose about nodes.
type NodeOptions struct {
	// ReserveMemory and ReserveCPU are taken from what the node offers to pods: quantities as in "20Gi" and "1500m", or empty.
	ReserveMemory string
	ReserveCPU    string
	// Snapshotter is containerd's: "overlayfs", or "native" where the file system cannot be overlaid.
	Snapshotter string
}

// PauseImage is the sandbox image of every pod.
const PauseImage = "porpoise.local/pause:1"

// Where a node finds its files.
const (
	nodeKubeconfig  = plan.NodeConfigDir + "/kubelet.kubeconfig"
	proxyKubeconfig = plan.NodeConfigDir + "/kube-proxy.kubeconfig"
)

// NodeConfig is the input of the program that is process 1 of a node (kube/cmd/node).
func NodeConfig(n plan.Node, binDir string) []byte {
	daemons := []object{{"name": "kube-proxy", "args": proxyArgs(n), "needsAPI": true}}
	if !n.IsGateway() {
		daemons = append([]object{
			{"name": "containerd", "args": []string{"/usr/bin/containerd", "--config", plan.NodeConfigDir + "/containerd.toml"}},
			{"name": "kubelet", "args": kubeletArgs(n), "needsAPI": true},
		}, daemons...)
	}
	return encode(object{
		"hostname": n.Name(), "varLib": n.VarLib(), "varLog": n.VarLog(), "binDir": binDir, "daemons": daemons,
	})
}

func kubeletArgs(n plan.Node) []string {
	return []string{
		plan.NodeBinDir + "/kubelet",
		"--config=" + plan.NodeConfigDir + "/kubelet.json",
		"--kubeconfig=" + nodeKubeconfig,
		"--hostname-override=" + n.Name(),
		"--node-ip=" + n.Address().String(),
		"--node-labels=topology.kubernetes.io/region=local,topology.kubernetes.io/zone=" + zone(n),
	}
}

// zone puts every node into a zone of its own, up to three zones, so that spreading over zones can be tried.
func zone(n plan.Node) string { return fmt.Sprintf("zone-%d", (n.Number-1)%3+1) }

func proxyArgs(n plan.Node) []string {
	// The gateway is no node that Kubernetes knows; it borrows the first one's name, which only node ports would notice.
	hostname := n.Name()
	if n.IsGateway() {
		hostname = n.Cluster.Node(1).Name()
	}
	return []string{
		plan.NodeBinDir + "/kube-proxy",
		"--kubeconfig=" + proxyKubeconfig,
		"--hostname-override=" + hostname,
		"--proxy-mode=iptables",
		"--cluster-cidr=" + n.Cluster.PodNetwork().String(),
		"--bind-address=" + n.Address().String(),
		"--healthz-bind-address=" + n.Address().String() + ":10256",
		"--metrics-bind-address=" + n.Address().String() + ":10249",
		// A Service follows its endpoints at once; failover times are measured through it.
		"--iptables-min-sync-period=0s",
		"--iptables-sync-period=30s",
		"--kube-api-qps=100",
		"--kube-api-burst=200",
		// These would write sysctls that belong to the machine.
		"--conntrack-max-per-core=0",
		"--conntrack-tcp-timeout-established=0",
		"--conntrack-tcp-timeout-close-wait=0",
		"--oom-score-adj=0", // lowering it needs CAP_SYS_RESOURCE
	}
}

// KubeletConfig is the node's KubeletConfiguration.
func KubeletConfig(n plan.Node, o NodeOptions) []byte {
	reserved := object{}
	if o.ReserveMemory != "" {
		reserved["memory"] = o.ReserveMemory
	}
	if o.ReserveCPU != "" {
		reserved["cpu"] = o.ReserveCPU
	}
	return encode(object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": plan.NodeConfigDir + "/ca.crt"}},
		"authorization":            object{"mode": "Webhook"},
		"tlsCertFile":              plan.NodeConfigDir + "/kubelet.crt",
		"tlsPrivateKeyFile":        plan.NodeConfigDir + "/kubelet.key",
		"address":                  n.Address().String(),
		"healthzBindAddress":       "127.0.0.1",
		"containerRuntimeEndpoint": "unix://" + plan.ContainerdSocket,
		"clusterDNS":               []string{n.Cluster.DNSService().String()},
		"clusterDomain":            "cluster.local",
		"resolvConf":               plan.NodeConfigDir + "/resolv.conf",
		"registerNode":             true,
		// cgroups: version 1 is accepted, and nothing of systemd is assumed.
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": n.PodCgroup(),
		"enforceNodeAllocatable": []string{}, "systemReserved": reserved,
		"localStorageCapacityIsolation": false,
		"oomScoreAdj":                   0, // lowering it needs CAP_SYS_RESOURCE
		"failSwapOn":                    false,
		// Several nodes share one disk and one memory: none of them may evict pods because another one uses it.
		"evictionHard": object{"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%"},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"serializeImagePulls": false,
		// Changes of Secrets and ConfigMaps reach mounted files within a sync.
		"syncFrequency":             "10s",
		"nodeStatusUpdateFrequency": "4s",
		"nodeLeaseDurationSeconds":  16,
		"kubeAPIQPS":                200, "kubeAPIBurst": 400,
		"eventRecordQPS": 50, "eventBurst": 100,
		"maxPods": 110,
	})
}

var containerdTemplate = template.Must(template.New("containerd").Parse(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]

[grpc]
  address = "{{.Socket}}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  # Without CAP_SYS_RESOURCE runc cannot lower oom_score_adj, and every pod would die at once.
  restrict_oom_score_adj = true
  disable_apparmor = true
  # The streams of exec and logs reach kubelet, which is on the same node.
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{{.Snapshotter}}"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{{.Registries}}"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{{.CNI}}"
`))

// ContainerdConfig is the node's containerd.toml.
func ContainerdConfig(o NodeOptions) []byte {
	var out bytes.Buffer
	err := containerdTemplate.Execute(&out, map[string]string{
		"Socket": plan.ContainerdSocket, "Pause": PauseImage, "Snapshotter": o.Snapshotter, "CNI": plan.NodeConfigDir + "/cni",
		"Registries": registryDir,
	})
	if err != nil {
		panic(fmt.Sprintf("render containerd.toml: %v", err)) // the template is a constant
	}
	return out.Bytes()
}

// CNIConfig connects pods by a cable each (ptp) instead of a bridge: then every packet between two pods of a node passes the node's
// iptables, and Services work without the br_netfilter module and its machine-wide switch.
func CNIConfig(n plan.Node) []byte {
	return encode(object{
		"cniVersion": "0.4.0", "name": "pods",
		"plugins": []object{
			{"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": object{
				"type":   "host-local",
				"ranges": [][]object{{{"subnet": n.PodNetwork().String()}}},
				"routes": []object{{"dst": "0.0.0.0/0"}},
			}},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	})
}
