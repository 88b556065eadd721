//go:build apiserver

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
)

const leaseNamespace = "porpoise-system"

var (
	apiConfig *rest.Config
	admin     client.Client
	logged    = &lines{}
)

func TestMain(m *testing.M) { os.Exit(withAPIServer(m)) }

func withAPIServer(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run `make test-apiserver`")
		return 1
	}
	ctrl.SetLogger(funcr.New(logged.add, funcr.Options{}))
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	var err error
	if apiConfig, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server: "+err.Error())
		return 1
	}
	defer func() { _ = env.Stop() }()
	apiConfig.QPS = -1
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	must(v1.AddToScheme(scheme))
	admin, err = client.New(apiConfig, client.Options{Scheme: scheme})
	must(err)
	return m.Run()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, prefix+" "+args)
}

// end returns the last lines.
func (l *lines) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text[max(0, len(l.text)-5):], "\n")
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.text {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// wire is the lane's way to the API server. It can lose all calls about Leases.
type wire struct {
	mu sync.Mutex
	// cut loses calls about Leases; lost counts them.
	cut  bool
	lost int
	// writes are those that were let through, Leases apart; fills are the lists and watches that filled a cache.
	writes []string
	fills  int
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if err := w.note(req); err != nil {
			return nil, err
		}
		return next.RoundTrip(req)
	})
}

func (w *wire) note(req *http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	query := req.URL.Query()
	switch {
	case strings.Contains(req.URL.Path, "/leases"):
		if w.cut {
			w.lost++
			return errors.New("no route to the API server")
		}
	case req.Method != http.MethodGet:
		w.writes = append(w.writes, req.Method+" "+req.URL.Path)
	case query.Get("sendInitialEvents") == "true", query.Get("limit") != "":
		w.fills++
	}
	return nil
}

func (w *wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

func (w *wire) seen() (writes, fills, lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.writes), w.fills, w.lost
}

// eventually polls until the claim holds.
func eventually(t *testing.T, what string, claim func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !claim(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s; the log's end: %s", what, logged.end())
		}
	}
}

// A lane that loses its Lease stops acting, keeps caches and streams, and goes on acting when it has the Lease again; told
// to end, it gives the Lease back.
func TestALaneLosesItsLease(t *testing.T) {
	shop := newShop(t)
	w := &wire{}
	config := rest.CopyConfig(apiConfig)
	config.Wrap(w.wrap)
	o := options{
		leaderElect: true, leaderNamespace: leaseNamespace, topologyWorkers: 4, topologyQPS: 1000, gracefulShutdown: 10 * time.Second,
		namespaces: []string{shop.key.Namespace}, healthAddress: "0", metrics: metricsOptions{address: "0"},
	}
	l := o.topologyLane()
	l.duration, l.deadline = 24*time.Second, 16*time.Second // A machine that is busy with tests must not lose it by itself.
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.runLane(ctx, config, l, false) }()
	t.Cleanup(stop)
	eventually(t, "the topology is healthy and pods have their roles", func() bool { return shop.healthy() && shop.role(1) == naming.RoleReplica })

	streams := shop.streams(t)
	for ip, ports := range streams {
		if len(ports) == 0 {
			t.Fatalf("no stream to %s", ip)
		}
	}
	w.setCut(true)
	eventually(t, "the Lease is lost", func() bool { return logged.count("Lost the Lease") == 1 })
	writes, fills, lost := w.seen()
	shop.unlabel(1)
	eventually(t, "some more tries to get the Lease", func() bool { _, _, now := w.seen(); return now >= lost+4 })
	if now, _, _ := w.seen(); now != writes {
		t.Errorf("without the Lease it wrote %d times", now-writes)
	}
	if shop.role(1) != "" {
		t.Error("the pod was labelled without the Lease")
	}

	w.setCut(false)
	eventually(t, "what happened meanwhile is seen to", func() bool { return shop.role(1) == naming.RoleReplica })
	if got := value(t, terms.WithLabelValues("topology")); got < 2 {
		t.Errorf("%g terms, want one more after the Lease was lost", got)
	}
	if _, now, _ := w.seen(); now != fills {
		t.Errorf("caches were filled again: %d lists and watches, before %d", now, fills)
	}
	now := shop.streams(t)
	for ip, ports := range streams {
		for port := range ports {
			if !now[ip][port] {
				t.Errorf("the connection to agent %s from port %s was made anew", ip, port)
			}
		}
	}

	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	var lease coordinationv1.Lease
	must(admin.Get(t.Context(), types.NamespacedName{Namespace: leaseNamespace, Name: l.lease}, &lease))
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the Lease was not given back by %s", holder)
	}
}

