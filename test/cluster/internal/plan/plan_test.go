package plan

import (
	"net/netip"
	"testing"
)

func TestNoTwoClustersShareAnything(t *testing.T) {
	for a := 0; a <= MaxIndex; a++ {
		for b := a + 1; b <= MaxIndex; b++ {
			first, second := Cluster{Index: a}, Cluster{Index: b}
			if overlaps(first.Networks(), second.Networks()) {
				t.Fatalf("networks of index %d and %d overlap", a, b)
			}
			if first.Bridge() == second.Bridge() || first.LoopbackAddress() == second.LoopbackAddress() {
				t.Fatalf("index %d and %d share a bridge or a loopback address", a, b)
			}
		}
	}
}

func TestAddressesLieInTheirNetworks(t *testing.T) {
	c := Cluster{Name: "x", Index: MaxIndex, Nodes: MaxNodes}
	seen := map[netip.Addr]bool{c.HostAddress(): true}
	for _, n := range append(c.AllNodes(), c.Gateway()) {
		if !c.NodeNetwork().Contains(n.Address()) {
			t.Errorf("%s: %s is outside %s", n.Name(), n.Address(), c.NodeNetwork())
		}
		if seen[n.Address()] {
			t.Errorf("%s: %s is used twice", n.Name(), n.Address())
		}
		seen[n.Address()] = true
		if pods := n.PodNetwork(); !c.PodNetwork().Contains(pods.Addr()) {
			t.Errorf("%s: pods %s are outside %s", n.Name(), pods, c.PodNetwork())
		}
		if len(n.HostLink()) > 15 {
			t.Errorf("%s: link name %q is longer than 15 characters", n.Name(), n.HostLink())
		}
	}
	for _, a := range []netip.Addr{c.DNSService(), c.KubernetesService()} {
		if !c.ServiceNetwork().Contains(a) {
			t.Errorf("%s is outside %s", a, c.ServiceNetwork())
		}
	}
}

func TestFreeIndexAvoidsRoutesAndTaken(t *testing.T) {
	inUse := []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/0"),     // the default route overlaps everything and must not count
		netip.MustParsePrefix("172.30.0.0/24"), // index 0
		netip.MustParsePrefix("10.66.0.0/15"),  // pods of 2 and 3
	}
	got, err := FreeIndex(inUse, map[int]bool{1: true})
	if err != nil || got != 4 {
		t.Fatalf("FreeIndex = %d, %v; want 4", got, err)
	}
	if _, err := FreeIndex([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, nil); err == nil {
		t.Fatal("FreeIndex found room although 10.0.0.0/8 is routed elsewhere")
	}
}

func TestValidateName(t *testing.T) {
	for _, good := range []string{"porpoise", "a", "cl1", "a-b", "abcdefghijklmnopqrst"} {
		if err := ValidateName(good); err != nil {
			t.Errorf("%q refused: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-a", "a-", "A", "a/b", "..", "abcdefghijklmnopqrstu"} {
		if ValidateName(bad) == nil {
			t.Errorf("%q accepted", bad)
		}
	}
	for _, bad := range []int{0, -1, MaxNodes + 1} {
		if ValidateNodes(bad) == nil {
			t.Errorf("%d nodes accepted", bad)
		}
	}
}
