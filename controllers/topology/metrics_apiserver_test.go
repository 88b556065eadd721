//go:build apiserver

package topology_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// metric sums the series of a metric that carry the given labels.
func metric(name string, labels map[string]string) float64 {
	families, err := metrics.Registry.Gather()
	must(err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.Metric {
			matches := 0
			for _, l := range m.Label {
				if want, asked := labels[l.GetName()]; asked && want == l.GetValue() {
					matches++
				}
			}
			if matches == len(labels) {
				sum += m.Counter.GetValue() + m.Gauge.GetValue()
			}
		}
	}
	return sum
}

// TestMetrics: what the manager serves tells of agents heard and of decisions taken.
func TestMetrics(t *testing.T) {
	f := newFixture(t, 1, 2, 0)
	streams := func(connected string, phase v1.TopologyPhase) float64 {
		return metric("porpoise_topology_agent_streams", map[string]string{"connected": connected, "phase": string(phase)})
	}
	decisions := func(row, outcome string) float64 {
		return metric("porpoise_topology_decisions_total", map[string]string{"row": row, "outcome": outcome})
	}
	begun := decisions("Bootstrapping/begin", "Recorded")
	_, stop := f.startManager(false)
	f.eventually("healthy", f.healthy)
	f.eventually("two streams of a stable cluster", func() bool { return streams("true", v1.TopologyStable) == 2 })
	// A decision is counted once all of it was done, which is after its record can be read.
	f.eventually("a cluster was begun once", func() bool { return decisions("Bootstrapping/begin", "Recorded") == begun+1 })
	f.eventually("nothing is left to do", func() bool { return decisions("Stable/healthy", "Unchanged") > 0 })
	f.world.Silence("orders-1", true)
	f.eventually("one is silent", func() bool {
		return streams("false", v1.TopologyStable) == 1 && streams("true", v1.TopologyStable) == 1
	})
	stop()
	if n := metric("porpoise_topology_agent_streams", nil); n != 0 {
		t.Errorf("%v streams are counted after the manager's end", n)
	}
}
