package topology

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/failover"
)

// TestMetricsAreDocumented: people find every metric in the guide, with the values of its labels.
func TestMetricsAreDocumented(t *testing.T) {
	guide, err := os.ReadFile("../../docs/using.md")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"porpoise_topology_agent_streams", "porpoise_topology_decisions_total", outcomeUnchanged, outcomeRecorded, outcomeCommanded, outcomeSuperseded, outcomeFailed}
	for _, phase := range phases {
		words = append(words, string(phase))
	}
	for _, word := range words {
		if !strings.Contains(string(guide), "`"+word+"`") {
			t.Errorf("docs/using.md lacks `%s`", word)
		}
	}
	for _, row := range failover.Table {
		if !slices.Contains(phases, row.Phase) {
			t.Errorf("phase %s of the state machine is counted as %s", row.Phase, phaseUnknown)
		}
	}
}

// valuesOf returns the values of a collector's only metric by its labels' values, joined.
func valuesOf(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v; want one", len(families), err)
	}
	out := map[string]float64{}
	for _, m := range families[0].Metric {
		key := ""
		for _, l := range m.Label {
			key += "/" + l.GetValue()
		}
		out[key[1:]] = valueOf(m)
	}
	return out
}

func valueOf(m *dto.Metric) float64 {
	if m.Counter != nil {
		return m.Counter.GetValue()
	}
	return m.Gauge.GetValue()
}

// TestStreamsAreCountedByPhase: names of clusters and instances never become labels, and each phase always has a series.
func TestStreamsAreCountedByPhase(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	lane := func(counts map[types.NamespacedName]agentclient.Streams, phases map[types.NamespacedName]v1.TopologyPhase) *streamCount {
		c := &streamCount{count: func() map[types.NamespacedName]agentclient.Streams { return counts }}
		for k, phase := range phases {
			c.keep(k, phase)
		}
		return c
	}
	gauge := &streamGauge{}
	one := lane(map[types.NamespacedName]agentclient.Streams{
		key("a"): {Heard: 3}, key("b"): {Heard: 1, Silent: 2}, key("new"): {Silent: 1}, key("odd"): {Heard: 1}, key("unseen"): {Heard: 1},
	}, map[types.NamespacedName]v1.TopologyPhase{
		key("a"): v1.TopologyStable, key("b"): v1.TopologyStable, key("new"): "", key("odd"): "FromTheFuture", key("gone"): v1.TopologyBlocked,
	})
	one.forget(key("gone"))
	remove := gauge.add(one)
	gauge.add(lane(map[types.NamespacedName]agentclient.Streams{key("c"): {Heard: 5}}, map[types.NamespacedName]v1.TopologyPhase{key("c"): v1.TopologyRecovering}))
	want := map[string]float64{
		"true/Bootstrapping": 0, "false/Bootstrapping": 1, "true/Stable": 4, "false/Stable": 2, "true/Recovering": 5, "false/Recovering": 0,
		"true/Blocked": 0, "false/Blocked": 0, "true/Unknown": 2, "false/Unknown": 0, "true/Adopting": 0, "false/Adopting": 0,
		"true/Draining": 0, "false/Draining": 0, "true/Fencing": 0, "false/Fencing": 0, "true/Promoting": 0, "false/Promoting": 0,
	}
	got := valuesOf(t, gauge)
	for labels, n := range want {
		if value, there := got[labels]; !there || value != n {
			t.Errorf("%s: %v (there: %t), want %v", labels, value, there, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("series %v, want %d", got, len(want))
	}
	remove()
	if got := valuesOf(t, gauge); got["true/Stable"] != 0 || got["true/Recovering"] != 5 {
		t.Errorf("after the end of one lane: %v", got)
	}
}

func TestDecisionsAreCountedByRowAndOutcome(t *testing.T) {
	counter := newDecisionCounter()
	row, acting := failover.Decision{Row: "Stable/healthy"}, failover.Decision{Row: "Stable/healthy", Actions: []failover.Action{{Instance: "orders-1"}}}
	for _, pass := range []passEnd{
		{decision: row}, {decision: row}, {decision: acting}, {decision: acting, recorded: true, end: again}, {decision: row, end: again},
		{decision: row, err: errors.New("no")}, {decision: row, recorded: true, err: errors.New("labels")},
		{decision: failover.Decision{Row: "FromTheFuture/unknown-phase"}}, {end: done}, {err: errors.New("no record")},
	} {
		countDecision(counter, pass)
	}
	want := map[string]float64{
		"Unchanged/Stable/healthy": 2, "Commanded/Stable/healthy": 1, "Recorded/Stable/healthy": 2, "Superseded/Stable/healthy": 1,
		"Failed/Stable/healthy": 1, "Unchanged/unknown-phase": 1,
	}
	got := valuesOf(t, counter)
	for labels, n := range want {
		if got[labels] != n {
			t.Errorf("%s: %v, want %v", labels, got[labels], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("series %v, want %v", got, want)
	}
}
