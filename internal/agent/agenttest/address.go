package agenttest

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
)

// Ports of every instance, each at a loopback address of its own. They lie below the ports that the kernel hands out, so no
// connection's end gets one of them.
const (
	portClaim = 21000
	portMySQL = 21306
	portAdmin = 21307
	portAgent = 21443
)

// hosts is how many loopback addresses there are to claim: those of 127.64.0.0/10 that do not end in 0 or 255.
const hosts = 64 * 256 * 254

// tries is how many hosts are tried. A port that somebody listens at on all addresses is taken at each of them.
const tries = 1000

// ClaimHost returns a loopback address that nobody else on this machine gets, in this or another test binary, until the
// test and its clean-ups end: an open socket at a port of that address is the claim. The instance's ports are free there.
func ClaimHost(t testing.TB) string {
	t.Helper()
	var last error
	for n := range tries {
		// Test binaries begin at different places, so that one does not meet at once what a killed one leaves behind.
		host := hostAt((os.Getpid()*8 + n) % hosts)
		claim, err := claimHost(host)
		if err != nil {
			last = err
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return host
	}
	t.Fatalf("no loopback address is free: %v", last)
	return ""
}

// APIAddress is where the agent of an instance at a host listens.
func APIAddress(host string) string { return net.JoinHostPort(host, strconv.Itoa(portAgent)) }

// hostAt returns the n-th of the hosts.
func hostAt(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", 64+n/(256*254), n/254%256, 1+n%254)
}

// claimHost opens the claim, and makes sure that nobody listens at the instance's ports.
func claimHost(host string) (net.Listener, error) {
	claim, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(portClaim)))
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", host, err)
	}
	for _, port := range []int{portMySQL, portAdmin, portAgent} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			_ = claim.Close()
			return nil, fmt.Errorf("claim %s: port %d is not free: %w", host, port, err)
		}
		_ = l.Close()
	}
	return claim, nil
}
