//go:build e2e

package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/test/env"
)

// Namespaces of the tests.
const (
	demo   = "demo"
	orders = "orders"
)

// TestDemo is the README's `make demo REGISTRY=…`, with a registry that anybody may pull from.
func TestDemo(t *testing.T) {
	k := connect(t)
	diagnoseFailure(t, k)
	before := inventory(t, k)
	team := world.registry.host + "/" + public
	runMake(t, "images-push", "REGISTRY="+team)
	runMake(t, "demo", "REGISTRY="+team)
	k = connect(t)
	assertPodsFrom(t, k, team, env.OperatorNamespace, 2)
	assertPodsFrom(t, k, team, demo, 4) // three instances and the client
	assertNodePulledAll(t, k)
	runMake(t, "demo-down")
	assertNothingLeft(t, k, before)
}

// TestDeployWithPullSecrets is docs/using.md's way for a registry that needs a login to pull.
func TestDeployWithPullSecrets(t *testing.T) {
	k := connect(t)
	diagnoseFailure(t, k)
	before := inventory(t, k)
	assertLoginNeeded(t)
	const secret = "registry-login"
	create(t, k, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.OperatorNamespace}})
	if err := k.CreateNamespace(t.Context(), orders); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{env.OperatorNamespace, orders} {
		create(t, k, pullSecret(t, in, secret))
	}
	create(t, k, &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "porpoise-manager"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: secret}},
	})
	team := world.registry.host + "/" + private
	runMake(t, "deploy", "REGISTRY="+team)
	k = connect(t)
	create(t, k, &porpoisev1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: orders, Name: orders},
		Spec: porpoisev1.MySQLClusterSpec{
			Version: "9.7", Replicas: 1, ImagePullSecrets: []corev1.LocalObjectReference{{Name: secret}},
			Storage: porpoisev1.StorageSpec{Size: resource.MustParse("1Gi"), ReclaimPolicy: porpoisev1.ReclaimDelete},
		},
	})
	if err := k.WaitReady(t.Context(), orders, orders, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	assertPodsFrom(t, k, team, env.OperatorNamespace, 2)
	assertPodsFrom(t, k, team, orders, 1)
	assertNodePulledAll(t, k)
	runMake(t, "undeploy")
	if _, err := k.DeleteNamespace(t.Context(), orders); err != nil {
		t.Fatal(err)
	}
	assertNothingLeft(t, k, before)
}

func pullSecret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	login, err := world.registry.login()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: login},
	}
}

// assertLoginNeeded keeps the test honest: without it, pull secrets that do nothing would pass.
func assertLoginNeeded(t *testing.T) {
	t.Helper()
	authority, err := os.ReadFile(world.registry.authorityFile)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s/v2/%s/mysql/tags/list", world.registry.host, private), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Fatalf("the registry answers %s without login, want 401", answer.Status)
	}
}
