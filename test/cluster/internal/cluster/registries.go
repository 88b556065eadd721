package cluster

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/render"
)

// registryPattern allows what is safe as the name of a folder and within hosts.toml.
var registryPattern = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?$`)

// TrustRegistry makes every node trust the authority of a registry, from its next pull on. Nodes that come later trust it too.
func TrustRegistry(name, host, authorityFile string, report *progress.Reporter) error {
	authority, err := readAuthority(host, authorityFile)
	if err != nil {
		return err
	}
	_, unlock, err := open(name, report)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := load(StateRoot(), name) // again: what is saved below must not undo what another command did meanwhile
	if err != nil {
		return err
	}
	if s.Registries == nil {
		s.Registries = map[string]string{}
	}
	s.Registries[host] = authority
	if err := s.save(); err != nil {
		return err
	}
	for _, n := range s.AllNodes() {
		if err := s.ensureRegistryFiles(n); err != nil {
			return err
		}
	}
	report.Printf("the nodes of cluster %q trust registry %s", name, host)
	return nil
}

func readAuthority(host, file string) (string, error) {
	if !registryPattern.MatchString(host) {
		return "", fmt.Errorf("registry %q: must be HOST or HOST:PORT, without scheme and path", host)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the authority of registry %s: %w", host, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return "", fmt.Errorf("authority of registry %s: %s holds no certificate in PEM", host, file)
	}
	return string(text), nil
}

// ensureRegistryFiles writes what containerd reads about registries.
func (s state) ensureRegistryFiles(n plan.Node) error {
	if n.IsGateway() {
		return nil
	}
	for host, authority := range s.Registries {
		for name, data := range render.RegistryFiles(host, authority) {
			path := filepath.Join(n.ConfigDir(), name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return fmt.Errorf("make the folder of registry %s on %s: %w", host, n.Name(), err)
			}
			if err := writeFile(path, data, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
