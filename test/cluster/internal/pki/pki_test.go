package pki

import (
	"bytes"
	"crypto/x509"
	"net"
	"os"
	"testing"
)

func TestLeafVerifiesAndIsMadeOnce(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := s.EnsureAuthority("ca"); err != nil {
		t.Fatal(err)
	}
	leaf := Leaf{Name: "server", CommonName: "someone", Organization: "system:nodes",
		DNSNames: []string{"kubernetes.default.svc"}, Addresses: []net.IP{net.IPv4(172, 30, 0, 1)}}
	if err := s.EnsureLeaf("ca", leaf); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(s.Certificate("server"))
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []error{s.EnsureAuthority("ca"), s.EnsureLeaf("ca", leaf)} {
		if again != nil {
			t.Fatal(again)
		}
	}
	second, err := os.ReadFile(s.Certificate("server"))
	if err != nil || !bytes.Equal(second, first) {
		t.Fatalf("a second Ensure made another certificate (%v)", err)
	}

	ca, _, err := s.load("ca")
	if err != nil {
		t.Fatal(err)
	}
	der, err := readPEM(s.Certificate("server"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, name := range []string{"kubernetes.default.svc", "172.30.0.1"} {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("verify for %s: %v", name, err)
		}
	}
	if info, err := os.Stat(s.Key("server")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("private key: mode %v, %v; want 0600", info.Mode(), err)
	}
	if certificate.Subject.Organization[0] != "system:nodes" || certificate.Subject.CommonName != "someone" {
		t.Errorf("subject %s", certificate.Subject)
	}
}

func TestLeafNeedsItsAuthority(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	if err := s.EnsureLeaf("missing", Leaf{Name: "x", CommonName: "x"}); err == nil {
		t.Fatal("a leaf was signed by an authority that does not exist")
	}
}
