package chaos

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

func TestCheckFindsLostAndDoubledWrites(t *testing.T) {
	w := written{table: "t", acked: []int64{1, 2, 3}}
	if err := w.compare([]row{{1, 3}, {2, 1}, {3, 2}, {4, 9}}); err != nil {
		t.Errorf("everything acknowledged is there, and one more: %v", err)
	}
	var lost *LostError
	err := w.compare([]row{{1, 1}})
	if !errors.As(err, &lost) || lost.Count != 2 || lost.First != 2 {
		t.Errorf("two are lost: %v", err)
	}
	err = w.compare([]row{{1, 1}, {2, 2}, {3, 3}, {4, 2}, {5, 2}})
	if err == nil || !strings.Contains(err.Error(), "1 ids are there twice, the first is 2") {
		t.Errorf("one is there three times: %v", err)
	}
}

func TestLongestGap(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	var acks []Ack
	for _, ms := range []int{0, 10, 510, 520} {
		acks = append(acks, Ack{Acked: at.Add(time.Duration(ms) * time.Millisecond)})
	}
	if got := longestGap(acks); got != 500*time.Millisecond {
		t.Errorf("longest gap %s, want 500ms", got)
	}
	if got := longestGap(nil); got != 0 {
		t.Errorf("longest gap of nothing %s", got)
	}
}

func TestStoreComparesAndSwaps(t *testing.T) {
	s := NewStore(0)
	changes := 0
	defer s.watch(func() { changes++ })()
	_, version := s.Load()
	if err := s.Update(t.Context(), version, v1.MySQLTopologyStatus{Epoch: 2, Primary: "db-0"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), version, v1.MySQLTopologyStatus{Epoch: 3}); !errors.Is(err, errConflict) {
		t.Errorf("the slower of two writers: %v", err)
	}
	rec, version := s.Load()
	if rec.Epoch != 2 || rec.Primary != "db-0" || changes != 1 {
		t.Errorf("record %+v after %d changes", rec, changes)
	}
	if err := s.Update(t.Context(), version, v1.MySQLTopologyStatus{Epoch: 1}); err == nil {
		t.Error("an epoch fell")
	}
	if got := s.Service(); got != "" {
		t.Errorf("%s is reached before anybody is let in", got)
	}
	rec.Routed = true
	if err := s.Update(t.Context(), version, rec); err != nil || s.Service() != "db-0" {
		t.Errorf("routed: %v, %q", err, s.Service())
	}
}

func TestStoreKeepsTheRecordOfAWriterThatEnds(t *testing.T) {
	s := NewStore(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Update(ctx, 0, v1.MySQLTopologyStatus{Epoch: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a writer that ended before it wrote: %v", err)
	}
	if rec, _ := s.Load(); rec.Epoch != 0 {
		t.Errorf("epoch %d was written all the same", rec.Epoch)
	}
}

func TestFaultsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range faults(true) {
		if seen[f.kind] {
			t.Errorf("%s is there twice", f.kind)
		}
		seen[f.kind] = true
	}
	if fewer := len(faults(false)); fewer >= len(seen) || fewer == 0 {
		t.Errorf("%d of %d faults need no cuts", fewer, len(seen))
	}
}

func TestSampling(t *testing.T) {
	var a awaiting
	now := time.Now()
	if due := a.due(now); due != nil {
		t.Errorf("nothing is awaited, and %v are due", due)
	}
	for n, want := range append(samplePauses, slowSample, slowSample) {
		if got := a.await("row", []string{"db-0"}); got != want {
			t.Errorf("pause %d is %s, want %s", n, got, want)
		}
		now = now.Add(want)
		if due := a.due(now); len(due) != 1 {
			t.Errorf("after pause %d %v are due", n, due)
		}
	}
	if got := a.await("another row", []string{"db-0"}); got != samplePauses[0] {
		t.Errorf("another row begins with a pause of %s", got)
	}
}
