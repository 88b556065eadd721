package binlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// ErrRefused marks what is in a binary log and lets nobody say which transactions it holds, or what may be cut off; all other
// errors are of reading.
var ErrRefused = errors.New("the binary log cannot be used")

func refusef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Types of events; see mysql/binlog/event/binlog_event.h of the server.
const (
	typeStop               = 3
	typeRotate             = 4
	typeFormatDescription  = 15
	typeXID                = 16
	typeGTID               = 33
	typeAnonymousGTID      = 34
	typePreviousGTIDs      = 35
	typeXAPrepare          = 38
	typeTransactionPayload = 40
	typeTaggedGTID         = 42
)

const (
	headerLength   = 19
	checksumLength = 4
	magicLength    = 4
	// flagInUse of a format description: the file was not closed by mysqld.
	flagInUse = 1
	// flagsAt is where an event's flags are, from its start.
	flagsAt = 17
	// maxBody bounds what is read into memory of one event. Only few types are; the largest, a set of GTIDs, has 16 bytes for each
	// interval.
	maxBody = 64 << 20
)

var (
	magic          = [magicLength]byte{0xfe, 'b', 'i', 'n'}
	magicEncrypted = [magicLength]byte{0xfd, 'b', 'i', 'n'}
)

// event is one event's place, and its body where that is of interest, without header and checksum.
type event struct {
	kind       byte
	flags      uint16
	start, end int64
	body       []byte
}

// reader reads events one after the other, and checks their checksums.
type reader struct {
	in   *bufio.Reader
	at   int64
	size int64
	// checksums says whether events end with one; known from the format description on.
	checksums bool
}

// newReader reads the file's magic number.
func newReader(file io.ReaderAt, size int64) (*reader, error) {
	r := &reader{in: bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 1<<18), size: size}
	if size < magicLength {
		return nil, refusef("it has %d bytes", size)
	}
	var found [magicLength]byte
	if _, err := io.ReadFull(r.in, found[:]); err != nil {
		return nil, fmt.Errorf("read the binary log's magic number: %w", err)
	}
	switch found {
	case magic:
	case magicEncrypted:
		return nil, refusef("it is encrypted")
	default:
		return nil, refusef("it begins with %x, not with %x", found, magic)
	}
	r.at = magicLength
	return r, nil
}

// next returns the next event, or nil at the file's end, where the last event may be incomplete: a crash came while it
// was written.
func (r *reader) next() (*event, error) {
	if r.size-r.at < headerLength {
		return nil, nil
	}
	header := make([]byte, headerLength)
	if _, err := io.ReadFull(r.in, header); err != nil {
		return nil, fmt.Errorf("read the binary log at %d: %w", r.at, err)
	}
	e := &event{kind: header[4], flags: binary.LittleEndian.Uint16(header[flagsAt:]), start: r.at}
	length := int64(binary.LittleEndian.Uint32(header[9:]))
	if length < headerLength+r.checksumLength() {
		return nil, refusef("the event at %d has a length of %d", e.start, length)
	}
	e.end = e.start + length
	if e.end > r.size {
		return nil, nil
	}
	if err := r.readBody(e, header); err != nil {
		return nil, err
	}
	r.at = e.end
	return e, nil
}

func (r *reader) checksumLength() int64 {
	if r.checksums {
		return checksumLength
	}
	return 0
}

// readBody reads what follows the header, into memory where it is of interest, and checks the checksum.
func (r *reader) readBody(e *event, header []byte) error {
	length := e.end - e.start - headerLength
	if e.kind == typeFormatDescription {
		return r.readFormat(e, header, length)
	}
	sum := crc32.NewIEEE()
	_, _ = sum.Write(header)
	length -= r.checksumLength()
	switch e.kind {
	case typeGTID, typeTaggedGTID, typePreviousGTIDs:
		if length > maxBody {
			return refusef("the event at %d has a length of %d; at most %d is read", e.start, length, maxBody)
		}
		e.body = make([]byte, length)
		if _, err := io.ReadFull(r.in, e.body); err != nil {
			return fmt.Errorf("read the binary log at %d: %w", e.start, err)
		}
		_, _ = sum.Write(e.body)
	default:
		if _, err := io.CopyN(sum, r.in, length); err != nil {
			return fmt.Errorf("read the binary log at %d: %w", e.start, err)
		}
	}
	if !r.checksums {
		return nil
	}
	return r.compare(e, sum.Sum32())
}

func (r *reader) compare(e *event, computed uint32) error {
	var written [checksumLength]byte
	if _, err := io.ReadFull(r.in, written[:]); err != nil {
		return fmt.Errorf("read the binary log at %d: %w", e.start, err)
	}
	if binary.LittleEndian.Uint32(written[:]) != computed {
		return refusef("the checksum of the event at %d is wrong", e.start)
	}
	return nil
}

// What a format description of version 4 consists of: version (2 bytes), server version (50), creation time (4), header
// length (1), a length for each type, checksum algorithm (1), and a checksum in any case.
const (
	formatHeaderLengthAt = 56
	formatLeast          = formatHeaderLengthAt + 1 + 1 + checksumLength
	formatMost           = 1 << 10
)

func (r *reader) readFormat(e *event, header []byte, length int64) error {
	if length < formatLeast || length > formatMost {
		return refusef("the format description at %d has a length of %d", e.start, length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r.in, body); err != nil {
		return fmt.Errorf("read the format description: %w", err)
	}
	content, written := body[:length-checksumLength], body[length-checksumLength:]
	if v := binary.LittleEndian.Uint16(content); v != 4 || content[formatHeaderLengthAt] != headerLength {
		return refusef("its format has version %d and event headers of %d bytes", v, content[formatHeaderLengthAt])
	}
	algorithm := content[len(content)-1]
	if algorithm > 1 {
		return refusef("the checksum algorithm %d is not known", algorithm)
	}
	r.checksums = algorithm == 1
	if !r.checksums {
		return nil
	}
	// mysqld marks the file as in use without a new checksum.
	unmarked := append([]byte(nil), header...)
	unmarked[flagsAt] &^= flagInUse
	sum := crc32.NewIEEE()
	_, _ = sum.Write(unmarked)
	_, _ = sum.Write(content)
	if binary.LittleEndian.Uint32(written) != sum.Sum32() {
		return refusef("the checksum of the format description is wrong")
	}
	return nil
}
