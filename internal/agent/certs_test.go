package agent

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/pki"
)

// issuer is a cluster's authority and the files of one instance that it issued.
type issuer struct {
	t         *testing.T
	authority *pki.Authority
}

func newIssuer(t *testing.T) issuer {
	t.Helper()
	authority, err := pki.NewAuthority("orders", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return issuer{t, authority}
}

// files returns what an instance's volume holds.
func (i issuer) files(instance string) map[string][]byte {
	i.t.Helper()
	ca, err := i.authority.Encode()
	if err != nil {
		i.t.Fatal(err)
	}
	pair, err := i.authority.Issue(pki.InstanceLeaf("orders", "shop", instance), time.Now())
	if err != nil {
		i.t.Fatal(err)
	}
	return map[string][]byte{naming.FileCA: ca.Certificate, naming.FileTLSCert: pair.Certificate, naming.FileTLSKey: pair.Key,
		naming.FileReplicationCert: pair.Certificate, naming.FileReplicationKey: pair.Key}
}

// handshake connects as the agent to a mysqld that shows the certificate among the files.
func handshake(t *testing.T, client *tls.Config, files map[string][]byte) error {
	t.Helper()
	pair, err := tls.X509KeyPair(files[naming.FileTLSCert], files[naming.FileTLSKey])
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		// How it ends for the server is the client's to say.
		_ = tls.Server(far, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}).HandshakeContext(t.Context())
		_ = far.Close()
	}()
	err = tls.Client(near, client).HandshakeContext(t.Context())
	_ = near.Close()
	<-served
	return err
}

// TestAdminClientFollowsTheAuthority: the sessions of a long life of mysqld outlive a change of the cluster's authority.
func TestAdminClientFollowsTheAuthority(t *testing.T) {
	cfg := Config{Paths: Paths{TLS: t.TempDir()}, ReportHost: naming.Host("orders", "shop", "orders-0")}
	store := &certStore{cfg: cfg}
	install := func(files map[string][]byte) {
		t.Helper()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(cfg.Paths.TLS, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if changed, err := store.load(); err != nil || !changed {
			t.Fatalf("load: changed %v, error %v", changed, err)
		}
	}
	former, next := newIssuer(t), newIssuer(t)
	install(former.files("orders-0"))
	client := store.adminClient()
	if err := handshake(t, client, former.files("orders-0")); err != nil {
		t.Fatalf("before the change: %v", err)
	}
	install(next.files("orders-0"))
	if err := handshake(t, client, next.files("orders-0")); err != nil {
		t.Errorf("after the change: %v", err)
	}
	for name, files := range map[string]map[string][]byte{"the former authority": former.files("orders-0"), "another instance": next.files("orders-1")} {
		if err := handshake(t, client, files); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a certificate of %s: error %v, want a refusal", name, err)
		}
	}
}
