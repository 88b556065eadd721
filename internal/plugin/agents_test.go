package plugin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{t, cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a authority) issue(name string, hosts ...string) (certPEM, keyPEM []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// agent serves a status to the viewers' certificate only.
func (a authority) agent(host string, handler http.HandlerFunc) string {
	a.t.Helper()
	server := httptest.NewUnstartedServer(handler)
	certPEM, keyPEM := a.issue("porpoise-instance", host)
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		a.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	a.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (a authority) viewerSecret() *corev1.Secret {
	certPEM, keyPEM := a.issue(naming.CertCNViewer)
	s := &corev1.Secret{Data: map[string][]byte{naming.FileCA: a.pem, naming.FileTLSCert: certPEM, naming.FileTLSKey: keyPEM}}
	s.Name, s.Namespace = naming.SecretViewerTLS("orders"), "shop"
	return s
}

func serveStatus(st *agentapi.Status) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != agentapi.PathStatus || r.TLS.PeerCertificates[0].Subject.CommonName != naming.CertCNViewer {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(st)
	}
}

// patience is for agents that answer: a busy machine makes even a handshake slow, and nothing waits for it when all is well.
const patience = time.Minute

// asker dials the given addresses by pod name.
func asker(t *testing.T, secret *corev1.Secret, addresses map[string]string) ForwardingAsker {
	t.Helper()
	c := fakeClient(t, healthy(), interceptor.Funcs{})
	if secret != nil {
		if err := c.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	return ForwardingAsker{Client: c, Timeout: patience, Dial: func(ctx context.Context, _, pod string, _ int) (net.Conn, error) {
		address, ok := addresses[pod]
		if !ok {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}}
}

func TestAgentsAreAskedByTheirOwnNames(t *testing.T) {
	ca := newAuthority(t)
	host := func(i string) string { return naming.Host("orders", "shop", i) }
	impostor := newAuthority(t).agent(host("orders-2"), serveStatus(primaryStatus("")))
	answers, notes := asker(t, ca.viewerSecret(), map[string]string{
		"orders-0-0": ca.agent(host("orders-0"), serveStatus(replicaStatus("orders-0", uuidPrimary+":1-5"))),
		"orders-1-0": ca.agent(host("orders-0"), serveStatus(primaryStatus(""))), // another instance's certificate
		"orders-2-0": impostor,
	}).Ask(t.Context(), "orders", "shop", healthy().Pods)
	if len(notes) > 0 {
		t.Errorf("notes %v, want none", notes)
	}
	if st := answers["orders-0"].Status; st == nil || st.Server.GTIDExecuted.String() != uuidPrimary+":1-5" {
		t.Errorf("orders-0: %+v, want its status", answers["orders-0"])
	}
	for _, name := range []string{"orders-1", "orders-2"} {
		if a := answers[name]; a.Status != nil || !strings.Contains(a.Reason, "certificate") {
			t.Errorf("%s: %+v, want a refused certificate", name, a)
		}
	}
}

func TestAgentsThatDoNotAnswerSayWhy(t *testing.T) {
	ca := newAuthority(t)
	pods := healthy().Pods
	pods[1].Status.Phase = corev1.PodPending
	answers, _ := asker(t, ca.viewerSecret(), map[string]string{
		"orders-2-0": ca.agent(naming.Host("orders", "shop", "orders-2"), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(agentapi.Error{Code: agentapi.ErrUnauthorized, Message: "no"})
		}),
	}).Ask(t.Context(), "orders", "shop", pods)
	for name, want := range map[string]string{"orders-0": "connection refused", "orders-1": "pod is Pending", "orders-2": "Unauthorized: no"} {
		if got := answers[name].Reason; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestASilentAgentIsLeftAtTheTimeout(t *testing.T) {
	ca := newAuthority(t)
	silent := make(chan struct{})
	address := ca.agent(naming.Host("orders", "shop", "orders-0"), func(http.ResponseWriter, *http.Request) { <-silent })
	defer close(silent)
	a := asker(t, ca.viewerSecret(), map[string]string{"orders-0-0": address})
	a.Timeout = 300 * time.Millisecond
	answers, _ := a.Ask(t.Context(), "orders", "shop", healthy().Pods[:1])
	if got, want := answers["orders-0"].Reason, "agent did not answer within 300ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAnswersMeet: pods that are not asked and answers that come at once are written down at the same time. The race
// detector, or the runtime's check of maps, sees it if they are not kept apart.
func TestAnswersMeet(t *testing.T) {
	ca := newAuthority(t)
	a := asker(t, ca.viewerSecret(), nil)
	var pods []corev1.Pod
	for i := range 200 {
		p := pod(naming.Instance("orders", i))
		if i%2 == 1 {
			p.Status.Phase = corev1.PodPending
		}
		pods = append(pods, p)
	}
	answers, _ := a.Ask(t.Context(), "orders", "shop", pods)
	for i := range pods {
		want := "connection refused"
		if i%2 == 1 {
			want = "pod is Pending"
		}
		if got := answers[naming.Instance("orders", i)].Reason; got != want {
			t.Errorf("instance %d: %q, want %q", i, got, want)
		}
	}
}

func TestRightsThatAskingNeedsAreNamed(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("no"))
	ca := newAuthority(t)
	noSecret := asker(t, nil, nil)
	noRead := asker(t, nil, nil)
	noRead.Client = fakeClient(t, healthy(), refuse[*corev1.Secret](forbidden))
	noForward := asker(t, ca.viewerSecret(), nil)
	noForward.Dial = func(context.Context, string, string, int) (net.Conn, error) { return nil, forbidden }
	broken := ca.viewerSecret()
	broken.Data[naming.FileTLSKey] = []byte("not a key")
	for want, a := range map[string]ForwardingAsker{
		"Secret orders-viewer-tls with the client certificate does not exist": noSecret,
		"you may not get secrets/orders-viewer-tls in namespace shop":         noRead,
		"you may not create pods/portforward in namespace shop":               noForward,
		"does not hold a client certificate":                                  asker(t, broken, nil),
	} {
		_, notes := a.Ask(t.Context(), "orders", "shop", healthy().Pods)
		if len(notes) != 1 || !strings.Contains(notes[0], want) {
			t.Errorf("notes %q, want one with %q", notes, want)
		}
	}
}
