package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/portforward"
	"github.com/porpoise-dev/porpoise/test/env"
)

// scraperName names the account that may read metrics, and its rights.
const scraperName = "porpoise-bench-scraper"

// metricsPort of the managers' pods.
const metricsPort = 8443

// scraper reads the managers' metrics, as a Prometheus with the right to would.
type scraper struct {
	env   *env.Env
	token string
}

// newScraper makes an account with the right to read metrics; remove takes it away.
func newScraper(ctx context.Context, e *env.Env) (s *scraper, remove func(), err error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: scraperName}}
	objects := []client.Object{
		account,
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: scraperName},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: scraperName},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: scraperName},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: env.OperatorNamespace, Name: scraperName}},
		},
	}
	remove = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		for _, o := range objects {
			// What is left has no more than the right to read metrics.
			_ = e.Client.Delete(ctx, o)
		}
	}
	for _, o := range objects {
		if err := client.IgnoreAlreadyExists(e.Client.Create(ctx, o)); err != nil {
			remove()
			return nil, nil, fmt.Errorf("create %s: %w", scraperName, err)
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](7200)}}
	if err := e.Client.SubResource("token").Create(ctx, account, request); err != nil {
		remove()
		return nil, nil, fmt.Errorf("get a token of %s: %w", scraperName, err)
	}
	return &scraper{env: e, token: request.Status.Token}, remove, nil
}

// managers are the names of the manager's pods by what they do: "leader", "standby", or which lane they lead.
func (s *scraper) managers(ctx context.Context) (map[string]string, error) {
	pods := &corev1.PodList{}
	selector := client.MatchingLabels{"app.kubernetes.io/name": "porpoise", "app.kubernetes.io/component": "manager"}
	if err := s.env.Client.List(ctx, pods, client.InNamespace(env.OperatorNamespace), selector); err != nil {
		return nil, fmt.Errorf("list the manager's pods: %w", err)
	}
	leases := map[string]string{}
	for _, lane := range []string{"topology", "cluster"} {
		lease := &coordinationv1.Lease{}
		if err := s.env.Client.Get(ctx, client.ObjectKey{Namespace: env.OperatorNamespace, Name: "porpoise-" + lane}, lease); err != nil {
			return nil, fmt.Errorf("get the Lease of the %s lane: %w", lane, err)
		}
		// The identity is that of the pod with something random behind it.
		pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		leases[lane] = pod
	}
	out := map[string]string{}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		out[managerRole(pod.Name, leases)] = pod.Name
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no pod of the manager runs in namespace %s", env.OperatorNamespace)
	}
	return out, nil
}

// managerRole says what a pod does by who leads which lane.
func managerRole(pod string, leaders map[string]string) string {
	var lanes []string
	for lane, leader := range leaders {
		if leader == pod {
			lanes = append(lanes, lane)
		}
	}
	slices.Sort(lanes)
	switch len(lanes) {
	case 0:
		return "standby"
	case len(leaders):
		return "leader"
	}
	return "leader of the " + strings.Join(lanes, " and ") + " lane"
}

// scrape reads the metrics of one pod.
func (s *scraper) scrape(ctx context.Context, pod string) (*sample, error) {
	web := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		// The certificate is self-signed; who answers is known from the API server, through which the connection goes.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return portforward.Dial(ctx, s.env.Config, env.OperatorNamespace, pod, metricsPort)
		},
		DisableKeepAlives: true,
	}}
	out, err := scrape(ctx, web, "https://manager/metrics", s.token)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod, err)
	}
	return out, nil
}

// all samples every manager, by role.
func (s *scraper) all(ctx context.Context, managers map[string]string) (map[string]*sample, error) {
	out := map[string]*sample{}
	for role, pod := range managers {
		var err error
		if out[role], err = s.scrape(ctx, pod); err != nil {
			return nil, err
		}
	}
	return out, nil
}
