package agenttest_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
)

// claimOnly makes the test binary claim hosts, print them and wait until its input ends.
const claimOnly = "PORPOISE_AGENTTEST_CLAIM"

func TestHostsOfTwoTestBinariesDiffer(t *testing.T) {
	const each = 20
	if os.Getenv(claimOnly) != "" {
		var own []string
		for range each {
			own = append(own, agenttest.ClaimHost(t))
		}
		_, _ = os.Stdout.WriteString("claimed " + strings.Join(own, " ") + "\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		seen  = map[string]int{}
	)
	claimed := func(host string) {
		mu.Lock()
		defer mu.Unlock()
		seen[host]++
	}
	for range each {
		group.Go(func() { claimed(agenttest.ClaimHost(t)) })
	}
	for range 2 {
		for _, host := range otherBinary(t) {
			claimed(host)
		}
	}
	group.Wait()
	if len(seen) != 3*each {
		t.Errorf("%d different hosts, want %d: %v", len(seen), 3*each, seen)
	}
	for host := range seen {
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			t.Errorf("%q is no loopback address", host)
		}
	}
}

// otherBinary returns the hosts of a second test binary, which holds them until this test's end.
func otherBinary(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostsOfTwoTestBinariesDiffer$")
	cmd.Env = append(os.Environ(), claimOnly+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	text := make([]byte, 0, 1<<10)
	for !strings.Contains(string(text), "\n") {
		part := make([]byte, 1<<10)
		n, err := stdout.Read(part)
		text = append(text, part[:n]...)
		if err != nil {
			t.Fatalf("the other binary says %q and ends: %v", text, err)
		}
	}
	hosts, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "claimed ")
	if !ok {
		t.Fatalf("the other binary says %q", text)
	}
	return strings.Fields(hosts)
}
