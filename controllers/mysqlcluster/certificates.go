package mysqlcluster

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/porpoise-dev/porpoise/internal/conditions"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/pki"
)

const (
	eventSecretRecreated    = "SecretRecreated"
	eventCertificateRenewed = "CertificateIssued"
	actionIssue             = "Issue"
)

// authority is the cluster's certificate authority and the bundle that everybody trusts.
type authority struct {
	*pki.Authority
	bundle []*x509.Certificate
	pem    []byte
}

// certificates keeps the authority and every leaf good, and says when to look again.
func certificates(ctx context.Context, s *scope) (Result, error) {
	ca, err := s.keepAuthority(ctx)
	if err != nil {
		return Result{}, err
	}
	s.trust = ca.pem
	var ends time.Time
	for _, l := range s.leafSecrets() {
		end, err := s.keepLeaves(ctx, ca, l.name, l.instance, l.leaves)
		if err != nil {
			return Result{}, err
		}
		if ends.IsZero() || end.Before(ends) {
			ends = end
		}
	}
	renewal := ends.Add(-pki.LeafRenewBefore)
	s.certificateMessage = fmt.Sprintf("valid until %s, renewed from %s on", ends.UTC().Format(time.DateOnly), renewal.UTC().Format(time.DateOnly))
	s.requeueAfter(max(renewal.Sub(s.now), time.Minute))
	return Continue(), nil
}

// leafSecret is a Secret that holds leaves; instance names the one that they belong to, empty: none.
type leafSecret struct {
	name, instance string
	leaves         []pki.Leaf
}

// leafSecrets lists all Secrets with leaves of the cluster.
func (s *scope) leafSecrets() []leafSecret {
	name, namespace := s.cluster.Name, s.cluster.Namespace
	out := []leafSecret{
		{name: naming.SecretManagerTLS(name), leaves: []pki.Leaf{pki.ManagerLeaf()}},
		{name: naming.SecretViewerTLS(name), leaves: []pki.Leaf{pki.ViewerLeaf()}},
	}
	for _, instance := range append(s.wanted(), s.leaving()...) {
		if s.released(instance) {
			continue // It is being removed, and its Secret with it.
		}
		leaves := []pki.Leaf{pki.InstanceLeaf(name, namespace, instance), pki.ReplicationLeaf()}
		out = append(out, leafSecret{name: naming.SecretInstanceTLS(instance), instance: instance, leaves: leaves})
	}
	return out
}

// keepAuthority returns the stored authority while it is good, or else makes a new one. Leaves of a lost one stay good,
// since its certificate is kept in the bundle.
func (s *scope) keepAuthority(ctx context.Context) (*authority, error) {
	name := naming.SecretCA(s.cluster.Name)
	stored := s.live.secrets[name]
	var bundles [][]byte
	if stored != nil {
		bundles = append(bundles, stored.Data[naming.FileCA], stored.Data[naming.FileTLSCert])
	}
	for _, leaf := range s.live.secrets {
		if leaf.Type == corev1.SecretTypeTLS && leaf.Name != name {
			bundles = append(bundles, leaf.Data[naming.FileCA])
		}
	}
	current, err := pki.ReadAuthority(storedPair(stored, naming.FileTLSCert, naming.FileTLSKey), s.now)
	if err != nil {
		if len(bundles) > 0 {
			s.event(corev1.EventTypeWarning, eventSecretRecreated, actionIssue,
				fmt.Sprintf("Secret %s: %s; a new authority was made, certificates of the old one stay valid", name, missingOr(stored, err)), s.child("v1", "Secret", name))
		}
		if current, err = pki.NewAuthority(s.cluster.Namespace+"/"+s.cluster.Name, s.now); err != nil {
			return nil, fmt.Errorf("make the authority of Secret %s: %w", name, err)
		}
	}
	pair, err := current.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode Secret %s: %w", name, err)
	}
	bundle := pki.Bundle(current.Certificate, s.now, bundles...)
	ca := &authority{Authority: current, bundle: bundle, pem: pki.EncodeBundle(bundle)}
	data := map[string][]byte{naming.FileTLSCert: pair.Certificate, naming.FileTLSKey: pair.Key, naming.FileCA: ca.pem}
	return ca, s.applyCertificates(ctx, name, "", data)
}

// keepLeaves keeps the leaves of one Secret and returns when the first of them ends.
func (s *scope) keepLeaves(ctx context.Context, ca *authority, name, instance string, leaves []pki.Leaf) (time.Time, error) {
	stored := s.live.secrets[name]
	data := map[string][]byte{naming.FileCA: ca.pem}
	var first time.Time
	for i, leaf := range leaves {
		certFile, keyFile := naming.FileTLSCert, naming.FileTLSKey
		if i > 0 {
			certFile, keyFile = naming.FileReplicationCert, naming.FileReplicationKey
		}
		pair := storedPair(stored, certFile, keyFile)
		end, err := pki.Judge(pair, leaf, ca.bundle, s.now)
		if err != nil {
			s.announceIssue(name, instance, stored, err)
			if pair, err = ca.Issue(leaf, s.now); err != nil {
				return time.Time{}, fmt.Errorf("issue %s of Secret %s: %w", certFile, name, err)
			}
			end = s.now.Add(pki.LeafValidity)
		}
		data[certFile], data[keyFile] = pair.Certificate, pair.Key
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first, s.applyCertificates(ctx, name, instance, data)
}

// announceIssue tells of a certificate that is issued again; a first one is no news.
func (s *scope) announceIssue(name, instance string, stored *corev1.Secret, why error) {
	switch {
	case stored != nil:
		s.event(corev1.EventTypeNormal, eventCertificateRenewed, actionIssue, fmt.Sprintf("Secret %s: %s; issued again", name, why), s.child("v1", "Secret", name))
	case instance != "" && s.live.statefulSets[instance] != nil, instance == "" && s.live.topology != nil:
		s.event(corev1.EventTypeWarning, eventSecretRecreated, actionIssue, fmt.Sprintf("Secret %s was missing and was made again", name), s.child("v1", "Secret", name))
	}
}

func (s *scope) applyCertificates(ctx context.Context, name, instance string, data map[string][]byte) error {
	before := len(s.problems)
	if err := s.applySecret(ctx, desired.CertificateSecret(s.in, name, instance, data), s.live.secrets[name]); err != nil {
		return err
	}
	if len(s.problems) > before && s.certificateProblem == nil {
		s.certificateProblem = &conditions.Problem{Reason: s.problems[before].Reason, Message: s.problems[before].Message}
	}
	return nil
}

func storedPair(secret *corev1.Secret, certFile, keyFile string) pki.KeyPair {
	if secret == nil {
		return pki.KeyPair{}
	}
	return pki.KeyPair{Certificate: secret.Data[certFile], Key: secret.Data[keyFile]}
}

func missingOr(secret *corev1.Secret, err error) string {
	if secret == nil {
		return "it was missing"
	}
	return err.Error()
}
