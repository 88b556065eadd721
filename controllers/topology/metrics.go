package topology

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/failover"
)

// The lane's metrics. Labels have few values each, whatever the number of clusters: rows of the state machine, phases.
var (
	decisions = newDecisionCounter()
	streams   = &streamGauge{}
)

func init() { metrics.Registry.MustRegister(decisions, streams) }

// Values of the label outcome.
const (
	outcomeUnchanged  = "Unchanged"
	outcomeRecorded   = "Recorded"
	outcomeCommanded  = "Commanded"
	outcomeSuperseded = "Superseded"
	outcomeFailed     = "Failed"
)

func newDecisionCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porpoise_topology_decisions_total",
		Help: "Decisions of the topology lane, by row of its state machine and outcome: Recorded (the record was written), Commanded " +
			"(the record stands, agents were to be commanded), Unchanged (nothing to do), Superseded (another write was quicker), Failed.",
	}, []string{"row", "outcome"})
}

// passEnd is how a pass ended that may have come to a decision.
type passEnd struct {
	decision failover.Decision
	recorded bool
	end      outcome
	err      error
}

// countDecision counts a pass; one that did not come to a decision does not count.
func countDecision(counter *prometheus.CounterVec, p passEnd) {
	row := p.decision.Row
	if row == "" {
		return
	}
	if strings.HasSuffix(row, failover.RowUnknownPhase) {
		row = failover.RowUnknownPhase // The phase is whatever a newer operator wrote.
	}
	result := outcomeUnchanged
	switch {
	case p.recorded:
		result = outcomeRecorded
	case p.err != nil:
		result = outcomeFailed
	case p.end == again:
		result = outcomeSuperseded
	case len(p.decision.Actions) > 0:
		result = outcomeCommanded
	}
	counter.WithLabelValues(row, result).Inc()
}

// streamCount counts the agents of one lane by the phase of their clusters.
type streamCount struct {
	count func() map[types.NamespacedName]agentclient.Streams

	mu     sync.Mutex
	phases map[types.NamespacedName]v1.TopologyPhase
}

func (c *streamCount) keep(key types.NamespacedName, phase v1.TopologyPhase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phases == nil {
		c.phases = map[types.NamespacedName]v1.TopologyPhase{}
	}
	if phase == "" {
		phase = v1.TopologyBootstrapping // An empty record is where a topology begins.
	}
	c.phases[key] = phase
}

func (c *streamCount) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.phases, key)
}

// phaseUnknown stands for a phase that has not been read yet, or that this version does not know.
const phaseUnknown = v1.TopologyPhase("Unknown")

var phases = []v1.TopologyPhase{
	v1.TopologyBootstrapping, v1.TopologyAdopting, v1.TopologyStable, v1.TopologyDraining, v1.TopologyFencing, v1.TopologyPromoting,
	v1.TopologyRecovering, v1.TopologyBlocked, phaseUnknown,
}

// addTo adds the counts to those of other lanes.
func (c *streamCount) addTo(sum map[v1.TopologyPhase]agentclient.Streams) {
	counts := c.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range counts {
		phase := c.phases[key]
		total, known := sum[phase]
		if !known {
			phase = phaseUnknown
			total = sum[phase]
		}
		sum[phase] = agentclient.Streams{Heard: total.Heard + n.Heard, Silent: total.Silent + n.Silent}
	}
}

// streamGauge is a collector over all lanes of the process: one in a manager, several in tests.
type streamGauge struct {
	mu    sync.Mutex
	lanes []*streamCount
}

// add takes a lane in; remove takes it out.
func (g *streamGauge) add(lane *streamCount) (remove func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes = append(g.lanes, lane)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.lanes = slices.DeleteFunc(g.lanes, func(l *streamCount) bool { return l == lane })
	}
}

var descStreams = prometheus.NewDesc("porpoise_topology_agent_streams",
	"Instances whose agents this manager keeps a status stream to, by whether it is heard now and by the phase of the cluster's topology.",
	[]string{"connected", "phase"}, nil)

// Describe tells the one metric.
func (g *streamGauge) Describe(out chan<- *prometheus.Desc) { out <- descStreams }

// Collect sends every series, also those that are zero, so that an alert on one has something to look at.
func (g *streamGauge) Collect(out chan<- prometheus.Metric) {
	sum := map[v1.TopologyPhase]agentclient.Streams{}
	for _, phase := range phases {
		sum[phase] = agentclient.Streams{}
	}
	g.mu.Lock()
	lanes := slices.Clone(g.lanes)
	g.mu.Unlock()
	for _, lane := range lanes {
		lane.addTo(sum)
	}
	for phase, n := range sum {
		for connected, value := range map[bool]int{true: n.Heard, false: n.Silent} {
			out <- prometheus.MustNewConstMetric(descStreams, prometheus.GaugeValue, float64(value), strconv.FormatBool(connected), string(phase))
		}
	}
}
