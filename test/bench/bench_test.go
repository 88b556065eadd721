package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sysbenchText = `SQL statistics:
    transactions:                        1234   (61.68 per sec.)
    queries:                             7404   (370.10 per sec.)
    ignored errors:                      2      (0.10 per sec.)
    reconnects:                          0      (0.00 per sec.)

Latency (ms):
         95th percentile:                       95.81
`

func TestSysbenchIsRead(t *testing.T) {
	got, err := parseSysbench(sysbenchText)
	if err != nil {
		t.Fatal(err)
	}
	if got != (sysbenchResult{transactionsPerSecond: 61.68, p95: 95.81}) {
		t.Errorf("got %+v", got)
	}
	for name, text := range map[string]string{
		"no transactions": strings.Replace(sysbenchText, "transactions:", "things:", 1),
		"no percentile":   strings.Replace(sysbenchText, "95th", "99th", 1),
		"reconnects":      strings.Replace(sysbenchText, "reconnects:                          0 ", "reconnects:                          3 ", 1),
	} {
		if _, err := parseSysbench(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestFakeAgentsHaveAddressesOfTheirOwn(t *testing.T) {
	used := map[string]string{}
	for n := range 10_000 {
		for _, instance := range []string{"-0", "-9"} {
			name := fleetCluster(n) + instance
			ip, err := fleetIP(blocks[0], fleetCluster(n), name)
			if err != nil {
				t.Fatal(err)
			}
			if !net.ParseIP(ip).IsLoopback() {
				t.Fatalf("%s is no loopback address", ip)
			}
			if used[ip] != "" {
				t.Fatalf("%s and %s share %s", used[ip], name, ip)
			}
			used[ip] = name
			if got := clusterOfInstance(name); got != fleetCluster(n) {
				t.Fatalf("%s is of cluster %s", name, got)
			}
		}
	}
	if _, err := fleetIP(blocks[0], "orders", "orders-0"); err == nil {
		t.Error("a cluster of another name has an address")
	}
}

func TestTwoFleetsHaveAddressesOfTheirOwn(t *testing.T) {
	first, claim, err := claimBlock()
	if err != nil {
		t.Fatal(err)
	}
	second, other, err := claimBlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = claim.Close(); _ = other.Close() })
	const clusters, perBlock = 10_000, 250
	if distance := max(first, second) - min(first, second); distance < clusters/perBlock {
		t.Errorf("blocks %d and %d are too near each other for %d clusters", first, second, clusters)
	}
}

func TestTheHarnessTellsFailuresAndCleansUp(t *testing.T) {
	var order []string
	err := withHarness(func(h *harness) error {
		h.Cleanup(func() { order = append(order, "first") })
		h.Cleanup(func() {
			order = append(order, "second")
			h.Cleanup(func() { order = append(order, "late") })
			h.Errorf("cleanup %d", 7)
		})
		h.Error("an error")
		h.Fatalf("fatal %s", "end")
		order = append(order, "went on")
		return nil
	})
	if diff := cmp.Diff([]string{"second", "late", "first"}, order); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"an error", "fatal end", "cleanup 7"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	wanted := errors.New("returned")
	if err := withHarness(func(*harness) error { return wanted }); !errors.Is(err, wanted) {
		t.Errorf("got %v", err)
	}
	if err := withHarness(func(*harness) error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
}

func run1(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root, out := rootCommand(), &strings.Builder{}
	root.SetOut(out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTheHelpExplainsEveryCommand(t *testing.T) {
	out, err := run1(t, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"create", "quiet", "fleet", "durability", "all", "docs", "--update-docs", "--quick", "KUBECONFIG"} {
		if !strings.Contains(out, want) {
			t.Errorf("the help lacks %q:\n%s", want, out)
		}
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--runs: 0; allowed is 1 to 1000", []string{"create", "--runs=0"}},
		{"--instances: 11; allowed is 2 to 10", []string{"create", "--instances=11"}},
		{"--duration: 10ms; allowed is 1s to 1h", []string{"quiet", "--duration=10ms"}},
		{"--clusters: 0; allowed is 1 to 10000", []string{"fleet", "--clusters=0"}},
		{"--write-rate: -1; allowed is 0 to 100000", []string{"fleet", "--write-rate=-1"}},
		{"--update-docs: not with --quick", []string{"create", "--quick", "--update-docs"}},
		{`--workloads: "tpcc"; allowed are oltp_write_only`, []string{"durability", "--workloads=tpcc"}},
	} {
		if _, err := run1(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestQuickGivesWayToWhatIsGiven(t *testing.T) {
	b := &bench{quick: true}
	for name, o := range map[string]options{"create": &createOptions{}, "quiet": &quietOptions{}, "fleet": &fleetOptions{}, "durability": &durabilityOptions{}} {
		cmd := b.measure(name, "", o, nil)
		if err := cmd.Flags().Parse([]string{"--runs=3"}); err != nil {
			t.Fatal(err)
		}
		if err := b.prepare(cmd.Flags(), o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := cmd.Flags().Lookup("runs").Value.String(); got != "3" {
			t.Errorf("%s: --runs is %s", name, got)
		}
		if duration := cmd.Flags().Lookup("duration"); duration != nil && duration.Value.String() != "5s" {
			t.Errorf("%s: --duration is %s", name, duration.Value)
		}
	}
}

func TestQuickFiguresDoNotTakeThePlaceOfRealOnes(t *testing.T) {
	for want, b := range map[string]*bench{outFolder: {}, quickFolder: {quick: true}, "elsewhere": {quick: true, out: "elsewhere"}} {
		if err := b.chooseFolder(); err != nil || b.out != want {
			t.Errorf("%q, %v; want %q", b.out, err, want)
		}
	}
}

func TestFiguresNameTheirCommand(t *testing.T) {
	b := &bench{}
	b.env.Nodes = 1
	o := &createOptions{}
	cmd := b.measure("create", "", o, nil)
	if err := cmd.Flags().Parse([]string{"--runs=3"}); err != nil {
		t.Fatal(err)
	}
	if got := b.call(cmd); got != "go run ./test/bench create --runs=3" {
		t.Errorf("got %q", got)
	}
}

func TestTheDocumentHasAPlaceForEveryFigure(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"create", "quiet", "manager-real", "manager-fleet", "durability-oltp-write-only", "durability-oltp-read-write"} {
		if !strings.Contains(string(text), "<!-- begin figure "+id+" -->\n") {
			t.Errorf("docs/benchmarks.md has no section for figure %s", id)
		}
	}
}

func TestADiskInMemoryIsRefused(t *testing.T) {
	if _, err := measureDisk("/dev/shm"); err == nil || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("/dev/shm: %v", err)
	}
	d, err := measureDisk(t.TempDir())
	if err != nil && !strings.Contains(err.Error(), "in memory") {
		t.Fatal(err)
	}
	if err == nil && (d.fsync <= 0 || d.filesystem == "") {
		t.Errorf("got %+v", d)
	}
}
