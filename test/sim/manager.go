package sim

import (
	"slices"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// Manager is what one manager knows: the newest document it received from each instance.
type Manager struct {
	Namespace, Cluster string
	// Fresh says that the volumes began empty.
	Fresh bool

	heard map[string]agentclient.Observation
	pods  map[string]topology.Pod
}

// NewManager knows nothing yet.
func NewManager(namespace, cluster string) *Manager {
	return &Manager{Namespace: namespace, Cluster: cluster, Fresh: true, heard: map[string]agentclient.Observation{}, pods: map[string]topology.Pod{}}
}

// Hear takes a document in, as a stream or a request of its own would.
func (m *Manager) Hear(st agentapi.Status, requested, now time.Time) {
	if next, _, newer := m.heard[st.Instance].With(&st, requested, now); newer {
		m.heard[st.Instance] = next
	}
}

// Lose makes an instance unknown from now on.
func (m *Manager) Lose(name string, now time.Time) {
	since := now
	if o, known := m.heard[name]; known && o.Status == nil {
		since = o.SilentSince
	}
	m.heard[name] = agentclient.Observation{SilentSince: since}
}

// SeePod takes in whether an instance's pod exists and runs.
func (m *Manager) SeePod(name string, up bool) {
	m.pods[name] = topology.Pod{Exists: up, Bound: up, Running: up}
}

// SeeDeletion takes in that an instance's pod, which still runs, is being deleted.
func (m *Manager) SeeDeletion(name string) {
	pod := m.pods[name]
	pod.Terminating = true
	m.pods[name] = pod
}

// Snapshot puts together what the manager knows.
func (m *Manager) Snapshot(spec v1.MySQLTopologySpec) topology.Snapshot {
	s := topology.Snapshot{Namespace: m.Namespace, Cluster: m.Cluster, Generation: 1, Spec: spec, FreshVolumes: m.Fresh}
	names := slices.Clone(spec.Instances)
	for name := range m.pods {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[len(spec.Instances):])
	for _, name := range names {
		o := m.heard[name]
		s.Instances = append(s.Instances, topology.Instance{
			Name: name, Host: naming.Host(m.Cluster, m.Namespace, name), Wanted: slices.Contains(spec.Instances, name),
			Pod: m.pods[name], Status: o.Status, SilentSince: o.SilentSince, SampledAfter: o.SampledAfter, HeldSince: o.HeldSince, ExecutedSince: o.ExecutedSince, ProcessSince: o.ProcessSince,
		})
	}
	return s
}

// Plan decides on a record.
func (m *Manager) Plan(spec v1.MySQLTopologySpec, record v1.MySQLTopologyStatus, now time.Time) failover.Decision {
	return failover.Plan(m.Snapshot(spec), record, now)
}
