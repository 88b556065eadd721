package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// errConflict is what the slower one of two writers gets.
var errConflict = errors.New("the record has moved on")

// Store holds the record as the API server does: compare and swap, as JSON (so times have whole seconds), after a delay.
type Store struct {
	delay time.Duration

	mu      sync.Mutex
	version int
	text    []byte
	changed map[int]func()
	next    int
}

// NewStore has an empty record; each write takes delay.
func NewStore(delay time.Duration) *Store {
	return &Store{delay: delay, text: []byte("{}"), changed: map[int]func(){}}
}

// Load returns the record and its version.
func (s *Store) Load() (v1.MySQLTopologyStatus, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rec v1.MySQLTopologyStatus
	if err := json.Unmarshal(s.text, &rec); err != nil {
		panic(fmt.Sprintf("the store's own text: %v", err)) // It was made by Marshal of the same type.
	}
	return rec, s.version
}

// Update replaces the record if its version is still the given one. A writer that ends in the middle does not learn whether
// it was written.
func (s *Store) Update(ctx context.Context, version int, rec v1.MySQLTopologyStatus) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	if err := pause(ctx, s.delay/2); err != nil {
		return err
	}
	if err := s.swap(version, rec, text); err != nil {
		return err
	}
	return pause(ctx, s.delay/2)
}

func (s *Store) swap(version int, rec v1.MySQLTopologyStatus, text []byte) error {
	before, _ := s.Load()
	s.mu.Lock()
	if s.version != version {
		s.mu.Unlock()
		return errConflict
	}
	// The rules of the object's schema: INV-3, INV-4.
	if rec.Epoch < before.Epoch || before.Quorum != nil && (rec.Quorum == nil || rec.Quorum.Generation < before.Quorum.Generation) {
		s.mu.Unlock()
		return fmt.Errorf("record of epoch %d after %d: epochs and generations may not fall", rec.Epoch, before.Epoch)
	}
	s.text = text
	s.version++
	var tell []func()
	for _, f := range s.changed {
		tell = append(tell, f)
	}
	s.mu.Unlock()
	for _, f := range tell {
		f()
	}
	return nil
}

// watch calls f after each change, until the returned function is called. f must not block.
func (s *Store) watch(f func()) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.next
	s.next++
	s.changed[id] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.changed, id)
	}
}

// Service is the instance that clients reach; empty: none.
func (s *Store) Service() string {
	rec, _ := s.Load()
	if !rec.Routed {
		return ""
	}
	return rec.Primary
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
