package binlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

const (
	// maxRanges bounds the memory that a search takes: 16 bytes for each run of wanted transactions.
	maxRanges = 1 << 20
	// spansAtOnce is how many runs of transactions are collected as text before they are joined to a set.
	spansAtOnce = 1 << 12
)

// Files returns the paths of all binary log files in a data directory, the oldest first. Not by the index: a file that
// mysqld was about to delete when it was killed still holds transactions.
func Files(dataDir, baseName string) ([]string, error) {
	entries, err := os.ReadDir(dataDir)
	if err != nil {
		return nil, fmt.Errorf("look for binary logs: %w", err)
	}
	type numbered struct {
		number uint64
		name   string
	}
	var found []numbered
	for _, e := range entries {
		digits, is := strings.CutPrefix(e.Name(), baseName+".")
		if n, err := strconv.ParseUint(digits, 10, 64); is && err == nil && e.Type().IsRegular() {
			found = append(found, numbered{n, e.Name()})
		}
	}
	slices.SortFunc(found, func(x, y numbered) int {
		return cmp.Or(cmp.Compare(x.number, y.number), strings.Compare(x.name, y.name))
	})
	paths := make([]string, 0, len(found))
	for _, f := range found {
		paths = append(paths, filepath.Join(dataDir, f.name))
	}
	return paths, nil
}

// Findings are wanted transactions in binary log files.
type Findings struct {
	// GTIDs are the wanted ones that are there, each to its end.
	GTIDs gtid.Set
	// Before are those that the oldest file says to be in files before it, which are purged.
	Before gtid.Set
	// Held are all transactions that the files hold or say to be in files before them: what their server had executed.
	Held   gtid.Set
	pieces []piece
}

// source is a file; fuzzing has them in memory.
type source struct {
	name string
	open func() (file io.ReaderAt, size int64, done func(), err error)
}

func sourceOf(path string) source {
	return source{name: filepath.Base(path), open: func() (io.ReaderAt, int64, func(), error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, 0, nil, fmt.Errorf("open a binary log: %w", err)
		}
		done := func() { _ = file.Close() }
		info, err := file.Stat()
		if err != nil {
			done()
			return nil, 0, nil, fmt.Errorf("look at a binary log: %w", err)
		}
		return file, info.Size(), done, nil
	}}
}

// piece is where wanted transactions are in one file.
type piece struct {
	index     int
	source    source
	formatEnd int64
	ranges    []span
}

type span struct{ start, end int64 }

// Search looks for transactions in the binary log files of a mysqld that does not run, given the oldest first. A file is
// read from its beginning to its end only where it can hold some: the next one's head tells what it holds. What a crash cut
// short is not found. Whatever cannot be understood, as an encrypted file, is ErrRefused.
func Search(ctx context.Context, paths []string, want gtid.Set) (*Findings, error) {
	sources := make([]source, 0, len(paths))
	for _, path := range paths {
		sources = append(sources, sourceOf(path))
	}
	return searchIn(ctx, sources, want)
}

func searchIn(ctx context.Context, sources []source, want gtid.Set) (*Findings, error) {
	if len(sources) == 0 {
		return nil, refusef("there is none")
	}
	f := &Findings{}
	var left []int
	before, err := previousOf(sources[0])
	if err != nil {
		return nil, err
	}
	for i := range sources {
		var after *gtid.Set
		if i+1 < len(sources) {
			if after, err = previousOf(sources[i+1]); err != nil {
				return nil, err
			}
		}
		if before != nil {
			f.Held = f.Held.Union(*before)
		}
		if before != nil && i == 0 {
			f.Before = *before
		}
		if before != nil && after != nil && after.Subtract(*before).Intersect(want).IsEmpty() {
			left = append(left, i)
		} else if err := f.scan(ctx, i, sources[i], want); err != nil {
			return nil, err
		}
		before = after
	}
	// Heads that say less than the truth are no reason to miss something.
	for _, i := range left {
		if f.GTIDs.Contains(want) {
			break
		}
		if err := f.scan(ctx, i, sources[i], want); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.pieces, func(x, y piece) int { return cmp.Compare(x.index, y.index) })
	return f, nil
}

// previousOf returns what is in the files before this one by its head; nil: mysqld was killed before it had written that.
func previousOf(from source) (*gtid.Set, error) {
	var set *gtid.Set
	err := withReader(from, func(r *reader) (err error) {
		_, set, err = readSearchHead(r)
		return err
	})
	return set, err
}

