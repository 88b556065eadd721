package binlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// Tail is the end of a binary log file that is no part of the promoted set.
type Tail struct {
	// Offset is where the tail begins: the length to which the file is to be truncated. 0: there is no tail.
	Offset int64
	// End is where its last whole event ends. What follows was not written to its end.
	End int64
	// GTIDs are its transactions.
	GTIDs gtid.Set
	// headerEnd is where format description and previous GTIDs end.
	headerEnd int64
}

// IsEmpty says that there is nothing to cut off.
func (t Tail) IsEmpty() bool { return t.Offset == 0 }

// FindTail looks in the last binary log file of a mysqld that crashed for the first transaction that is not in the
// promoted set. Nothing behind it may be in that set, and the file must be one that mysqld recovers from: else ErrRefused.
func FindTail(file io.ReaderAt, size int64, promoted gtid.Set) (Tail, error) {
	r, err := newReader(file, size)
	if err != nil {
		return Tail{}, err
	}
	inUse, err := readHead(r, promoted)
	if err != nil {
		return Tail{}, err
	}
	t := Tail{headerEnd: r.at}
	var found spans
	for {
		e, err := r.next()
		if err != nil {
			return Tail{}, err
		}
		if e == nil {
			break
		}
		if err := t.add(e, promoted, &found); err != nil {
			return Tail{}, err
		}
	}
	if t.IsEmpty() {
		return Tail{}, nil
	}
	if !inUse {
		return Tail{}, refusef("it was closed cleanly, so its transactions are committed; the first that was not promoted is at %d", t.Offset)
	}
	t.End = r.at
	if t.GTIDs, err = found.set(); err != nil {
		return Tail{}, err
	}
	return t, nil
}

// readHead reads format description and previous GTIDs, and says whether the file is marked as in use.
func readHead(r *reader, promoted gtid.Set) (inUse bool, err error) {
	format, err := r.next()
	if err != nil {
		return false, err
	}
	if format == nil || format.kind != typeFormatDescription {
		return false, refusef("it does not begin with a format description")
	}
	previous, err := r.next()
	if err != nil {
		return false, err
	}
	if previous == nil || previous.kind != typePreviousGTIDs {
		return false, refusef("it does not say which transactions are in the files before it")
	}
	set, err := parsePreviousGTIDs(previous.body)
	if err != nil {
		return false, refusef("the previous GTIDs: %v", err)
	}
	// A cut of this file alone would not help, and a promoted set that is wrong altogether is seen here.
	if extra := set.Subtract(promoted); !extra.IsEmpty() {
		return false, refusef("the files before it hold %d transactions that were not promoted", extra.Count())
	}
	return format.flags&flagInUse != 0, nil
}

// add looks at one event behind the head.
func (t *Tail) add(e *event, promoted gtid.Set, found *spans) error {
	var tx transaction
	var err error
	switch e.kind {
	case typeGTID:
		tx, err = parseGTID(e.body)
	case typeTaggedGTID:
		tx, err = parseTaggedGTID(e.body)
	case typeAnonymousGTID:
		return refusef("the transaction at %d has no GTID", e.start)
	case typeFormatDescription, typePreviousGTIDs:
		return refusef("a second head is at %d", e.start)
	default:
		return nil
	}
	if err != nil {
		return refusef("the GTID at %d: %v", e.start, err)
	}
	switch in := tx.in(promoted); {
	case in && !t.IsEmpty():
		return refusef("%s at %d was promoted, though a transaction before it, at %d, was not", tx, e.start, t.Offset)
	case in:
		return nil
	case t.IsEmpty():
		t.Offset = e.start
	}
	found.add(tx)
	return nil
}

// spans joins transactions that follow each other, so that a long tail is a short text.
type spans struct {
	text        strings.Builder
	first, last transaction
}

func (s *spans) add(tx transaction) {
	next := s.last
	next.number++
	if s.first.number != 0 && next == tx {
		s.last = tx
		return
	}
	s.flush()
	s.first, s.last = tx, tx
}

func (s *spans) flush() {
	if s.first.number != 0 {
		fmt.Fprintf(&s.text, "%s-%d,", s.first, s.last.number)
	}
}

func (s *spans) set() (gtid.Set, error) {
	s.flush()
	return parseSet(s.text.String())
}

// WriteTail writes the tail as a file of its own that mysqlbinlog reads: the original's head, no longer marked as in use,
// then the tail's events as they are (so their positions are those in the original).
func WriteTail(to io.Writer, file io.ReaderAt, t Tail) error {
	head := make([]byte, t.headerEnd)
	if _, err := file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("read the binary log's head: %w", err)
	}
	head[magicLength+flagsAt] &^= flagInUse
	if _, err := to.Write(head); err != nil {
		return fmt.Errorf("write the tail: %w", err)
	}
	if _, err := io.Copy(to, io.NewSectionReader(file, t.Offset, t.End-t.Offset)); err != nil {
		return fmt.Errorf("copy the tail: %w", err)
	}
	return nil
}

// LastFile returns the path of the newest binary log file by the index that mysqld keeps of them; ErrRefused: it names none.
func LastFile(dataDir, baseName string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dataDir, baseName+".index"))
	if errors.Is(err, os.ErrNotExist) {
		return "", refusef("mysqld keeps no index of binary logs, %s.index", baseName)
	}
	if err != nil {
		return "", fmt.Errorf("read the index of binary logs: %w", err)
	}
	lines := strings.Fields(string(text))
	if len(lines) == 0 {
		return "", refusef("the index of binary logs is empty")
	}
	name := filepath.Base(lines[len(lines)-1])
	if !strings.HasPrefix(name, baseName+".") {
		return "", refusef("the index of binary logs ends with %q", name)
	}
	return filepath.Join(dataDir, name), nil
}
