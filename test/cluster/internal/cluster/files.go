package cluster

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/pki"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/render"
)

func (s state) pki() pki.Store { return pki.Store{Dir: s.Path("pki")} }

// ensureControlFiles makes directories, certificates and configuration of the control plane.
func (s state) ensureControlFiles() error {
	for dir, mode := range map[string]fs.FileMode{"pki": 0o700, "config": 0o700, "etcd": 0o700, "pids": 0o755, "logs": 0o755, "nodes": 0o755} {
		if err := os.MkdirAll(s.Path(dir), mode); err != nil {
			return fmt.Errorf("make state directory: %w", err)
		}
	}
	if err := s.ensureCertificates(); err != nil {
		return err
	}
	for _, user := range render.Kubeconfigs() {
		data, err := render.Kubeconfig(s.Cluster, s.pki(), user)
		if err != nil {
			return err
		}
		if err := writeFile(render.KubeconfigPath(s.Cluster, user), data, 0o600); err != nil {
			return err
		}
	}
	for name, data := range map[string][]byte{
		"scheduler.json":    render.SchedulerConfig(s.Cluster),
		"audit-policy.yaml": render.AuditPolicy(),
		"system.yaml":       render.SystemManifest(s.Cluster),
	} {
		if err := writeFile(s.Path("config", name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (s state) ensureCertificates() error {
	store := s.pki()
	for _, authority := range []string{render.CA, render.FrontProxyCA} {
		if err := store.EnsureAuthority(authority); err != nil {
			return err
		}
	}
	if err := store.EnsureSigningKey(render.ServiceAccounts); err != nil {
		return err
	}
	if err := store.EnsureLeaf(render.FrontProxyCA, pki.Leaf{Name: render.FrontProxyClient, CommonName: render.FrontProxyClient}); err != nil {
		return err
	}
	for _, leaf := range []pki.Leaf{
		{Name: render.APIServer, CommonName: render.APIServer,
			DNSNames:  []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			Addresses: []net.IP{s.HostAddress().AsSlice(), s.KubernetesService().AsSlice(), net.IPv4(127, 0, 0, 1)}},
		{Name: render.KubeletClient, CommonName: render.KubeletClient, Organization: "system:masters"},
		{Name: render.Admin, CommonName: "kubernetes-admin", Organization: "system:masters"},
		{Name: render.ControllerManager, CommonName: "system:kube-controller-manager"},
		{Name: render.Scheduler, CommonName: "system:kube-scheduler"},
		{Name: render.Proxy, CommonName: "system:kube-proxy"},
		{Name: render.Provisioner, CommonName: "system:" + render.Provisioner},
	} {
		if err := store.EnsureLeaf(render.CA, leaf); err != nil {
			return err
		}
	}
	return nil
}

// ensureNodeFiles makes what the node sees below /var/lib and /var/log.
func (s state) ensureNodeFiles(n plan.Node) error {
	for _, dir := range []string{
		filepath.Join(n.ConfigDir(), "bin"), filepath.Join(n.ConfigDir(), "cni"), n.VarLog(), n.VolumeDir(),
		filepath.Join(n.VarLib(), "kubelet"), filepath.Join(n.VarLib(), "containerd"), filepath.Join(n.VarLib(), "cni"),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory of %s: %w", n.Name(), err)
		}
	}
	files, err := s.nodeFiles(n)
	if err != nil {
		return fmt.Errorf("configure %s: %w", n.Name(), err)
	}
	for name, data := range files {
		if err := writeFile(filepath.Join(n.ConfigDir(), name), data, 0o600); err != nil {
			return err
		}
	}
	return s.ensureRegistryFiles(n)
}

func (s state) nodeFiles(n plan.Node) (map[string][]byte, error) {
	proxy, err := render.Kubeconfig(s.Cluster, s.pki(), render.Proxy)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"node.json":             render.NodeConfig(n, filepath.Join(s.BinaryDir, "bin")),
		"kube-proxy.kubeconfig": proxy,
	}
	if n.IsGateway() {
		return files, nil
	}
	store, user := s.pki(), "kubelet-"+n.Name()
	if err := store.EnsureLeaf(render.CA, pki.Leaf{Name: user, CommonName: "system:node:" + n.Name(), Organization: "system:nodes",
		DNSNames: []string{n.Name()}, Addresses: []net.IP{n.Address().AsSlice()}}); err != nil {
		return nil, err
	}
	for name, path := range map[string]string{
		"kubelet.crt": store.Certificate(user), "kubelet.key": store.Key(user), "ca.crt": store.Certificate(render.CA),
	} {
		if files[name], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	if files["kubelet.kubeconfig"], err = render.Kubeconfig(s.Cluster, store, user); err != nil {
		return nil, err
	}
	options, err := s.nodeOptions(n)
	if err != nil {
		return nil, err
	}
	files["kubelet.json"] = render.KubeletConfig(n, options)
	files["containerd.toml"] = render.ContainerdConfig(options)
	files["cni/10-pods.conflist"] = render.CNIConfig(n)
	files["resolv.conf"] = []byte("# Pods resolve names of the cluster only; there is nothing outside that a test may depend on.\n")
	return files, nil
}

func (s state) nodeOptions(n plan.Node) (render.NodeOptions, error) {
	memory, milli, err := machine()
	if err != nil {
		return render.NodeOptions{}, err
	}
	options := render.NodeOptions{Snapshotter: s.Snapshotter}
	options.ReserveMemory, options.ReserveCPU, err = s.Resources.reserve(n.Number, memory, milli)
	return options, err
}
