package agent

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestMetricsAreDocumented: people find every metric in the guide.
func TestMetricsAreDocumented(t *testing.T) {
	source, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/using.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`describe\("(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(found) < 20 {
		t.Fatalf("only %d metrics were found in the source", len(found))
	}
	for _, m := range found {
		if name := "`porpoise_" + m[1] + "`"; !strings.Contains(string(guide), name) {
			t.Errorf("docs/using.md lacks %s", name)
		}
	}
}