// withReader opens a file; one that is too short for anything to be in it is not read. Errors name the file.
func withReader(from source, read func(*reader) error) error {
	file, size, done, err := from.open()
	if err != nil {
		return err
	}
	defer done()
	if size < magicLength {
		return nil
	}
	r, err := newReader(file, size)
	if err == nil {
		err = read(r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", from.name, err)
	}
	return nil
}

// readSearchHead reads format description and previous GTIDs; previous is nil where the file ends before.
func readSearchHead(r *reader) (formatEnd int64, previous *gtid.Set, err error) {
	format, err := r.next()
	if err != nil || format == nil {
		return 0, nil, err
	}
	if format.kind != typeFormatDescription {
		return 0, nil, refusef("it does not begin with a format description")
	}
	e, err := r.next()
	if err != nil || e == nil {
		return 0, nil, err
	}
	if e.kind != typePreviousGTIDs {
		return 0, nil, refusef("it does not say which transactions are in the files before it")
	}
	set, err := parsePreviousGTIDs(e.body)
	if err != nil {
		return 0, nil, refusef("the previous GTIDs: %v", err)
	}
	return format.end, &set, nil
}

// group is a transaction that is being read.
type group struct {
	tx         transaction
	start, end int64
	// length is what its first event says of its length; 0: nothing.
	length int64
	last   byte
}

// isWhole says of the last transaction of a file whether it was written to its end.
func (g group) isWhole() bool {
	if g.length > 0 {
		return g.end-g.start == g.length
	}
	return g.last == typeXID || g.last == typeXAPrepare || g.last == typeTransactionPayload
}

// collector makes a set of many transactions without holding all of their text.
type collector struct {
	spans spans
	count int
	all   gtid.Set
}

func (c *collector) add(tx transaction) error {
	c.spans.add(tx)
	if c.count++; c.count < spansAtOnce {
		return nil
	}
	return c.join()
}

func (c *collector) join() error {
	set, err := c.spans.set()
	if err != nil {
		return err
	}
	c.spans, c.count, c.all = spans{}, 0, c.all.Union(set)
	return nil
}

// search is the reading of one file.
type search struct {
	want        gtid.Set
	piece       piece
	held, found collector
	ranges      int
	group       *group
}

func (f *Findings) scan(ctx context.Context, index int, from source, want gtid.Set) error {
	s := &search{want: want, piece: piece{index: index, source: from}}
	for _, p := range f.pieces {
		s.ranges += len(p.ranges)
	}
	if err := withReader(from, func(r *reader) error { return s.read(ctx, r) }); err != nil {
		return err
	}
	if err := errors.Join(s.held.join(), s.found.join()); err != nil {
		return fmt.Errorf("%s: %w", from.name, err)
	}
	f.Held, f.GTIDs = f.Held.Union(s.held.all), f.GTIDs.Union(s.found.all)
	if len(s.piece.ranges) > 0 {
		f.pieces = append(f.pieces, s.piece)
	}
	return nil
}

func (s *search) read(ctx context.Context, r *reader) error {
	formatEnd, previous, err := readSearchHead(r)
	if err != nil || previous == nil {
		return err
	}
	s.piece.formatEnd = formatEnd
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.next()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		if err := s.add(e); err != nil {
			return err
		}
	}
	if s.group != nil && s.group.isWhole() {
		return s.endGroup()
	}
	return nil
}

// add looks at one event behind the head. mysqld writes a transaction at once, so one that something follows is whole.
func (s *search) add(e *event) error {
	switch e.kind {
	case typeFormatDescription, typePreviousGTIDs:
		return refusef("a second head is at %d", e.start)
	case typeAnonymousGTID:
		return refusef("the transaction at %d has no GTID", e.start)
	case typeGTID, typeTaggedGTID:
		if err := s.endGroup(); err != nil {
			return err
		}
		return s.beginGroup(e)
	case typeRotate, typeStop:
		return s.endGroup()
	}
	if s.group != nil {
		s.group.end, s.group.last = e.end, e.kind
	}
	return nil
}

func (s *search) beginGroup(e *event) error {
	parse, length := parseGTID, lengthOfGTID
	if e.kind == typeTaggedGTID {
		parse, length = parseTaggedGTID, lengthOfTaggedGTID
	}
	tx, err := parse(e.body)
	if err != nil {
		return refusef("the GTID at %d: %v", e.start, err)
	}
	s.group = &group{tx: tx, start: e.start, end: e.end, length: length(e.body), last: e.kind}
	return nil
}

// endGroup takes the transaction that has been read, if there is one.
func (s *search) endGroup() error {
	g := s.group
	s.group = nil
	if g == nil {
		return nil
	}
	if g.last == typeGTID || g.last == typeTaggedGTID {
		return refusef("the transaction at %d consists of its GTID alone", g.start)
	}
	if err := s.held.add(g.tx); err != nil {
		return err
	}
	if !g.tx.in(s.want) {
		return nil
	}
	if n := len(s.piece.ranges); n > 0 && s.piece.ranges[n-1].end == g.start {
		s.piece.ranges[n-1].end = g.end
		return s.found.add(g.tx)
	}
	if s.ranges++; s.ranges > maxRanges {
		return refusef("the wanted transactions are in more than %d places", maxRanges)
	}
	s.piece.ranges = append(s.piece.ranges, span{g.start, g.end})
	return s.found.add(g.tx)
}

// Write writes the transactions that were found as one file that mysqlbinlog reads: for each file that they are from its
// format description, no longer marked as in use, then their events as they are, so their positions are those in the
// original. The files must not have changed since the search.
func (f *Findings) Write(ctx context.Context, to io.Writer) error {
	if _, err := to.Write(magic[:]); err != nil {
		return fmt.Errorf("write the magic number: %w", err)
	}
	for _, p := range f.pieces {
		if err := p.write(ctx, to); err != nil {
			return fmt.Errorf("copy transactions of %s: %w", p.source.name, err)
		}
	}
	return nil
}

func (p piece) write(ctx context.Context, to io.Writer) error {
	file, _, done, err := p.source.open()
	if err != nil {
		return err
	}
	defer done()
	format := make([]byte, p.formatEnd-magicLength)
	if _, err := file.ReadAt(format, magicLength); err != nil {
		return err
	}
	format[flagsAt] &^= flagInUse
	if _, err := to.Write(format); err != nil {
		return err
	}
	for _, r := range p.ranges {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.Copy(to, io.NewSectionReader(file, r.start, r.end-r.start))
		if err != nil {
			return err
		}
		if n != r.end-r.start {
			return fmt.Errorf("it has become shorter: %w", io.ErrUnexpectedEOF)
		}
	}
	return nil
}
