package failover

import (
	"fmt"
	"strings"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// Diagram renders the table as Markdown: a Mermaid state diagram of the phases, then every row in order.
func Diagram() string {
	var b strings.Builder
	b.WriteString("<!-- Generated from internal/failover/table.go by `go generate ./internal/failover`. Do not edit. -->\n")
	b.WriteString("# States of a topology\n\n")
	b.WriteString("Arrows within one phase are left out; the tables below have every row. In each phase the first row whose guards\nall hold is taken; the record is written before anything is done.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> Bootstrapping\n")
	for _, row := range Table {
		if row.Next != row.Phase {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", row.Phase, row.Next, row.Name)
		}
	}
	b.WriteString("```\n")
	var phase v1.TopologyPhase
	for _, row := range Table {
		if row.Phase != phase {
			phase = row.Phase
			fmt.Fprintf(&b, "\n## %s\n\n| row | when | next | does | reason |\n|---|---|---|---|---|\n", phase)
		}
		var when, does []string
		for _, g := range row.When {
			when = append(when, strings.Replace(string(g), "!", "not ", 1))
		}
		for _, s := range row.Do {
			does = append(does, string(s))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.Name, orElse(strings.Join(when, "; "), "always"), row.Next,
			orElse(strings.Join(does, ", "), "–"), row.Reason)
	}
	return b.String()
}
