package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Validity of certificates, and how long before its end one is replaced.
const (
	AuthorityValidity    = 10 * 365 * 24 * time.Hour
	AuthorityRenewBefore = 365 * 24 * time.Hour
	LeafValidity         = 90 * 24 * time.Hour
	LeafRenewBefore      = 30 * 24 * time.Hour
	// clockSkew is how far behind the clock of a node may be.
	clockSkew = time.Hour
)

const (
	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
)

// Authority is a certificate authority with its key.
type Authority struct {
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// KeyPair is a certificate and its key in PEM.
type KeyPair struct {
	Certificate []byte
	Key         []byte
}

// Leaf is what a leaf certificate is for.
type Leaf struct {
	// CommonName by which it is recognised.
	CommonName string
	// DNSNames and IPs that a server answers to.
	DNSNames []string
	IPs      []net.IP
	// Server and Client say in which role it may be used.
	Server, Client bool
}

// NewAuthority makes an authority.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{naming.CertOrganization}, CommonName: name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(AuthorityValidity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	return &Authority{Certificate: certificate, key: key}, nil
}

// ReadAuthority reads an authority and judges it: it fails when it is not one that can be used at now.
func ReadAuthority(pair KeyPair, now time.Time) (*Authority, error) {
	certificate, key, err := readPair(pair)
	if err != nil {
		return nil, err
	}
	switch {
	case !certificate.IsCA:
		return nil, errors.New("the certificate is not an authority's")
	case now.Before(certificate.NotBefore):
		return nil, fmt.Errorf("the certificate is not valid before %s", certificate.NotBefore.UTC().Format(time.RFC3339))
	case now.Add(AuthorityRenewBefore).After(certificate.NotAfter):
		return nil, fmt.Errorf("the certificate ends at %s", certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	return &Authority{Certificate: certificate, key: key}, nil
}

// Encode returns the authority in PEM.
func (a *Authority) Encode() (KeyPair, error) {
	return encodePair(a.Certificate.Raw, a.key)
}

// Issue makes a leaf certificate.
func (a *Authority) Issue(leaf Leaf, now time.Time) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, fmt.Errorf("make the key of %s: %w", leaf.CommonName, err)
	}
	serial, err := newSerial()
	if err != nil {
		return KeyPair{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{naming.CertOrganization}, CommonName: leaf.CommonName},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(LeafValidity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           leaf.usages(),
		BasicConstraintsValid: true,
		DNSNames:              leaf.DNSNames,
		IPAddresses:           leaf.IPs,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, key.Public(), a.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("sign the certificate of %s: %w", leaf.CommonName, err)
	}
	return encodePair(der, key)
}

func (l Leaf) usages() []x509.ExtKeyUsage {
	var out []x509.ExtKeyUsage
	if l.Server {
		out = append(out, x509.ExtKeyUsageServerAuth)
	}
	if l.Client {
		out = append(out, x509.ExtKeyUsageClientAuth)
	}
	return out
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

func encodePair(der []byte, key *ecdsa.PrivateKey) (KeyPair, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("encode the key: %w", err)
	}
	return KeyPair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: raw}),
	}, nil
}

func readPair(pair KeyPair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(pair.Certificate)
	if block == nil || block.Type != pemCertificate {
		return nil, nil, errors.New("there is no certificate in PEM form")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate: %w", err)
	}
	block, _ = pem.Decode(pair.Key)
	if block == nil || block.Type != pemPrivateKey {
		return nil, nil, errors.New("there is no private key in PEM form")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		// The parser's own message could quote key material; say only that it failed.
		return nil, nil, errors.New("the private key cannot be read")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, nil, errors.New("the private key is not an ECDSA key on P-256")
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, nil, errors.New("certificate and private key do not belong together")
	}
	return certificate, key, nil
}
