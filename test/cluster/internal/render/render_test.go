package render

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/pki"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

var example = plan.Cluster{Name: "x", Index: 3, Nodes: 3, StateDir: "/state/x"}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var result map[string]any
	if err := json.Unmarshal(data, &result); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, data)
	}
	return result
}

func TestControlPlaneListensOnlyOnTheClustersOwnAddresses(t *testing.T) {
	for _, component := range []string{Etcd, APIServer, ControllerManager, Scheduler, Provisioner} {
		args := ControlPlane(example, component, "/bin-dir")
		if args[0] != "/bin-dir/"+component {
			t.Errorf("%s: program %q", component, args[0])
		}
		for _, arg := range args[1:] {
			if strings.Contains(arg, "0.0.0.0") || strings.Contains(arg, "127.0.0.1") {
				t.Errorf("%s: %s would collide with another cluster", component, arg)
			}
			if strings.Contains(arg, "/var/lib/") && !strings.HasPrefix(arg, "--node-dir=") {
				t.Errorf("%s: %s is outside of the state directory", component, arg)
			}
		}
	}
	if args := ControlPlane(example, Provisioner, "/b"); !slices.Contains(args, "--host-dir=/state/x/nodes/*/var-lib/porpoise-volumes") {
		t.Errorf("provisioner looks for volumes elsewhere than nodes have them: %q", args)
	}
}

func TestKubeletConfig(t *testing.T) {
	node := example.Node(2)
	config := decode(t, KubeletConfig(node, NodeOptions{ReserveMemory: "123", ReserveCPU: "500m"}))
	for field, want := range map[string]any{
		"cgroupRoot": "/porpoise-cluster/x/node-2/pods", "address": "172.30.3.12", "failCgroupV1": false,
	} {
		if config[field] != want {
			t.Errorf("%s = %v; want %v", field, config[field], want)
		}
	}
	if reserved := config["systemReserved"].(map[string]any); reserved["memory"] != "123" || reserved["cpu"] != "500m" {
		t.Errorf("systemReserved = %v", reserved)
	}
	if dns := config["clusterDNS"].([]any); len(dns) != 1 || dns[0] != "10.131.0.10" {
		t.Errorf("clusterDNS = %v", dns)
	}
	if reserved := decode(t, KubeletConfig(node, NodeOptions{}))["systemReserved"].(map[string]any); len(reserved) != 0 {
		t.Errorf("without options %v is reserved", reserved)
	}
}

func TestNodeRunsItsDaemonsAndTheGatewayOnlyTheProxy(t *testing.T) {
	names := func(n plan.Node) []string {
		var found []string
		for _, d := range decode(t, NodeConfig(n, "/cache/bin"))["daemons"].([]any) {
			found = append(found, d.(map[string]any)["name"].(string))
		}
		return found
	}
	if got := names(example.Node(1)); !slices.Equal(got, []string{"containerd", "kubelet", "kube-proxy"}) {
		t.Errorf("node runs %v", got)
	}
	if got := names(example.Gateway()); !slices.Equal(got, []string{"kube-proxy"}) {
		t.Errorf("gateway runs %v", got)
	}
	if args := proxyArgs(example.Gateway()); !slices.Contains(args, "--bind-address=172.30.3.10") {
		t.Errorf("gateway's kube-proxy: %q", args)
	}
}

func TestNodesHaveDisjointPodRangesAndThreeZones(t *testing.T) {
	seen := map[string]bool{}
	zones := map[string]bool{}
	for _, n := range example.AllNodes() {
		text := string(CNIConfig(n))
		if !strings.Contains(text, n.PodNetwork().String()) || seen[text] {
			t.Errorf("%s: CNI configuration %s", n.Name(), text)
		}
		seen[text] = true
		zones[zone(n)] = true
	}
	if len(zones) != 3 {
		t.Errorf("zones %v; want 3", zones)
	}
}

func TestContainerdConfig(t *testing.T) {
	text := string(ContainerdConfig(NodeOptions{Snapshotter: "native"}))
	for _, want := range []string{`snapshotter = "native"`, "restrict_oom_score_adj = true", `sandbox_image = "` + PauseImage + `"`,
		`config_path = "/var/lib/porpoise/certs.d"`} {
		if !strings.Contains(text, want) {
			t.Errorf("containerd.toml lacks %q:\n%s", want, text)
		}
	}
}

func TestRegistryFilesNameTheAuthorityWhereTheNodeSeesIt(t *testing.T) {
	files := RegistryFiles("172.30.3.1:5000", "PEM")
	if len(files) != 2 || string(files["certs.d/172.30.3.1:5000/ca.crt"]) != "PEM" {
		t.Errorf("files %v; want hosts.toml and ca.crt", files)
	}
	hosts := string(files["certs.d/172.30.3.1:5000/hosts.toml"])
	for _, want := range []string{`server = "https://172.30.3.1:5000"`, `ca = "/var/lib/porpoise/certs.d/172.30.3.1:5000/ca.crt"`} {
		if !strings.Contains(hosts, want) {
			t.Errorf("hosts.toml lacks %q:\n%s", want, hosts)
		}
	}
}

func TestSystemManifestIsFilledIn(t *testing.T) {
	text := string(SystemManifest(example))
	for _, want := range []string{"clusterIP: 10.131.0.10", "image: " + CoreDNSImage, "name: system:provisioner", "allowVolumeExpansion: true"} {
		if !strings.Contains(text, want) {
			t.Errorf("manifest lacks %q", want)
		}
	}
	if strings.Contains(text, "{{") || strings.Contains(text, "<no value>") {
		t.Error("manifest has holes")
	}
}

func TestKubeconfigStandsAlone(t *testing.T) {
	store := pki.Store{Dir: t.TempDir()}
	if err := store.EnsureAuthority(CA); err != nil {
		t.Fatal(err)
	}
	if _, err := Kubeconfig(example, store, Admin); err == nil {
		t.Error("a kubeconfig was made without a certificate")
	}
	if err := store.EnsureLeaf(CA, pki.Leaf{Name: Admin, CommonName: "a"}); err != nil {
		t.Fatal(err)
	}
	data, err := Kubeconfig(example, store, Admin)
	if err != nil {
		t.Fatal(err)
	}
	decode(t, data)
	if !strings.Contains(string(data), "https://172.30.3.1:6443") || strings.Contains(string(data), store.Dir) {
		t.Errorf("kubeconfig: %s", data)
	}
}

func TestVersionsAreThoseOfTheModule(t *testing.T) {
	data, err := os.ReadFile("../../kube/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/coredns/coredns " + CoreDNSVersion; !strings.Contains(string(data), want) {
		t.Errorf("kube/go.mod lacks %q", want)
	}
}
