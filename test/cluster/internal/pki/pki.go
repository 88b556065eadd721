// Package pki makes the certificates of a cluster: one authority for clients and servers, one for the aggregation layer, and the
// key that signs ServiceAccount tokens. Everything lives in one directory and is made once; elliptic keys, since RSA keys would
// take seconds of the start-up.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 10 * 365 * 24 * time.Hour

// Store is a directory of NAME.crt and NAME.key files.
type Store struct{ Dir string }

// Leaf describes a certificate to be made.
type Leaf struct {
	Name         string // of the files
	CommonName   string // the user, for client certificates
	Organization string // the group, for client certificates; may be empty
	DNSNames     []string
	Addresses    []net.IP
}

// Certificate is the path of the certificate called name.
func (s Store) Certificate(name string) string { return filepath.Join(s.Dir, name+".crt") }

// Key is the path of the private key called name.
func (s Store) Key(name string) string { return filepath.Join(s.Dir, name+".key") }

// EnsureAuthority makes a self-signed authority unless it exists.
func (s Store) EnsureAuthority(name string) error {
	if s.exists(s.Certificate(name)) && s.exists(s.Key(name)) {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("create authority %s: %w", name, err)
	}
	return s.write(name, key, der)
}

// EnsureLeaf makes a certificate for client and server use, signed by the named authority, unless it exists.
func (s Store) EnsureLeaf(authority string, leaf Leaf) error {
	if s.exists(s.Certificate(leaf.Name)) && s.exists(s.Key(leaf.Name)) {
		return nil
	}
	parent, parentKey, err := s.load(authority)
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	subject := pkix.Name{CommonName: leaf.CommonName}
	if leaf.Organization != "" {
		subject.Organization = []string{leaf.Organization}
	}
	template, err := newTemplate(subject)
	if err != nil {
		return err
	}
	template.DNSNames, template.IPAddresses = leaf.DNSNames, leaf.Addresses
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return fmt.Errorf("create certificate %s: %w", leaf.Name, err)
	}
	return s.write(leaf.Name, key, der)
}

// EnsureSigningKey makes a key pair NAME.key and NAME.pub for ServiceAccount tokens.
func (s Store) EnsureSigningKey(name string) error {
	public := filepath.Join(s.Dir, name+".pub")
	if s.exists(public) && s.exists(s.Key(name)) {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode public key %s: %w", name, err)
	}
	if err := s.writeKey(name, key); err != nil {
		return err
	}
	return writePEM(public, "PUBLIC KEY", der, 0o644)
}

func (s Store) exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

func (s Store) write(name string, key *ecdsa.PrivateKey, der []byte) error {
	if err := s.writeKey(name, key); err != nil {
		return err
	}
	return writePEM(s.Certificate(name), "CERTIFICATE", der, 0o644)
}

func (s Store) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", name, err)
	}
	return writePEM(s.Key(name), "EC PRIVATE KEY", der, 0o600)
}

func (s Store) load(name string) (*x509.Certificate, crypto.Signer, error) {
	der, err := readPEM(s.Certificate(name))
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parse authority %s: %w", name, err)
	}
	if der, err = readPEM(s.Key(name)); err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, nil, fmt.Errorf("parse key of authority %s: %w", name, err)
	}
	return certificate, key, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create key: %w", err)
	}
	return key, nil
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("create serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // machines whose clock is set back a little after the start
		NotAfter:     now.Add(validity),
	}, nil
}

func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	return nil
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificate store: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New(path + " holds no PEM block")
	}
	return block.Bytes, nil
}
