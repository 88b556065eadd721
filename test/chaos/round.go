package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Run is a number of rounds on one world.
type Run struct {
	World *World
	Seed  uint64
	// Print gets a line for each round.
	Print func(string)
	// Network says whether ports may be cut.
	Network bool
	// Writers per round.
	Writers int

	ids    atomic.Int64
	kept   []written
	counts map[string]int
	rounds int
	acked  int
	lost   int
	gaps   []time.Duration
}

// keptTables is how many rounds' tables are checked again after later rounds.
const keptTables = 3

// Round breaks, heals and checks once. What breaks depends on seed and number alone.
func (r *Run) Round(ctx context.Context, number int) error {
	w := r.World
	rng := rand.New(rand.NewPCG(r.Seed, uint64(number)))
	list := faults(r.Network)
	var chosen []fault
	for range 1 + rng.IntN(3) {
		chosen = append(chosen, list[rng.IntN(len(list))])
	}
	w.Say("round %d of seed %d: %s", number, r.Seed, kinds(chosen))
	if err := w.AwaitHealthy(ctx); err != nil {
		return fmt.Errorf("round %d, before it: %w", number, err)
	}
	table := fmt.Sprintf("round_%d", number)
	writers, err := w.StartWriters(ctx, table, &r.ids, WriterOptions{Writers: r.Writers, Dial: time.Second, IO: 10 * time.Second, Pause: 2 * time.Millisecond})
	if err != nil {
		return fmt.Errorf("round %d: %w", number, err)
	}
	defer writers.Stop()
	healed, err := r.breakAndHeal(ctx, writers, rng, chosen)
	if err == nil {
		err = r.settle(ctx, writers, healed)
	}
	writers.Stop()
	acks := writers.Acks()
	r.count(chosen, acks)
	if err != nil {
		return fmt.Errorf("round %d (%s): %w", number, kinds(chosen), err)
	}
	took := time.Since(healed)
	if err := r.check(ctx, writers.written()); err != nil {
		return fmt.Errorf("round %d (%s): %w", number, kinds(chosen), err)
	}
	r.Print(fmt.Sprintf("round %3d: %-60s %6d acknowledged, none lost; longest gap %7s; healthy %7s after healing", number, kinds(chosen), len(acks),
		longestGap(acks).Round(time.Millisecond), took.Round(time.Millisecond)))
	return nil
}

func kinds(list []fault) string {
	var out []string
	for _, f := range list {
		out = append(out, f.kind)
	}
	return strings.Join(out, " + ")
}

// breakAndHeal lets the faults happen one after another, overlapping, and heals them all. It returns when that was done.
func (r *Run) breakAndHeal(ctx context.Context, writers *Writers, rng *rand.Rand, chosen []fault) (time.Time, error) {
	f := &faultScope{ctx: ctx, world: r.World, writers: writers, rng: rng}
	// The first fault meets writers that write.
	_, err := writers.FirstAfter(ctx, time.Now())
	for _, one := range chosen {
		if err == nil {
			r.World.Say("%s", one.kind)
			err = one.do(f)
		}
		if err == nil {
			err = f.wait(time.Second)
		}
	}
	if err == nil {
		err = f.wait(5 * time.Second)
	}
	errs := []error{err}
	for _, heal := range slices.Backward(slices.Concat(f.heal, f.unblock)) {
		errs = append(errs, heal())
		if err := f.wait(300 * time.Millisecond); err != nil {
			errs = append(errs, err)
		}
	}
	if len(r.World.Lanes()) == 0 {
		r.World.StartLane()
	}
	r.World.Say("healed")
	return time.Now(), errors.Join(errs...)
}

// settle waits until all is well and clients can write again.
func (r *Run) settle(ctx context.Context, writers *Writers, healed time.Time) error {
	if _, err := writers.FirstAfter(ctx, healed); err != nil {
		return fmt.Errorf("after healing: %w", err)
	}
	if err := r.World.AwaitHealthy(ctx); err != nil {
		return fmt.Errorf("after healing: %w", err)
	}
	return nil
}

// check reads this round's table and those of the last ones; the oldest is dropped.
func (r *Run) check(ctx context.Context, t written) error {
	r.kept = append(r.kept, t)
	if err := r.World.Check(ctx, r.kept...); err != nil {
		var lost *LostError
		if errors.As(err, &lost) {
			r.lost += lost.Count
		}
		return err
	}
	if len(r.kept) <= keptTables {
		return nil
	}
	old := r.kept[0].table
	r.kept = r.kept[1:]
	return r.World.drop(ctx, old)
}

func (r *Run) count(chosen []fault, acks []Ack) {
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	for _, f := range chosen {
		r.counts[f.kind]++
	}
	r.rounds++
	r.acked += len(acks)
	r.gaps = append(r.gaps, longestGap(acks))
}

// Summary is the last line of a run.
func (r *Run) Summary() string {
	var byKind []string
	for _, kind := range slices.Sorted(maps.Keys(r.counts)) {
		byKind = append(byKind, fmt.Sprintf("%s %d", kind, r.counts[kind]))
	}
	gaps := slices.Sorted(slices.Values(r.gaps))
	median, longest := time.Duration(0), time.Duration(0)
	if n := len(gaps); n > 0 {
		median, longest = gaps[n/2], gaps[n-1]
	}
	return fmt.Sprintf("chaos: seed %d, rounds %d, faults: %s; acknowledged writes %d, lost %d; longest gap of a round: median %s, max %s",
		r.Seed, r.rounds, strings.Join(byKind, ", "), r.acked, r.lost, median.Round(time.Millisecond), longest.Round(time.Millisecond))
}
