package pki

import (
	"bytes"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newAuthority(t *testing.T, at time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority("shop/orders", at)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, leaf Leaf, at time.Time) KeyPair {
	t.Helper()
	pair, err := a.Issue(leaf, at)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestAuthorityRoundTrip(t *testing.T) {
	pair, err := newAuthority(t, now).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAuthority(pair, now); err != nil {
		t.Errorf("a good authority is refused: %v", err)
	}
	if _, err := ReadAuthority(pair, now.Add(AuthorityValidity-AuthorityRenewBefore+time.Hour)); err == nil {
		t.Error("an authority in its last year is not replaced")
	}
	other, err := newAuthority(t, now).Encode()
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, newAuthority(t, now), ManagerLeaf(), now)
	for name, bad := range map[string]KeyPair{
		"empty":              {},
		"garbage":            {Certificate: []byte("x"), Key: []byte("y")},
		"another's key":      {Certificate: pair.Certificate, Key: other.Key},
		"a leaf":             leaf,
		"a certificate only": {Certificate: pair.Certificate},
	} {
		if _, err := ReadAuthority(bad, now); err == nil {
			t.Errorf("%s is accepted as an authority", name)
		}
	}
}

func TestJudge(t *testing.T) {
	a := newAuthority(t, now)
	bundle := []*x509.Certificate{a.Certificate}
	leaf := InstanceLeaf("orders", "shop", "orders-0")
	pair := issue(t, a, leaf, now)
	end, err := Judge(pair, leaf, bundle, now)
	if err != nil || !end.Equal(now.Add(LeafValidity)) {
		t.Fatalf("a good leaf: end %s, %v", end, err)
	}
	if _, err := Judge(pair, leaf, bundle, now.Add(LeafValidity-LeafRenewBefore-time.Hour)); err != nil {
		t.Errorf("it is renewed too early: %v", err)
	}
	stranger := newAuthority(t, now)
	for name, tc := range map[string]struct {
		pair   KeyPair
		leaf   Leaf
		bundle []*x509.Certificate
		at     time.Time
		want   string
	}{
		"less than 30 days left": {pair, leaf, bundle, now.Add(LeafValidity - LeafRenewBefore + time.Hour), "ends at"},
		"not there":              {KeyPair{}, leaf, bundle, now, "no certificate"},
		"garbage":                {KeyPair{Certificate: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}, leaf, bundle, now, "read the certificate"},
		"no key":                 {KeyPair{Certificate: pair.Certificate}, leaf, bundle, now, "no private key"},
		"another's key":          {KeyPair{Certificate: pair.Certificate, Key: issue(t, a, leaf, now).Key}, leaf, bundle, now, "belong together"},
		"another instance's":     {pair, InstanceLeaf("orders", "shop", "orders-1"), bundle, now, "host names"},
		"another name":           {pair, ManagerLeaf(), bundle, now, "instead of porpoise-manager"},
		"a viewer's":             {issue(t, a, ViewerLeaf(), now), ManagerLeaf(), bundle, now, "instead of porpoise-manager"},
		"another authority's":    {issue(t, stranger, leaf, now), leaf, bundle, now, "not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Judge(tc.pair, tc.leaf, tc.bundle, tc.at)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestLostAuthority: after the authority's Secret was deleted, leaves of the old one stay good, and those of the new one
// are good for everybody.
func TestLostAuthority(t *testing.T) {
	old := newAuthority(t, now)
	leaf := ManagerLeaf()
	kept := issue(t, old, leaf, now)
	later := now.Add(24 * time.Hour)
	current := newAuthority(t, later)
	bundle := Bundle(current.Certificate, later, EncodeBundle([]*x509.Certificate{old.Certificate}))
	if len(bundle) != 2 || !bundle[0].Equal(current.Certificate) {
		t.Fatalf("bundle of %d", len(bundle))
	}
	for name, pair := range map[string]KeyPair{"old": kept, "new": issue(t, current, leaf, later)} {
		if _, err := Judge(pair, leaf, bundle, later); err != nil {
			t.Errorf("the %s leaf: %v", name, err)
		}
	}
	again := Bundle(current.Certificate, later, EncodeBundle(bundle), EncodeBundle(bundle[1:]))
	if !bytes.Equal(EncodeBundle(again), EncodeBundle(bundle)) {
		t.Error("the bundle is not stable")
	}
}

func TestBundleDropsWhatIsNoAuthority(t *testing.T) {
	current := newAuthority(t, now)
	ended := newAuthority(t, now.Add(-AuthorityValidity-24*time.Hour))
	foreign, err := NewAuthority("shop/other", now)
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, current, ManagerLeaf(), now)
	bundle := Bundle(current.Certificate, now, []byte("garbage"), leaf.Certificate,
		EncodeBundle([]*x509.Certificate{ended.Certificate, foreign.Certificate}))
	if len(bundle) != 1 {
		t.Errorf("bundle of %d, want the current one only", len(bundle))
	}
	var many []*x509.Certificate
	for i := range 2 * maxBundle {
		many = append(many, newAuthority(t, now.Add(-time.Duration(i)*time.Hour)).Certificate)
	}
	if got := Bundle(current.Certificate, now, EncodeBundle(many)); len(got) != maxBundle || !got[1].Equal(many[0]) {
		t.Errorf("bundle of %d, want the newest %d", len(got), maxBundle)
	}
}

func TestSubjects(t *testing.T) {
	for name, leaf := range map[string]Leaf{
		"/O=porpoise/CN=porpoise-replication": ReplicationLeaf(),
		"/O=porpoise/CN=porpoise-manager":     ManagerLeaf(),
		"/O=porpoise/CN=porpoise-viewer":      ViewerLeaf(),
		"/O=porpoise/CN=porpoise-instance":    InstanceLeaf("orders", "shop", "orders-0"),
	} {
		certificate, _, err := readPair(issue(t, newAuthority(t, now), leaf, now))
		if err != nil {
			t.Fatal(err)
		}
		if got := "/O=" + certificate.Subject.Organization[0] + "/CN=" + certificate.Subject.CommonName; got != name {
			t.Errorf("subject %s, want %s", got, name)
		}
	}
}
