package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

const (
	uuidLength = 16
	// maxTag is the longest tag of a GTID.
	maxTag = 32
	// lastNumber is the highest number that a transaction can have.
	lastNumber = 1<<63 - 2
)

// transaction is a GTID as an event names it.
type transaction struct {
	uuid   gtid.UUID
	tag    string
	number int64
}

func (t transaction) in(s gtid.Set) bool { return s.ContainsGTID(t.uuid, t.tag, t.number) }

func (t transaction) String() string {
	if t.tag == "" {
		return fmt.Sprintf("%s:%d", t.uuid, t.number)
	}
	return fmt.Sprintf("%s:%s:%d", t.uuid, t.tag, t.number)
}

var errShort = errors.New("it ends too early")

// parseGTID reads the body of an event of type 33: flags (1 byte), UUID (16), number (8), and what is not of interest here.
func parseGTID(body []byte) (transaction, error) {
	if len(body) < 1+uuidLength+8 {
		return transaction{}, errShort
	}
	var t transaction
	copy(t.uuid[:], body[1:])
	n := binary.LittleEndian.Uint64(body[1+uuidLength:])
	if n < 1 || n > lastNumber {
		return transaction{}, fmt.Errorf("the transaction's number is %d", n)
	}
	t.number = int64(n)
	return t, nil
}

// What follows the number in an event of type 33: a mark that logical timestamps are there (1 byte), two of them (8 each), the
// time of the commit (7), whose highest bit says that the time of the original commit (7) follows, and the length of the whole
// transaction.
const (
	timestampsMark   = 2
	timestampsLength = 2 * 8
	timeLength       = 7
)

// lengthOfGTID returns how long an event of type 33 says that its transaction is, itself included; 0: it does not say.
func lengthOfGTID(body []byte) int64 {
	d := decoder{rest: body}
	d.take(1 + uuidLength + 8)
	if mark := d.take(1); len(mark) != 1 || mark[0] != timestampsMark {
		return 0
	}
	d.take(timestampsLength)
	if at := d.take(timeLength); len(at) == timeLength && at[timeLength-1]&0x80 != 0 {
		d.take(timeLength)
	}
	first := d.take(1)
	if first == nil {
		return 0
	}
	var width int
	switch first[0] {
	default:
		return int64(first[0])
	case 251, 255:
		return 0
	case 252:
		width = 2
	case 253:
		width = 3
	case 254:
		width = 8
	}
	var wide [8]byte
	copy(wide[:], d.take(width))
	return asLength(binary.LittleEndian.Uint64(wide[:]), d.err)
}

func asLength(n uint64, err error) int64 {
	if err != nil || n > math.MaxInt64 {
		return 0
	}
	return int64(n)
}

// Fields of an event of type 42.
const (
	fieldFlags = iota
	fieldUUID
	fieldNumber
	fieldTag
	fieldLastCommitted
	fieldSequence
	fieldCommitted
	fieldOriginallyCommitted
	fieldLength
)

// lengthOfTaggedGTID is lengthOfGTID for an event of type 42.
func lengthOfTaggedGTID(body []byte) int64 {
	d := decoder{rest: body}
	for range 3 { // version, length, last field that must be known
		d.integer()
	}
	for d.err == nil {
		switch field := d.integer(); field {
		case fieldUUID:
			for range uuidLength {
				d.integer()
			}
		case fieldTag:
			d.tag()
		case fieldLength:
			return asLength(d.integer(), d.err)
		case fieldFlags, fieldNumber, fieldLastCommitted, fieldSequence, fieldCommitted, fieldOriginallyCommitted:
			d.integer()
		default:
			return 0
		}
	}
	return 0
}

