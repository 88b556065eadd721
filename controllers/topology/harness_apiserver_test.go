//go:build apiserver

package topology_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/controllers/topology"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
)

var (
	restConfig *rest.Config
	scheme     = runtime.NewScheme()
	api        client.Client
)

func TestMain(m *testing.M) {
	os.Exit(withAPIServer(m))
}

func withAPIServer(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run `make test-apiserver`")
		return 1
	}
	if os.Getenv("PORPOISE_TEST_LOG") != "" {
		ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	} else {
		ctrl.SetLogger(zap.New(zap.WriteTo(nowhere{})))
	}
	must(clientgoscheme.AddToScheme(scheme))
	must(v1.AddToScheme(scheme))
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	var err error
	if restConfig, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server: "+err.Error())
		return 1
	}
	defer func() { _ = env.Stop() }()
	restConfig.QPS = -1
	if api, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// fixture is one cluster in a namespace of its own, with fake agents.
type fixture struct {
	t     *testing.T
	key   types.NamespacedName
	world *fakeagent.World
	certs *fakeagent.Certificates
	block byte

	// meddle is called before each write of the record; nil: nobody meddles.
	meddle func()

	mu      sync.Mutex
	servers map[string]*fakeagent.Server
}

// blocks gives each cluster addresses of its own: 127.BLOCK.0.ORDINAL.
var blocks atomic.Int32

func newFixture(t *testing.T, acks int32, replicas int, rate float64, options ...fakeagent.Option) *fixture {
	t.Helper()
	n := blocks.Add(1)
	f := &fixture{
		t: t, key: types.NamespacedName{Namespace: fmt.Sprintf("shop-%d", n), Name: "orders"}, block: byte(10 + n), servers: map[string]*fakeagent.Server{},
	}
	f.world = fakeagent.NewWorld(f.key.Namespace, f.key.Name, append([]fakeagent.Option{fakeagent.WithDurations(fakeagent.Durations{
		Initialize: 200 * time.Millisecond, Clone: 200 * time.Millisecond, Boot: 100 * time.Millisecond,
	})}, options...)...)
	f.world.SetWriteRate(rate)
	var err error
	f.certs, err = fakeagent.NewCertificates(f.key.Name)
	must(err)
	ctx := t.Context()
	must(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.key.Namespace}}))
	must(api.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: naming.SecretManagerTLS(f.key.Name), Labels: naming.ClusterLabels(f.key.Name)},
		Data:       f.certs.Manager,
	}))
	cluster := &v1.MySQLCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: f.key.Name}, Spec: v1.MySQLClusterSpec{
		Version: "9.7", Replicas: int32(replicas), Storage: v1.StorageSpec{Size: resource.MustParse("1Gi")},
	}}
	must(api.Create(ctx, cluster))
	topo := &v1.MySQLTopology{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: f.key.Name, Labels: naming.ClusterLabels(f.key.Name), OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(cluster, v1.GroupVersion.WithKind("MySQLCluster")),
		}},
		Spec: v1.MySQLTopologySpec{ClusterID: string(cluster.UID), Acks: acks},
	}
	for i := range replicas {
		topo.Spec.Instances = append(topo.Spec.Instances, naming.Instance(f.key.Name, i))
	}
	must(api.Create(ctx, topo))
	for i := range replicas {
		f.world.Add(naming.Instance(f.key.Name, i))
		f.startPod(i, "")
	}
	t.Cleanup(f.close)
	return f
}

func (f *fixture) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		s.Close()
	}
	must(client.IgnoreNotFound(api.Delete(context.Background(), &v1.MySQLTopology{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: f.key.Name}})))
}

