//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/plugin"
)

// runPlugin runs kubectl-porpoise as `make build` made it.
func runPlugin(t *testing.T, args ...string) string {
	t.Helper()
	program, err := filepath.Abs("../../bin/kubectl-porpoise")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append(args, "--kubeconfig", kubernetes.Kubeconfig)...)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it unwrapped.
			stderr = string(exit.Stderr)
		}
		t.Fatalf("%s %s: %v: %s (make build makes it)", program, strings.Join(args, " "), err, stderr)
	}
	return string(out)
}

// TestPluginShowsStatus: what a person sees of a healthy cluster, and what a program reads of it.
func TestPluginShowsStatus(t *testing.T) {
	c := shared(t)
	primary := c.primary(t)
	text := runPlugin(t, "status", c.name, "-n", c.namespace)
	t.Log("\n" + text)
	if word := lacking(text, append([]string{c.name, primary}, c.replicas(t)...)); word != "" {
		t.Errorf("the status does not name %s", word)
	}
	if strings.Index(text, primary) > strings.Index(text, c.replicas(t)[0]) {
		t.Errorf("the primary is not above its replicas")
	}

	report := &plugin.Report{}
	raw := runPlugin(t, "status", c.name, "-n", c.namespace, "-o", "json")
	if err := json.Unmarshal([]byte(raw), report); err != nil {
		t.Fatalf("read the JSON: %v\n%s", err, raw)
	}
	if !report.Cluster.Ready || report.Topology.Primary != primary || len(report.Instances) != 3 || report.WritesBlocked != nil {
		t.Errorf("the report of a healthy cluster says:\n%s", raw)
	}
	if len(report.Notes) > 0 {
		t.Errorf("the report lacks something: %q", report.Notes)
	}
}
