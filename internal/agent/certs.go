package agent

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/mysql"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// certStore holds the certificate files in use. Files that cannot be used leave the former ones in use.
type certStore struct {
	cfg Config

	mu   sync.Mutex
	leaf *tls.Certificate
	pool *x509.CertPool
	sum  [sha256.Size]byte
}

// load reads the files, and says whether they have changed.
func (c *certStore) load() (changed bool, err error) {
	sum := sha256.New()
	texts := map[string][]byte{}
	for _, name := range []string{naming.FileCA, naming.FileTLSCert, naming.FileTLSKey, naming.FileReplicationCert, naming.FileReplicationKey} {
		text, err := os.ReadFile(c.cfg.tlsFile(name))
		if err != nil {
			return false, fmt.Errorf("read certificates: %w", err)
		}
		texts[name] = text
		_, _ = fmt.Fprintf(sum, "%s %d\n", name, len(text))
		_, _ = sum.Write(text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if [sha256.Size]byte(sum.Sum(nil)) == c.sum {
		return false, nil
	}
	leaf, err := tls.X509KeyPair(texts[naming.FileTLSCert], texts[naming.FileTLSKey])
	if err != nil {
		return false, fmt.Errorf("certificate %s: %w", naming.FileTLSCert, err)
	}
	if _, err := tls.X509KeyPair(texts[naming.FileReplicationCert], texts[naming.FileReplicationKey]); err != nil {
		return false, fmt.Errorf("certificate %s: %w", naming.FileReplicationCert, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(texts[naming.FileCA]) {
		return false, fmt.Errorf("certificate bundle %s: it holds no certificate", naming.FileCA)
	}
	c.leaf, c.pool, c.sum = &leaf, pool, [sha256.Size]byte(sum.Sum(nil))
	return true, nil
}

// server returns the TLS configuration of the API: what is in use at each handshake. Clients need no certificate for the
// probes and metrics; those who show one must have it from the cluster's CA.
func (c *certStore) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.leaf == nil {
			return nil, errors.New("no certificate yet")
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*c.leaf}, ClientCAs: c.pool,
			ClientAuth: tls.VerifyClientCertIfGiven, NextProtos: []string{"h2", "http/1.1"}}, nil
	}}
}

// adminClient is for the agent's own sessions over the loopback listener. It verifies by what is in use at each handshake:
// the sessions live as long as mysqld, which may be longer than the cluster's authority.
func (c *certStore) adminClient() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: c.cfg.ReportHost,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does what this leaves out, by the authority in use.
		VerifyConnection:   c.verifyServer,
	}
}

// verifyServer checks the chain and the name of this instance's mysqld.
func (c *certStore) verifyServer(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("verify mysqld's certificate: it shows none")
	}
	c.mu.Lock()
	roots := c.pool
	c.mu.Unlock()
	if roots == nil {
		return errors.New("verify mysqld's certificate: no authority yet")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), DNSName: c.cfg.ReportHost}
	for _, certificate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	if _, err := state.PeerCertificates[0].Verify(options); err != nil {
		return fmt.Errorf("verify mysqld's certificate: %w", err)
	}
	return nil
}

// callerOf returns the common name by which the cluster's CA knows who sends a request; empty: it does not.
func callerOf(state *tls.ConnectionState) string {
	if state == nil || len(state.VerifiedChains) == 0 {
		return ""
	}
	subject := state.VerifiedChains[0][0].Subject
	if len(subject.Organization) != 1 || subject.Organization[0] != naming.CertOrganization {
		return ""
	}
	return subject.CommonName
}

// watchFiles looks at the certificate files until ctx ends: polling a few small files survives every way in which a
// volume may be updated, unlike notifications.
func (a *Agent) watchFiles(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.FilesInterval)
	defer ticker.Stop()
	pending := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !a.state.ready() {
			a.loadState()
		}
		pending = a.checkCertificates(ctx, pending)
	}
}

// checkCertificates takes changed files into use, first in the API, then in mysqld. It says whether mysqld has yet to.
func (a *Agent) checkCertificates(ctx context.Context, pending bool) bool {
	changed, err := a.certs.load()
	if err != nil {
		a.setTLSError(err)
		return pending
	}
	if changed {
		a.log.Info("Certificates changed")
	}
	if !changed && !pending {
		a.setTLSError(nil)
		return false
	}
	s := a.current()
	if s == nil {
		return false // mysqld reads them at its boot
	}
	if err := s.server.ReloadTLS(ctx); err != nil {
		if mysql.IsTLSReload(err) {
			err = fmt.Errorf("mysqld refuses the certificate files and goes on with the former: %w", err)
		}
		a.setTLSError(err)
		return true
	}
	a.setTLSError(nil)
	return false
}

func (a *Agent) setTLSError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
		a.garbage.log("tls", "Certificates are not in use", err)
	}
	a.hub.update(func(d *agentapi.Status) { d.TLSError = text })
}
