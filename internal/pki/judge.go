package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// maxBundle bounds how many authorities are trusted at once, so that a Secret deleted over and over does not grow the
// bundle without end.
const maxBundle = 5

// Judge tells until when a stored leaf is good: its end. It fails, saying why, when the leaf must be issued again: it
// is not there, is garbage, is for something else, is not trusted by the bundle, or has less than LeafRenewBefore left.
func Judge(pair KeyPair, leaf Leaf, bundle []*x509.Certificate, now time.Time) (time.Time, error) {
	certificate, _, err := readPair(pair)
	if err != nil {
		return time.Time{}, err
	}
	if certificate.Subject.CommonName != leaf.CommonName || !slices.Equal(certificate.Subject.Organization, []string{naming.CertOrganization}) {
		return time.Time{}, fmt.Errorf("the certificate is for %s instead of %s", certificate.Subject, leaf.CommonName)
	}
	if !slices.Equal(certificate.DNSNames, leaf.DNSNames) || !slices.EqualFunc(certificate.IPAddresses, leaf.IPs, net.IP.Equal) {
		return time.Time{}, fmt.Errorf("the certificate is for the host names %v instead of %v", certificate.DNSNames, leaf.DNSNames)
	}
	if now.Add(LeafRenewBefore).After(certificate.NotAfter) {
		return time.Time{}, fmt.Errorf("the certificate ends at %s", certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	roots := x509.NewCertPool()
	for _, authority := range bundle {
		roots.AddCert(authority)
	}
	for _, usage := range leaf.usages() {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return time.Time{}, fmt.Errorf("the certificate is not trusted: %w", err)
		}
	}
	return certificate.NotAfter, nil
}

// Bundle returns the authorities to trust: current first, then those found in stored bundles that have not ended, the
// newest first. What is not an authority of this operator is dropped.
func Bundle(current *x509.Certificate, now time.Time, stored ...[]byte) []*x509.Certificate {
	var old []*x509.Certificate
	for _, raw := range stored {
		for _, certificate := range readCertificates(raw) {
			known := certificate.Equal(current) || slices.ContainsFunc(old, certificate.Equal)
			if known || !certificate.IsCA || !now.Before(certificate.NotAfter) ||
				!slices.Equal(certificate.Subject.Organization, []string{naming.CertOrganization}) ||
				certificate.Subject.CommonName != current.Subject.CommonName {
				continue
			}
			old = append(old, certificate)
		}
	}
	slices.SortFunc(old, func(a, b *x509.Certificate) int {
		if c := b.NotBefore.Compare(a.NotBefore); c != 0 {
			return c
		}
		return bytes.Compare(a.Raw, b.Raw)
	})
	return append([]*x509.Certificate{current}, old[:min(len(old), maxBundle-1)]...)
}

// EncodeBundle returns certificates in PEM.
func EncodeBundle(bundle []*x509.Certificate) []byte {
	var out []byte
	for _, certificate := range bundle {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: certificate.Raw})...)
	}
	return out
}

// readCertificates returns what certificates there are; whatever else there is does not matter, since a bundle somebody
// damaged must not keep the good part of it from being used.
func readCertificates(raw []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, raw = pem.Decode(raw); block == nil {
			return out
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, certificate)
		}
	}
}