// startPod makes an instance's agent listen and its pod run, as the kubelet would.
func (f *fixture) startPod(ordinal int, templateRole string) {
	f.t.Helper()
	name, ip := naming.Instance(f.key.Name, ordinal), fmt.Sprintf("127.%d.0.%d", f.block, ordinal+1)
	server, err := f.world.Serve(name, ip, f.certs)
	must(err)
	f.mu.Lock()
	f.servers[name] = server
	f.mu.Unlock()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: naming.Pod(name), Labels: naming.InstanceLabels(f.key.Name, name)},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "mysqld", Image: "mysql"}}},
	}
	if templateRole != "" {
		pod.Labels[naming.LabelRole] = templateRole
	}
	must(api.Create(context.Background(), pod))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "mysqld", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}}
	must(api.Status().Update(context.Background(), pod))
}

// stopPod ends an instance's agent and takes its pod away.
func (f *fixture) stopPod(ordinal int) {
	f.t.Helper()
	name := naming.Instance(f.key.Name, ordinal)
	f.world.StopPod(name)
	f.mu.Lock()
	f.servers[name].Close()
	f.mu.Unlock()
	must(api.Delete(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: naming.Pod(name)}}, client.GracePeriodSeconds(0)))
}

func (f *fixture) topology() *v1.MySQLTopology {
	f.t.Helper()
	var topo v1.MySQLTopology
	must(api.Get(context.Background(), f.key, &topo))
	return &topo
}

func (f *fixture) pod(ordinal int) *corev1.Pod {
	f.t.Helper()
	var pod corev1.Pod
	must(api.Get(context.Background(), types.NamespacedName{Namespace: f.key.Namespace, Name: naming.Pod(naming.Instance(f.key.Name, ordinal))}, &pod))
	return &pod
}

// eventually polls until the claim holds; it fails with the state of the topology.
func (f *fixture) eventually(what string, claim func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for !claim() {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within 90 s: %s; status: %+v", what, f.topology().Status)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (f *fixture) healthy() bool {
	st := f.topology().Status
	return st.Phase == v1.TopologyStable && st.Routed && st.Reason == v1.TopologyHealthy
}

// traffic counts what one manager sends.
type traffic struct {
	writes, conflicts atomic.Int64
	meddle            func()
	mu                sync.Mutex
	seen              []string
}

func (c *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		// Events are sent behind the lane's back, when they like, and Leases renewed.
		counts := req.Method != http.MethodGet && !strings.Contains(req.URL.Path, "/leases") && !strings.Contains(req.URL.Path, "/events")
		if counts {
			c.mu.Lock()
			c.seen = append(c.seen, req.Method+" "+req.URL.Path)
			c.writes.Add(1) // Before it is sent: a test that has seen its effect has it in its count.
			c.mu.Unlock()
		}
		if c.meddle != nil && req.Method == http.MethodPut && strings.Contains(req.URL.Path, "/mysqltopologies/") {
			c.meddle()
		}
		res, err := next.RoundTrip(req)
		if counts && res != nil && res.StatusCode == http.StatusConflict {
			c.conflicts.Add(1)
		}
		return res, err
	})
}

func (c *traffic) since(n int64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.seen[n:]...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// managers numbers managers: controllers of one process must differ in name.
var managers atomic.Int32

// startManager runs a manager of the lane for the fixture's namespace; stop ends it without giving its Lease back, as a
// crash would. It is stopped with the test.
func (f *fixture) startManager(elect bool) (c *traffic, stop func()) {
	f.t.Helper()
	c = &traffic{meddle: f.meddle}
	config := rest.CopyConfig(restConfig)
	config.Wrap(c.wrap)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:         scheme,
		LeaderElection: elect, LeaderElectionID: "porpoise-topology", LeaderElectionNamespace: f.key.Namespace,
		// Longer than in production: a machine that is busy with tests must not lose the Lease by itself.
		LeaseDuration: ptr.To(10 * time.Second), RenewDeadline: ptr.To(8 * time.Second), RetryPeriod: ptr.To(time.Second),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: topology.CacheByObject(), DefaultNamespaces: map[string]cache.Config{f.key.Namespace: {}}},
	})
	must(err)
	must(topology.SetupWithManager(mgr, topology.Options{NameSuffix: fmt.Sprintf("-%d", managers.Add(1))}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			f.t.Errorf("manager: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	f.t.Cleanup(stop)
	return c, stop
}
