package plan

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
)

// Limits of what one machine is asked to hold.
const (
	MaxIndex = 31
	MaxNodes = 50

	// GatewayNumber is the number of the node-like namespace that runs only kube-proxy. It gives the machine itself
	// (tests, kubectl port-forward, webhook calls of the API server) a way to Service addresses that no stopped or
	// cut-off node can take away.
	GatewayNumber = 0
)

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$`)

// Cluster names one cluster and everything that belongs to it.
type Cluster struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	Nodes int    `json:"nodes"`
	// StateDir is this cluster's own directory below the state root.
	StateDir string `json:"stateDir"`
}

// ValidateName refuses names that cannot be a directory, a cgroup and a part of a host name.
func ValidateName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("--name %q: must be 1 to 20 characters of a-z, 0-9 and '-', and start and end with a letter or digit", name)
	}
	return nil
}

// ValidateNodes refuses node counts outside 1..MaxNodes.
func ValidateNodes(nodes int) error {
	if nodes < 1 || nodes > MaxNodes {
		return fmt.Errorf("--nodes %d: must be from 1 to %d", nodes, MaxNodes)
	}
	return nil
}

// Bridge is the network interface that joins the nodes.
func (c Cluster) Bridge() string { return fmt.Sprintf("ppc%d", c.Index) }

// NodeNetwork is the network of the nodes and the bridge.
func (c Cluster) NodeNetwork() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 30, byte(c.Index), 0}), 24)
}

// HostAddress is the machine's address on the bridge.
func (c Cluster) HostAddress() netip.Addr {
	return netip.AddrFrom4([4]byte{172, 30, byte(c.Index), 1})
}

// LoopbackAddress is where etcd and the control plane's own ports listen: not reachable from any pod.
func (c Cluster) LoopbackAddress() netip.Addr {
	return netip.AddrFrom4([4]byte{127, 30, byte(c.Index), 1})
}

// PodNetwork holds the pod ranges of all nodes.
func (c Cluster) PodNetwork() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + c.Index), 0, 0}), 16)
}

// ServiceNetwork is the range of ClusterIPs.
func (c Cluster) ServiceNetwork() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + c.Index), 0, 0}), 16)
}

// KubernetesService is the address of the Service "kubernetes": the first of the range.
func (c Cluster) KubernetesService() netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(128 + c.Index), 0, 1})
}

// DNSService is the address of the Service "kube-dns".
func (c Cluster) DNSService() netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(128 + c.Index), 0, 10})
}

// Networks lists every range that must be free on the machine before this index is taken.
func (c Cluster) Networks() []netip.Prefix {
	return []netip.Prefix{c.NodeNetwork(), c.PodNetwork(), c.ServiceNetwork()}
}

// APIServerURL is what every client uses.
func (c Cluster) APIServerURL() string { return fmt.Sprintf("https://%s:6443", c.HostAddress()) } //nolint:nosprintfhostport // The plan has IPv4 addresses only.

// EtcdURL is what kube-apiserver uses.
func (c Cluster) EtcdURL() string { return fmt.Sprintf("http://%s:2379", c.LoopbackAddress()) } //nolint:nosprintfhostport // The plan has IPv4 addresses only.

// CgroupRoot is the directory, in every cgroup hierarchy, below which all processes of the cluster live.
func (c Cluster) CgroupRoot() string { return "/porpoise-cluster/" + c.Name }

// ControlCgroup holds etcd and the control plane.
func (c Cluster) ControlCgroup() string { return c.CgroupRoot() + "/control" }

// Path joins elements to the state directory.
func (c Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.StateDir}, elements...)...)
}

// Kubeconfig is the administrator's kubeconfig.
func (c Cluster) Kubeconfig() string { return c.Path("kubeconfig") }

// Gateway is the namespace described at GatewayNumber.
func (c Cluster) Gateway() Node { return Node{Cluster: c, Number: GatewayNumber} }

// Node returns node number n, counted from 1.
func (c Cluster) Node(n int) Node { return Node{Cluster: c, Number: n} }

// AllNodes returns the nodes 1..Nodes, without the gateway.
func (c Cluster) AllNodes() []Node {
	nodes := make([]Node, 0, c.Nodes)
	for n := 1; n <= c.Nodes; n++ {
		nodes = append(nodes, c.Node(n))
	}
	return nodes
}

// Node is one machine of the cluster: namespaces of its own with containerd, kubelet and kube-proxy in them.
type Node struct {
	Cluster Cluster
	Number  int
}

// IsGateway tells the kube-proxy-only namespace from the nodes Kubernetes knows.
func (n Node) IsGateway() bool { return n.Number == GatewayNumber }

// Name is the Kubernetes node name and the host name inside.
func (n Node) Name() string {
	if n.IsGateway() {
		return "gateway"
	}
	return fmt.Sprintf("node-%d", n.Number)
}

// Address is the node's address on the bridge.
func (n Node) Address() netip.Addr {
	return netip.AddrFrom4([4]byte{172, 30, byte(n.Cluster.Index), byte(10 + n.Number)})
}

// PodNetwork is the range of the node's pods.
func (n Node) PodNetwork() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(64 + n.Cluster.Index), byte(n.Number), 0}), 24)
}

// HostLink is the machine's end of the node's cable. At most 15 characters: "ppc31n50".
func (n Node) HostLink() string { return fmt.Sprintf("%sn%d", n.Cluster.Bridge(), n.Number) }

// Cgroup is the parent of DaemonCgroup and PodCgroup.
func (n Node) Cgroup() string { return n.Cluster.CgroupRoot() + "/" + n.Name() }

// DaemonCgroup holds the node's init process, containerd and its shims, kubelet and kube-proxy.
func (n Node) DaemonCgroup() string { return n.Cgroup() + "/daemons" }

// PodCgroup is kubelet's cgroupRoot.
func (n Node) PodCgroup() string { return n.Cgroup() + "/pods" }

// Dir is the node's directory on the machine.
func (n Node) Dir() string { return n.Cluster.Path("nodes", n.Name()) }

// VarLib is what the node sees as /var/lib.
func (n Node) VarLib() string { return filepath.Join(n.Dir(), "var-lib") }

// VarLog is what the node sees as /var/log.
func (n Node) VarLog() string { return filepath.Join(n.Dir(), "var-log") }

// ConfigDir is what the node sees as NodeConfigDir.
func (n Node) ConfigDir() string { return filepath.Join(n.VarLib(), "porpoise") }

// Paths inside a node.
const (
	NodeConfigDir    = "/var/lib/porpoise"
	NodeBinDir       = NodeConfigDir + "/bin"
	NodeVolumeDir    = "/var/lib/porpoise-volumes"
	ContainerdSocket = "/run/containerd/containerd.sock"
)

// VolumeDir is what the node sees as NodeVolumeDir.
func (n Node) VolumeDir() string { return filepath.Join(n.VarLib(), filepath.Base(NodeVolumeDir)) }

// FreeIndex returns the lowest index none of whose networks overlaps one in use on the machine and that is not taken.
func FreeIndex(inUse []netip.Prefix, taken map[int]bool) (int, error) {
	for index := 0; index <= MaxIndex; index++ {
		if !taken[index] && !overlaps(Cluster{Index: index}.Networks(), inUse) {
			return index, nil
		}
	}
	return 0, fmt.Errorf("no free address ranges: all of 172.30.0-%d.0/24 with their pod and Service ranges are in use on this machine", MaxIndex)
}

func overlaps(wanted, inUse []netip.Prefix) bool {
	for _, w := range wanted {
		for _, u := range inUse {
			if u.Bits() > 0 && w.Overlaps(u) {
				return true
			}
		}
	}
	return false
}
