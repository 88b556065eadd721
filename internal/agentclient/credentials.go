package agentclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Credentials are a cluster's CA and the manager's client certificate.
type Credentials struct {
	// Version distinguishes contents: the Secret's UID and resourceVersion.
	Version string
	config  *tls.Config
}

// ParseCredentials reads the content of Secret naming.SecretManagerTLS.
func ParseCredentials(version string, data map[string][]byte) (*Credentials, error) {
	pair, err := tls.X509KeyPair(data[naming.FileTLSCert], data[naming.FileTLSKey])
	if err != nil {
		return nil, fmt.Errorf("read manager's client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[naming.FileCA]) {
		return nil, errors.New("read the cluster's CA: " + naming.FileCA + " holds no certificate")
	}
	return &Credentials{Version: version, config: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{pair},
	}}, nil
}
