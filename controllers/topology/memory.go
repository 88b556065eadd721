package topology

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// memory holds what spares work and is not needed for being right: a manager that starts without it comes to the same
// decisions.
type memory struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]*remembered
}

type remembered struct {
	// record is the newest that this process read or wrote.
	record *v1.MySQLTopology
	// awaited are the instances whose progress the last decision waits for, and sample says to sample just those.
	awaited  []string
	row      string
	attempts int
	sampled  time.Time
	// labelled says on which version of a pod its labels were last written: until the cache shows a newer one there is
	// nothing to write again.
	labelled map[types.UID]string
}

func newMemory() *memory { return &memory{clusters: map[types.NamespacedName]*remembered{}} }

// reset forgets everything: what an earlier term of leading read may be outdated by another manager's writes.
func (m *memory) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clusters = map[types.NamespacedName]*remembered{}
}

func (m *memory) of(key types.NamespacedName) *remembered {
	if m.clusters[key] == nil {
		m.clusters[key] = &remembered{}
	}
	return m.clusters[key]
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, key)
}

// record returns the newest record known.
func (m *memory) record(key types.NamespacedName) *v1.MySQLTopology {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(key).record
}

// keep remembers a record that was read live or written; nil after a lost race, so that the next one is read live.
func (m *memory) keep(key types.NamespacedName, topo *v1.MySQLTopology) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(key).record = topo
}

// waits says whether progress alone matters to the cluster now.
func (m *memory) waits(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clusters[key]
	return c != nil && len(c.awaited) > 0
}

// slowSample is the pause once all of samplePauses were tried. Heartbeats alone could go on for long: those of primary and
// replica come in no order, and under write load one that is older than the primary's looks behind each time.
const slowSample = time.Second

// samplePauses are the pauses before sampling again while a decision waits, which is at most a few round trips.
var samplePauses = []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}

// await remembers what a decision waits for and returns when to look again; 0: at the next document, it waits for none.
func (m *memory) await(key types.NamespacedName, row string, awaited []string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(key)
	if len(awaited) == 0 {
		c.awaited, c.row, c.attempts = nil, "", 0
		return 0
	}
	if c.row != row {
		c.attempts = 0
	}
	c.awaited, c.row = awaited, row
	return c.pause()
}

// pause is how long to wait before the next sample.
func (c *remembered) pause() time.Duration {
	if c.attempts >= len(samplePauses) {
		return slowSample
	}
	return samplePauses[c.attempts]
}

// due returns the instances to sample before the next decision; none when it is too early.
func (m *memory) due(key types.NamespacedName, now time.Time) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(key)
	least := samplePauses[0] / 2
	if c.attempts >= len(samplePauses) {
		least = slowSample / 2
	}
	if len(c.awaited) == 0 || now.Sub(c.sampled) < least {
		return nil
	}
	c.attempts++
	c.sampled = now
	return c.awaited
}

// labels says whether a pod's labels are to be written, and remembers that they are.
func (m *memory) labels(key types.NamespacedName, pod types.UID, written string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.of(key)
	if c.labelled[pod] == written {
		return false
	}
	if c.labelled == nil || len(c.labelled) > 64 {
		c.labelled = map[types.UID]string{} // Pods come and go; forgetting costs one write.
	}
	c.labelled[pod] = written
	return true
}

// newer says whether a is newer than b. Resource versions of one object are numbers that grow.
func newer(a, b *v1.MySQLTopology) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errX == nil && errY == nil && x > y
}
