//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/portforward"
	"github.com/porpoise-dev/porpoise/test/env"
)

// quietTime is how long a cluster under write load must cost no API write.
const quietTime = time.Minute

// TestQuietUnderLoad: while clients write and nothing else happens, the operator writes nothing to the API server, and no
// object of the namespace changes by anybody's hand.
func TestQuietUnderLoad(t *testing.T) {
	c := shared(t)
	w := c.startWriters(t, "quiet", 2)
	c.waitSettled(t, recovery)
	scraper := newScraper(t)
	waitStill(t, c)

	writesBefore, objectsBefore := scraper.writes(t), versions(t, c.namespace)
	began, acked := time.Now(), w.count()
	eventually(t, "a quiet minute", 2*quietTime, func(context.Context) (bool, string, error) {
		return time.Since(began) >= quietTime, fmt.Sprintf("%d writes acknowledged", w.count()-acked), nil
	})
	if w.count()-acked < 100 {
		t.Fatalf("only %d writes in %s: that was no load", w.count()-acked, quietTime)
	}
	if after := scraper.writes(t); !maps.Equal(writesBefore, after) {
		t.Errorf("the operator wrote to the API server:\nbefore %v\nafter  %v", writesBefore, after)
	}
	for name, version := range versions(t, c.namespace) {
		if objectsBefore[name] != version {
			t.Errorf("%s changed: version %q, then %q", name, objectsBefore[name], version)
		}
		delete(objectsBefore, name)
	}
	for name := range objectsBefore {
		t.Errorf("%s is gone", name)
	}
	w.verify(t)
}

// waitStill waits until what the test before has left to do is done.
func waitStill(t *testing.T, c *cluster) {
	t.Helper()
	last, since := versions(t, c.namespace), time.Now()
	eventually(t, "objects change no more", recovery, func(context.Context) (bool, string, error) {
		now := versions(t, c.namespace)
		if !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		return time.Since(since) > 10*time.Second, fmt.Sprintf("still for %s", time.Since(since).Round(time.Second)), nil
	})
}

// versions returns the resource version of every object of a namespace, but for Events: what is told of the time before goes on
// changing, as the kubelet repeats itself, recorders close series after minutes, and the API server forgets.
func versions(t *testing.T, namespace string) map[string]string {
	t.Helper()
	config := rest.CopyConfig(kubernetes.Config)
	config.WarningHandler = rest.NoWarnings{} // Deprecated kinds are counted too.
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	lists, err := finder.ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatalf("list kinds: %v", err)
	}
	reader, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	out := map[string]string{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range list.APIResources {
			if kind.Kind == "Event" {
				continue
			}
			objects, err := reader.Resource(group.WithResource(kind.Name)).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", kind.Name, err)
			}
			for _, object := range objects.Items {
				out[kind.Kind+" "+object.Name] = object.ResourceVersion
			}
		}
	}
	return out
}

// scraper reads the operator's metrics, as a Prometheus with the right to would.
type scraper struct {
	token string
}

func newScraper(t *testing.T) *scraper {
	t.Helper()
	const name = "porpoise-e2e-scraper"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: name}}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: env.OperatorNamespace, Name: name}},
	}
	for _, object := range []client.Object{account, role, binding} {
		if err := client.IgnoreAlreadyExists(kubernetes.Client.Create(t.Context(), object)); err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(kubernetes.Client.Delete(context.Background(), object)); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		})
	}
	request := &authenticationv1.TokenRequest{}
	account.Name = name
	if err := kubernetes.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatalf("get a token of %s: %v", name, err)
	}
	return &scraper{token: request.Status.Token}
}

// writes returns the counters of writes of all managers. Leases are renewed for ever, tokens are reviewed for the scraping
// itself, and series of events are closed six minutes after the last of them.
func (s *scraper) writes(t *testing.T) map[string]string {
	t.Helper()
	pods, err := managerPods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) < 2 {
		t.Fatalf("%d managers run, want 2", len(pods))
	}
	counters, leases := map[string]string{}, false
	for _, pod := range pods {
		for line := range strings.Lines(s.scrape(t, pod.Name)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !strings.HasPrefix(name, "porpoise_api_writes_total{") {
				continue
			}
			if strings.Contains(name, `resource="leases"`) {
				leases = true
				continue
			}
			if strings.Contains(name, `resource="events"`) || strings.Contains(name, "reviews") {
				continue
			}
			counters[pod.Name+" "+name] = value
		}
	}
	// A leader that has just taken over has written nothing else yet.
	if !leases {
		t.Fatal("the metrics do not hold porpoise_api_writes_total of Leases, which are always written: nothing would be seen")
	}
	return counters
}

func (s *scraper) scrape(t *testing.T, pod string) string {
	t.Helper()
	web := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		// The certificate is self-signed; who answers is known from the API server, through which the connection goes.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return portforward.Dial(ctx, kubernetes.Config, env.OperatorNamespace, pod, 8443)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://manager/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := web.Do(request)
	if err != nil {
		t.Fatalf("read the metrics of %s: %v", pod, err)
	}
	defer func() { _ = response.Body.Close() }()
	var out strings.Builder
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		out.WriteString(lines.Text() + "\n")
	}
	if err := lines.Err(); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("read the metrics of %s: %s, %v", pod, response.Status, err)
	}
	return out.String()
}