// parseTaggedGTID reads the body of an event of type 42, in the server's serialization format (libs/mysql/serialization):
// version, length and last field that a reader must know, then fields by ascending number, integers in variable length.
func parseTaggedGTID(body []byte) (transaction, error) {
	d := decoder{rest: body}
	if version := d.integer(); d.err == nil && version != 1 {
		return transaction{}, fmt.Errorf("its serialization has version %d", version)
	}
	d.integer() // length
	d.integer() // last field that must be known
	var t transaction
	d.field(fieldFlags)
	d.integer()
	d.field(fieldUUID)
	for i := range t.uuid {
		b := d.integer()
		if b > 255 {
			return transaction{}, fmt.Errorf("byte %d of the UUID is %d", i, b)
		}
		t.uuid[i] = byte(b)
	}
	d.field(fieldNumber)
	n := d.integer()
	d.field(fieldTag)
	t.tag = d.tag()
	if d.err != nil {
		return transaction{}, d.err
	}
	// The number is signed; the lowest bit is the sign.
	if n&1 != 0 || n>>1 < 1 || n>>1 > lastNumber {
		return transaction{}, fmt.Errorf("the transaction's number is written as %d", n)
	}
	t.number = int64(n >> 1)
	return t, nil
}

// What an event of type 35 says of its set in the first byte.
const (
	formatUntagged = 0
	formatTagged   = 1
)

// parsePreviousGTIDs reads the body of an event of type 35: the number of UUIDs (with tags: in the middle six of the eight
// bytes), then for each its UUID, with tags its tag, the number of intervals, and each interval's start and end, the end
// excluded.
func parsePreviousGTIDs(body []byte) (gtid.Set, error) {
	d := decoder{rest: body}
	head := d.fixed()
	count, format := head, head>>56
	switch format {
	case formatUntagged:
	case formatTagged:
		count = head << 8 >> 16
	default:
		return gtid.Set{}, fmt.Errorf("the set's format is %d", format)
	}
	var text strings.Builder
	for range count {
		uuid := d.uuid()
		tag := ""
		if format == formatTagged {
			tag = d.tag()
		}
		intervals := d.fixed()
		for range intervals {
			start, end := d.fixed(), d.fixed()
			if d.err != nil {
				return gtid.Set{}, d.err
			}
			if start < 1 || end <= start || end > lastNumber+1 {
				return gtid.Set{}, fmt.Errorf("the set has an interval from %d to before %d", start, end)
			}
			first := transaction{uuid: uuid, tag: tag, number: int64(start)}
			fmt.Fprintf(&text, "%s-%d,", first, end-1)
		}
		if d.err != nil {
			return gtid.Set{}, d.err
		}
	}
	if d.err != nil {
		return gtid.Set{}, d.err
	}
	if len(d.rest) != 0 {
		return gtid.Set{}, fmt.Errorf("%d bytes follow the set", len(d.rest))
	}
	return parseSet(text.String())
}

func parseSet(text string) (gtid.Set, error) {
	set, err := gtid.Parse(strings.TrimSuffix(text, ","))
	if err != nil {
		return gtid.Set{}, fmt.Errorf("the set of transactions: %w", err)
	}
	return set, nil
}

// decoder takes values from the front; after the first failure they are all zero.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) take(n int) []byte {
	if d.err == nil && len(d.rest) < n {
		d.err = errShort
	}
	if d.err != nil {
		return nil
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

// fixed takes eight bytes.
func (d *decoder) fixed() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// integer takes an integer of variable length: the ones at the low end of the first byte count the bytes that follow.
func (d *decoder) integer() uint64 {
	first := d.take(1)
	if first == nil {
		return 0
	}
	more := bits.TrailingZeros8(^first[0])
	rest := d.take(more)
	if d.err != nil {
		return 0
	}
	var wide [8]byte
	copy(wide[:], rest)
	value := binary.LittleEndian.Uint64(wide[:])
	if more >= 7 {
		return value // the first byte holds nothing but the count
	}
	return value<<(7-more) | uint64(first[0]>>(more+1))
}

// field takes a field's number, which must be the given one.
func (d *decoder) field(want uint64) {
	if got := d.integer(); d.err == nil && got != want {
		d.err = fmt.Errorf("field %d is where field %d should be", got, want)
	}
}

func (d *decoder) uuid() (u gtid.UUID) {
	copy(u[:], d.take(uuidLength))
	return u
}

// tag takes a length and as many characters.
func (d *decoder) tag() string {
	n := d.integer()
	if d.err == nil && n > maxTag {
		d.err = fmt.Errorf("a tag has %d characters", n)
	}
	if d.err != nil {
		return ""
	}
	text := string(d.take(int(n)))
	for i, c := range []byte(text) {
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			d.err = fmt.Errorf("%q is no tag", text)
			return ""
		}
	}
	return text
}
