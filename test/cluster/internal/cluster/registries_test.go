package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/pki"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

func TestTrustRegistryRefusesWhatCannotWork(t *testing.T) {
	text := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(text, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"https://registry.example.org": "without scheme and path", "registry.example.org/team": "without scheme and path",
		"": "HOST:PORT", "..": "HOST:PORT", "a\"b": "HOST:PORT", "registry.example.org:5000": "no certificate in PEM",
	} {
		if _, err := readAuthority(host, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("registry %q: error %v; want one with %q", host, err, want)
		}
	}
	if _, err := readAuthority("172.30.0.1:5000", text+".nonesuch"); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestNodesGetTheRegistriesAndTheGatewayDoesNot(t *testing.T) {
	store := pki.Store{Dir: t.TempDir()}
	if err := store.EnsureAuthority("ca"); err != nil {
		t.Fatal(err)
	}
	const host = "172.30.3.1:5000"
	authority, err := readAuthority(host, store.Certificate("ca"))
	if err != nil {
		t.Fatal(err)
	}
	s := state{Cluster: plan.Cluster{Index: 3, Nodes: 1, StateDir: t.TempDir()}, Registries: map[string]string{host: authority}}
	for _, n := range []plan.Node{s.Node(1), s.Gateway()} {
		if err := s.ensureRegistryFiles(n); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(s.Node(1).ConfigDir(), "certs.d", host, "ca.crt"))
	if err != nil || string(got) != authority {
		t.Errorf("authority on the node: %q, %v", got, err)
	}
	if _, err := os.Stat(s.Gateway().Dir()); err == nil {
		t.Error("the gateway, which pulls nothing, got files")
	}
}
