package agentclient

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/leadership"
)

// Pool keeps the streams of all clusters. It is safe for concurrent use.
type Pool struct {
	ctx    context.Context
	notify func(cluster types.NamespacedName, kind Kind)

	mu       sync.Mutex
	clusters map[types.NamespacedName]*cluster
}

type cluster struct {
	version  string
	watchers map[string]*watcher
}

// NewPool makes a pool whose streams end with ctx. notify is called after each document and each loss; it must not block.
func NewPool(ctx context.Context, notify func(types.NamespacedName, Kind)) *Pool {
	return &Pool{ctx: ctx, notify: notify, clusters: map[types.NamespacedName]*cluster{}}
}

// Ensure makes the cluster's streams be exactly those to targets with the given credentials. Streams that are right already
// are left alone.
func (p *Pool) Ensure(key types.NamespacedName, credentials *Credentials, targets []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clusters[key]
	if c == nil {
		c = &cluster{watchers: map[string]*watcher{}}
		p.clusters[key] = c
	}
	wanted := map[string]Target{}
	for _, t := range targets {
		wanted[t.Instance] = t
	}
	for name, w := range c.watchers {
		if wanted[name] != w.client.target || c.version != credentials.Version {
			w.stop()
			delete(c.watchers, name)
		}
	}
	c.version = credentials.Version
	for name, t := range wanted {
		if c.watchers[name] == nil {
			c.watchers[name] = startWatcher(p.ctx, newClient(t, credentials), func(k Kind) { p.notify(key, k) })
		}
	}
}

// Forget ends a cluster's streams.
func (p *Pool) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clusters[key]; c != nil {
		for _, w := range c.watchers {
			w.stop()
		}
		delete(p.clusters, key)
	}
}

// Observe returns what is known of a cluster's instances.
func (p *Pool) Observe(key types.NamespacedName) map[string]Observation {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]Observation{}
	if c := p.clusters[key]; c != nil {
		for name, w := range c.watchers {
			out[name] = w.observe()
		}
	}
	return out
}

// Streams are numbers of instances.
type Streams struct {
	// Heard are those whose stream brings documents, Silent those of which nothing is known now.
	Heard, Silent int
}

// Streams counts each cluster's instances.
func (p *Pool) Streams() map[types.NamespacedName]Streams {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[types.NamespacedName]Streams, len(p.clusters))
	for key, c := range p.clusters {
		var n Streams
		for _, w := range c.watchers {
			if w.observe().Status != nil {
				n.Heard++
			} else {
				n.Silent++
			}
		}
		out[key] = n
	}
	return out
}

// Sample asks an instance for a document that is sampled after this call began, and takes it in.
func (p *Pool) Sample(ctx context.Context, key types.NamespacedName, instance string) error {
	w, err := p.watcher(key, instance)
	if err != nil {
		return err
	}
	began := time.Now()
	st, err := w.client.status(ctx)
	if err != nil {
		return fmt.Errorf("sample %s: %w", instance, err)
	}
	w.accept(st, began)
	return nil
}

// Command sends a command to an instance and takes in the document that answers it. A refusal is an *agentapi.Error. Nothing is sent for a term of leading that has
// ended: what commands it is the record that this term has read (INV-6).
func (p *Pool) Command(ctx context.Context, key types.NamespacedName, instance string, cmd agentapi.Command) error {
	if err := leadership.Check(ctx); err != nil {
		return fmt.Errorf("%s on %s: %w", cmd.Type, instance, err)
	}
	w, err := p.watcher(key, instance)
	if err != nil {
		return err
	}
	began := time.Now()
	st, err := w.client.command(ctx, cmd)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", cmd.Type, instance, err)
	}
	w.accept(st, began)
	return nil
}

const (
	// suspectWindow is how recent silences must be to count together.
	suspectWindow = 10 * time.Second
	// suspectLeast is how many there must be at least: two of a cluster's three instances may well fail together.
	suspectLeast = 3
)

// Suspect says whether so many of all streams fell silent together that this manager's own network is the likelier cause.
func (p *Pool) Suspect() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard, lost := 0, 0
	for _, c := range p.clusters {
		for _, w := range c.watchers {
			switch o := w.observe(); {
			case o.Status != nil:
				heard++
			case time.Since(o.SilentSince) < suspectWindow && !o.SilentSince.IsZero():
				lost++
			}
		}
	}
	return lost >= suspectLeast && lost > heard
}

func (p *Pool) watcher(key types.NamespacedName, instance string) (*watcher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clusters[key]; c != nil {
		if w := c.watchers[instance]; w != nil {
			return w, nil
		}
	}
	return nil, fmt.Errorf("instance %s of %s: no stream", instance, key)
}
