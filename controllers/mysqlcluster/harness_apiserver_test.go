//go:build apiserver

package mysqlcluster_test

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
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/controllers/mysqlcluster"
)

// deadline of everything that is waited for.
const deadline = 2 * time.Minute

// managerUser is who the cluster lane is in these tests: somebody with exactly the rights of config/rbac.
const managerUser = "system:serviceaccount:porpoise-system:porpoise-manager"

var (
	scheme = runtime.NewScheme()
	admin  client.WithWatch
	config *rest.Config
	spy    = &writeSpy{}
)

func TestMain(m *testing.M) { os.Exit(withAPIServer(m)) }

// withAPIServer runs the tests against an API server, with the cluster lane running on it.
func withAPIServer(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: run `make test-apiserver`")
		return 1
	}
	logs := zap.WriteTo(discard{})
	if os.Getenv("PORPOISE_TEST_LOG") != "" {
		logs = zap.WriteTo(os.Stderr)
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), logs))
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	var err error
	if config, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "start the API server: "+err.Error())
		return 1
	}
	defer func() { _ = env.Stop() }()
	config.QPS = -1
	if admin, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "the manager ended:", err)
		}
	}()
	if err := startManager(ctx, ended); err != nil {
		fmt.Fprintln(os.Stderr, err)
		ended <- err
		return 1
	}
	return m.Run()
}

func startManager(ctx context.Context, ended chan<- error) error {
	if err := grantManager(ctx); err != nil {
		return err
	}
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: managerUser}
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return spy.wrap(next) })
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{ByObject: mysqlcluster.CacheByObject()},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = mysqlcluster.SetupWithManager(mgr, mysqlcluster.Options{
		OperatorImage:     "porpoise.dev/porpoise-operator:test",
		OperatorNamespace: "porpoise-system",
		Images:            mysqlcluster.ImageMap{"9.7": "porpoise.dev/mysql:9.7.4", "8.4": "porpoise.dev/mysql:8.4.7"},
	})
	if err != nil {
		return err
	}
	go func() { ended <- mgr.Start(ctx) }()
	return nil
}

// grantManager gives the manager what config/rbac gives it, so that a missing right fails a test.
func grantManager(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "role.yaml"))
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(raw, role); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: managerUser}},
	}
	if err := admin.Create(ctx, role); err != nil {
		return err
	}
	return admin.Create(ctx, binding)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// writeSpy remembers every write that the cluster lane asks for, dry runs included.
type writeSpy struct {
	mu     sync.Mutex
	writes []string
}

func (s *writeSpy) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/events") {
			s.mu.Lock()
			s.writes = append(s.writes, request.Method+" "+request.URL.Path)
			s.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// in returns the writes to a namespace so far.
func (s *writeSpy) in(namespace string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, write := range s.writes {
		if strings.Contains(write, "/namespaces/"+namespace+"/") {
			out = append(out, write)
		}
	}
	return out
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

var namespaces atomic.Int32

// newNamespace makes a namespace for one test.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("shop-%d", namespaces.Add(1))
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// newCluster returns a small good cluster, which is not created yet.
func newCluster(namespace string) *v1.MySQLCluster {
	return &v1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "orders"},
		Spec: v1.MySQLClusterSpec{
			Version: "9.7", Replicas: 3, Storage: v1.StorageSpec{Size: resource.MustParse("1Gi")},
		},
	}
}

// remove deletes an object without a namespace after a test, whose context has ended by then.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := client.IgnoreNotFound(admin.Delete(context.WithoutCancel(t.Context()), object)); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// eventually waits until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", deadline, err)
		case <-tick.C:
		}
	}
}

// mutate changes an object, trying again where somebody else did too.
func mutate[T client.Object](t *testing.T, object T, change func(T)) {
	t.Helper()
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return admin.Update(t.Context(), object)
	})
}

// waitCondition waits until a condition has a status, and a message with all parts.
func waitCondition(t *testing.T, cluster *v1.MySQLCluster, kind string, status metav1.ConditionStatus, reason string, parts ...string) {
	t.Helper()
	eventually(t, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		c := meta.FindStatusCondition(cluster.Status.Conditions, kind)
		if c == nil || c.Status != status || reason != "" && c.Reason != reason {
			return fmt.Errorf("condition %s is %+v, want %s %s", kind, c, status, reason)
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("condition %s says %q, which lacks %q", kind, c.Message, part)
			}
		}
		return nil
	})
}

// waitEvent waits for an Event about the cluster.
func waitEvent(t *testing.T, cluster *v1.MySQLCluster, reason string, parts ...string) {
	t.Helper()
	eventually(t, func() error {
		var list corev1.EventList
		if err := admin.List(t.Context(), &list, client.InNamespace(cluster.Namespace)); err != nil {
			return err
		}
		for _, event := range list.Items {
			good := event.InvolvedObject.UID == cluster.UID && event.Reason == reason
			for _, part := range parts {
				good = good && strings.Contains(event.Message, part)
			}
			if good {
				return nil
			}
		}
		return fmt.Errorf("no Event %s with %q among %d", reason, parts, len(list.Items))
	})
}
