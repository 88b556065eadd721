package agent

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
	"github.com/porpoise-dev/porpoise/internal/version"
)

// hub holds the document that is reported. Parts behind pointers are replaced, never modified.
type hub struct {
	mu       sync.Mutex
	doc      agentapi.Status
	shape    []byte
	changed  chan struct{} // closed at the next change
	sequence uint64
}

func newHub(instance string) *hub {
	return &hub{changed: make(chan struct{}), doc: agentapi.Status{
		APIVersion: agentapi.Version, AgentVersion: version.Version(), Instance: instance, AgentStart: time.Now().UTC(),
		Data:    agentapi.DataStatus{State: agentapi.DataEmpty},
		Process: agentapi.ProcessStatus{State: agentapi.ProcessStopped},
	}}
}

// update changes the document and wakes the streams if anything changed that is worth waking for.
func (h *hub) update(change func(*agentapi.Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.doc)
	shape := shapeOf(h.doc)
	if bytes.Equal(shape, h.shape) {
		return
	}
	h.shape = shape
	close(h.changed)
	h.changed = make(chan struct{})
}

// next returns the document for sending, numbered, and a channel that is closed at the next change after it.
func (h *hub) next() (agentapi.Status, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sequence++
	doc := h.doc
	doc.Sequence = h.sequence
	return doc, h.changed
}

// peek returns the document for deciding, without numbering it.
func (h *hub) peek() agentapi.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doc
}

// watch is peek with a channel that is closed at the next change.
func (h *hub) watch() (agentapi.Status, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doc, h.changed
}

// shapeOf is the document without what changes with each commit or each second: those go out with the heartbeat.
func shapeOf(doc agentapi.Status) []byte {
	if doc.Server != nil {
		server := *doc.Server
		server.GTIDExecuted, server.GTIDPurged, server.GTIDOwned = gtid.Set{}, gtid.Set{}, gtid.Set{}
		server.SemiSync.WaitSessions = 0
		if server.Replication != nil {
			r := *server.Replication
			r.Received, r.LagSeconds, r.LastHeard = gtid.Set{}, nil, time.Time{}
			// The texts count retries.
			r.ReceiverError, r.ApplierError = "", ""
			server.Replication = &r
		}
		doc.Server = &server
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil // wakes too often rather than never
	}
	return text
}
