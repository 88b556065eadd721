package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
)

// ensureSysbench installs Debian's sysbench where it is missing.
func ensureSysbench(ctx context.Context) (version string, err error) {
	if _, err := exec.LookPath("sysbench"); err != nil {
		if os.Geteuid() != 0 {
			return "", errors.New("sysbench is missing; install it with: sudo apt-get install sysbench")
		}
		fmt.Fprintln(os.Stderr, "installing sysbench")
		for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "sysbench"}} {
			cmd := exec.CommandContext(ctx, "apt-get", args...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("install sysbench: apt-get %s: %w: %s", args[0], err, lastLines(string(out)))
			}
		}
	}
	out, err := exec.CommandContext(ctx, "sysbench", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("sysbench --version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// sysbench runs against one primary, over TLS as the application.
type sysbench struct {
	dir     string
	o       *durabilityOptions
	options []string
}

// appPassword of the servers that exist for the measurement only. It stands in a file all the same: arguments are public.
const appPassword = "sysbench"

// newSysbench writes what sysbench needs into a folder: it looks for certificates under fixed names in its working folder.
func newSysbench(dir string, ca *agenttest.CA, primary *agenttest.Instance, o *durabilityOptions) (*sysbench, error) {
	cert, key := ca.Leaf("sysbench")
	config := fmt.Sprintf("mysql-host=%s\nmysql-port=%d\nmysql-user=app\nmysql-password=%s\nmysql-db=app\nmysql-ssl=on\n",
		primary.Host, primary.Config.Port, appPassword)
	for name, text := range map[string][]byte{"cacert.pem": ca.PEM, "client-cert.pem": cert, "client-key.pem": key, "sysbench.conf": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, fmt.Errorf("prepare sysbench: %w", err)
		}
	}
	return &sysbench{dir: dir, o: o, options: []string{
		"--config-file=" + filepath.Join(dir, "sysbench.conf"),
		"--tables=" + strconv.Itoa(o.tables), "--table-size=" + strconv.Itoa(o.tableSize), "--threads=" + strconv.Itoa(o.threads),
	}}, nil
}

// prepare makes the tables and fills them.
func (s *sysbench) prepare(ctx context.Context) error {
	_, err := s.call(ctx, "oltp_read_write", "prepare")
	return err
}

// run measures one workload for a time.
func (s *sysbench) run(ctx context.Context, workload string, d time.Duration) (sysbenchResult, error) {
	out, err := s.call(ctx, workload, "run", fmt.Sprintf("--time=%d", int(d.Seconds())), "--percentile=95")
	if err != nil {
		return sysbenchResult{}, err
	}
	return parseSysbench(out)
}

func (s *sysbench) call(ctx context.Context, workload, command string, more ...string) (string, error) {
	args := append(append(append([]string{}, s.options...), more...), workload, command)
	cmd := exec.CommandContext(ctx, "sysbench", args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sysbench %s %s: %w: %s", workload, command, err, lastLines(string(out)))
	}
	return string(out), nil
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "\n")
}

// sysbenchResult of one run.
type sysbenchResult struct {
	// transactionsPerSecond, and the 95th percentile of their latency in milliseconds.
	transactionsPerSecond, p95 float64
}

var (
	transactionsLine = regexp.MustCompile(`(?m)^\s*transactions:\s+\d+\s+\(([0-9.]+) per sec\.\)$`)
	percentileLine   = regexp.MustCompile(`(?m)^\s*95th percentile:\s+([0-9.]+)$`)
	reconnectsLine   = regexp.MustCompile(`(?m)^\s*reconnects:\s+([1-9]\d*)\s`)
)

// parseSysbench reads what sysbench 1.0 prints. A run with reconnects measured something else.
func parseSysbench(out string) (sysbenchResult, error) {
	number := func(re *regexp.Regexp, what string) (float64, error) {
		m := re.FindStringSubmatch(out)
		if m == nil {
			return 0, fmt.Errorf("sysbench printed no %s: %s", what, lastLines(out))
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, fmt.Errorf("sysbench printed %s %q: %w", what, m[1], err)
		}
		return v, nil
	}
	var r sysbenchResult
	var err error
	if r.transactionsPerSecond, err = number(transactionsLine, "transactions per second"); err != nil {
		return r, err
	}
	if r.p95, err = number(percentileLine, "95th percentile"); err != nil {
		return r, err
	}
	if m := reconnectsLine.FindStringSubmatch(out); m != nil {
		return r, fmt.Errorf("sysbench reconnected %s times: the server went away", m[1])
	}
	return r, nil
}