// shop is one cluster on fake agents.
type shop struct {
	key types.NamespacedName
	ips []string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	ctx := t.Context()
	s := &shop{key: types.NamespacedName{Namespace: "shop", Name: "orders"}}
	world := fakeagent.NewWorld(s.key.Namespace, s.key.Name, fakeagent.WithDurations(fakeagent.Durations{
		Initialize: 200 * time.Millisecond, Clone: 200 * time.Millisecond, Boot: 100 * time.Millisecond,
	}))
	certs, err := fakeagent.NewCertificates(s.key.Name)
	must(err)
	for _, name := range []string{leaseNamespace, s.key.Namespace} {
		must(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	meta := metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name, Labels: naming.ClusterLabels(s.key.Name)}
	secret := *meta.DeepCopy()
	secret.Name = naming.SecretManagerTLS(s.key.Name)
	must(admin.Create(ctx, &corev1.Secret{ObjectMeta: secret, Data: certs.Manager}))
	cluster := &v1.MySQLCluster{ObjectMeta: *meta.DeepCopy(), Spec: v1.MySQLClusterSpec{
		Version: "9.7", Replicas: 3, Storage: v1.StorageSpec{Size: resource.MustParse("1Gi")},
	}}
	must(admin.Create(ctx, cluster))
	meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1.GroupVersion.WithKind("MySQLCluster"))}
	topo := &v1.MySQLTopology{ObjectMeta: meta, Spec: v1.MySQLTopologySpec{ClusterID: string(cluster.UID), Acks: 1}}
	for i := range 3 {
		topo.Spec.Instances = append(topo.Spec.Instances, naming.Instance(s.key.Name, i))
	}
	must(admin.Create(ctx, topo))
	for i, name := range topo.Spec.Instances {
		ip := fmt.Sprintf("127.190.0.%d", i+1)
		world.Add(name)
		server, err := world.Serve(name, ip, certs)
		must(err)
		t.Cleanup(server.Close)
		s.ips = append(s.ips, ip)
		s.runPod(ctx, name, ip)
	}
	return s
}

func (s *shop) runPod(ctx context.Context, instance, ip string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.key.Namespace, Name: naming.Pod(instance), Labels: naming.InstanceLabels(s.key.Name, instance)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "mysqld", Image: "mysql"}}},
	}
	must(admin.Create(ctx, pod))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "mysqld", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}}
	must(admin.Status().Update(ctx, pod))
}

func (s *shop) healthy() bool {
	var topo v1.MySQLTopology
	must(admin.Get(context.Background(), s.key, &topo))
	return topo.Status.Phase == v1.TopologyStable && topo.Status.Routed && topo.Status.Reason == v1.TopologyHealthy
}

func (s *shop) pod(ordinal int) *corev1.Pod {
	pod := &corev1.Pod{}
	must(admin.Get(context.Background(), types.NamespacedName{Namespace: s.key.Namespace, Name: naming.Pod(naming.Instance(s.key.Name, ordinal))}, pod))
	return pod
}

func (s *shop) role(ordinal int) string { return s.pod(ordinal).Labels[naming.LabelRole] }

// unlabel takes a pod's role away, which a lane that leads corrects.
func (s *shop) unlabel(ordinal int) {
	pod := s.pod(ordinal)
	base := client.MergeFrom(pod.DeepCopy())
	delete(pod.Labels, naming.LabelRole)
	must(admin.Patch(context.Background(), pod, base))
}

// streams are the local ports of the established connections to each agent, as the kernel lists them.
func (s *shop) streams(t *testing.T) map[string]map[string]bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	for _, ip := range s.ips {
		four := net.ParseIP(ip).To4()
		agent := fmt.Sprintf("%02X%02X%02X%02X:%04X", four[3], four[2], four[1], four[0], naming.PortAgent)
		out[ip] = map[string]bool{}
		for line := range strings.Lines(string(table)) {
			const established = "01"
			if f := strings.Fields(line); len(f) > 3 && f[2] == agent && f[3] == established {
				out[ip][f[1]] = true
			}
		}
	}
	return out
}
