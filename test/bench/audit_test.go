package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// auditLine is one event as the API server writes it.
func auditLine(at, user, verb, resource, namespace string) string {
	groups := `"system:authenticated"`
	if user == "admin" {
		groups = `"system:masters"`
	}
	resource, subresource, _ := strings.Cut(resource, "/")
	return `{"stage":"ResponseComplete","verb":"` + verb + `","user":{"username":"` + user + `","groups":[` + groups + `]},"objectRef":{"resource":"` + resource +
		`","subresource":"` + subresource + `","namespace":"` + namespace + `"},"requestReceivedTimestamp":"2026-01-01T00:00:` + at + `Z"}` + "\n"
}

func TestWritesOfTheAuditLogAreCounted(t *testing.T) {
	dir := t.TempDir()
	rotated := auditLine("05.000000", operatorUser, "create", "events", benchNamespace)
	log := auditLine("09.999999", operatorUser, "patch", "pods", benchNamespace) + // Before the window in the second test.
		auditLine("10.000000", operatorUser, "update", "leases", "porpoise-system") +
		auditLine("11.000000", operatorUser, "patch", "pods", benchNamespace) +
		auditLine("11.100000", operatorUser, "patch", "pods", benchNamespace) +
		auditLine("11.200000", operatorUser, "update", "mysqltopologies/status", benchNamespace) +
		auditLine("11.300000", operatorUser, "get", "pods", benchNamespace) +
		auditLine("11.400000", operatorUser, "create", "tokenreviews", "") +
		auditLine("11.500000", "admin", "create", "pods", benchNamespace) +
		auditLine("11.600000", "system:node:n1", "patch", "pods/status", benchNamespace) +
		auditLine("11.700000", "system:node:n1", "patch", "pods/status", "elsewhere") +
		auditLine("12.000000", operatorUser, "delete", "pods", benchNamespace) + // The window's end is not in it.
		`{"stage":"Respo` // Being written.
	for name, text := range map[string]string{"audit-2026.log": rotated, "audit.log": log} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }
	all, err := countAudit(dir, at(0), at(60))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"create events": 1, "patch pods": 3, "update mysqltopologies/status": 1, "delete pods": 1}
	if diff := cmp.Diff(want, all.operator); diff != "" {
		t.Error(diff)
	}
	c, err := countAudit(dir, at(10), at(12))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"patch pods": 2, "update mysqltopologies/status": 1}, c.operator); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"system:node:n1: patch pods/status": 1}, c.others); diff != "" {
		t.Error(diff)
	}
	if c.leases != 1 || c.reviews != 1 || !c.last.Equal(at(12)) {
		t.Errorf("%d leases, %d reviews, last %s", c.leases, c.reviews, c.last)
	}
	if got := listing(c.operator); got != "patch pods ×2, update mysqltopologies/status ×1" || sum(c.operator) != 3 {
		t.Errorf("listed %q, %d in all", got, sum(c.operator))
	}
}

func TestAnAuditLogThatIsNotThereIsNotZero(t *testing.T) {
	if _, err := countAudit(t.TempDir(), time.Time{}, time.Now()); err == nil {
		t.Error("no error")
	}
}
