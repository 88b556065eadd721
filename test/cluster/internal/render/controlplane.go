package render

import (
	"fmt"
	"path/filepath"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/pki"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

// Names of certificates and kubeconfigs.
const (
	CA                = "ca"
	FrontProxyCA      = "front-proxy-ca"
	FrontProxyClient  = "front-proxy-client"
	APIServer         = "kube-apiserver"
	KubeletClient     = "kube-apiserver-kubelet-client"
	ServiceAccounts   = "service-accounts"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Proxy             = "kube-proxy"
	Provisioner       = "provisioner"
	Etcd              = "etcd"
	Admin             = "admin"
)

// Times that decide how soon Kubernetes notices a lost node and replaces its pods. Its own defaults (50 s and 300 s) suit data centres;
// tests that lose a node would only wait.
const (
	nodeGracePeriod   = "20s"
	evictionTolerance = "30"
)

// Kubeconfigs are the users of the control plane, each with a certificate of the same name.
func Kubeconfigs() []string { return []string{ControllerManager, Scheduler, Proxy, Provisioner, Admin} }

// KubeconfigPath is where the kubeconfig of a user of the control plane lies.
func KubeconfigPath(c plan.Cluster, user string) string {
	if user == Admin {
		return c.Kubeconfig()
	}
	return c.Path("config", user+".kubeconfig")
}

// ControlPlane returns the command line of a process of the control plane. binDir holds the programs.
func ControlPlane(c plan.Cluster, component, binDir string) []string {
	flags := map[string]func(plan.Cluster) []string{
		Etcd: etcdFlags, APIServer: apiServerFlags, ControllerManager: controllerManagerFlags,
		Scheduler: schedulerFlags, Provisioner: provisionerFlags,
	}[component]
	return append([]string{filepath.Join(binDir, component)}, flags(c)...)
}

func etcdFlags(c plan.Cluster) []string {
	peer := fmt.Sprintf("http://%s:2380", c.LoopbackAddress()) //nolint:nosprintfhostport // The plan has IPv4 addresses only.
	return []string{
		"--name=default",
		"--data-dir=" + c.Path("etcd"),
		"--listen-client-urls=" + c.EtcdURL(),
		"--advertise-client-urls=" + c.EtcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		// A test cluster that loses power is thrown away; waiting for the disk would slow every write of every test.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func apiServerFlags(c plan.Cluster) []string {
	p := pki.Store{Dir: c.Path("pki")}
	return []string{
		"--advertise-address=" + c.HostAddress().String(),
		"--bind-address=" + c.HostAddress().String(),
		"--secure-port=6443",
		"--etcd-servers=" + c.EtcdURL(),
		"--service-cluster-ip-range=" + c.ServiceNetwork().String(),
		"--allow-privileged",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + p.Certificate(CA),
		"--tls-cert-file=" + p.Certificate(APIServer),
		"--tls-private-key-file=" + p.Key(APIServer),
		"--kubelet-certificate-authority=" + p.Certificate(CA),
		"--kubelet-client-certificate=" + p.Certificate(KubeletClient),
		"--kubelet-client-key=" + p.Key(KubeletClient),
		"--kubelet-preferred-address-types=InternalIP", // node names do not resolve on the machine
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + filepath.Join(p.Dir, ServiceAccounts+".pub"),
		"--service-account-signing-key-file=" + p.Key(ServiceAccounts),
		"--requestheader-client-ca-file=" + p.Certificate(FrontProxyCA),
		"--requestheader-allowed-names=" + FrontProxyClient,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.Certificate(FrontProxyClient),
		"--proxy-client-key-file=" + p.Key(FrontProxyClient),
		// Webhooks are called at their pods' addresses, which do not depend on any node's kube-proxy.
		"--enable-aggregator-routing=true",
		"--default-not-ready-toleration-seconds=" + evictionTolerance,
		"--default-unreachable-toleration-seconds=" + evictionTolerance,
		"--audit-policy-file=" + c.Path("config", "audit-policy.yaml"),
		"--audit-log-path=" + c.Path("logs", "audit.log"),
		"--audit-log-maxsize=100",
		"--audit-log-maxbackup=1",
		"--profiling=false",
	}
}

func controllerManagerFlags(c plan.Cluster) []string {
	p := pki.Store{Dir: c.Path("pki")}
	return []string{
		"--kubeconfig=" + KubeconfigPath(c, ControllerManager),
		"--bind-address=" + c.LoopbackAddress().String(),
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + p.Key(ServiceAccounts),
		"--root-ca-file=" + p.Certificate(CA),
		"--cluster-signing-cert-file=" + p.Certificate(CA),
		"--cluster-signing-key-file=" + p.Key(CA),
		"--node-monitor-period=2s",
		"--node-monitor-grace-period=" + nodeGracePeriod,
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--profiling=false",
	}
}

func schedulerFlags(c plan.Cluster) []string {
	return []string{
		"--config=" + c.Path("config", "scheduler.json"),
		"--bind-address=" + c.LoopbackAddress().String(),
	}
}

func provisionerFlags(c plan.Cluster) []string {
	return []string{
		"--kubeconfig=" + KubeconfigPath(c, Provisioner),
		"--host-dir=" + c.Path("nodes", "*", "var-lib", filepath.Base(plan.NodeVolumeDir)),
		"--node-dir=" + plan.NodeVolumeDir,
	}
}
