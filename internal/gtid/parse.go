package gtid

import (
	"fmt"
	"strings"
)

const (
	// MaxText is the longest text, in bytes, that Parse reads: 8 MiB. A set of a million bytes is already far outside
	// what a healthy cluster has (10,000 gaps take about 120 kB).
	MaxText = 8 << 20
	// MaxIntervals is the largest number of intervals that Parse reads from one text, counted as they are written, before
	// overlapping ones are joined. With MaxText it bounds what hostile text can make Parse allocate: 64 MiB.
	MaxIntervals = 1 << 18
	// MaxTag is the length of the longest tag, in characters.
	MaxTag = 32
	// MaxNumber is the largest number of a GTID: 2^63-2.
	MaxNumber int64 = 1<<63 - 2
)

const excerptBytes = 24

// SyntaxError says where a text stops being a GTID set (or a UUID), and what is allowed there.
type SyntaxError struct {
	// Offset is the position in the text, in bytes from 0.
	Offset int
	// Found is the start of what stands there; empty at the end of the text.
	Found string
	// Want says what is allowed at Offset.
	Want string
}

// Error names the position, what stands there and what is allowed.
func (e *SyntaxError) Error() string {
	if e.Found == "" {
		return fmt.Sprintf("at byte %d: text ends; allowed here: %s", e.Offset, e.Want)
	}
	return fmt.Sprintf("at byte %d: found %q; allowed here: %s", e.Offset, e.Found, e.Want)
}

// excerpt returns enough of s at offset to recognise the place; never the whole of it, for errors end up in events.
func excerpt(s string, offset int) string {
	s = s[min(offset, len(s)):]
	return s[:min(len(s), excerptBytes)]
}

// Parse reads a GTID set in every form that the GTID functions of mysqld 9.7 take, and joins it into canonical form: white
// space between tokens, UUIDs undashed, upper case or within braces, UUIDs and tags repeated, intervals in any order or
// overlapping, empty intervals (5-3), more commas than needed, UUIDs and tags without intervals. A tag holds until the
// next tag or UUID. Errors wrap a *SyntaxError. Text beyond MaxText or MaxIntervals is refused.
//
// It is stricter than the server in two places where following it would be guessing: numbers with leading zeros (9.7.4
// reads 010 as 10 in GTID_SUBTRACT and as 8 in SET gtid_purged), and tags with bytes above 127 (9.7.4 garbles them).
// Never hand the text itself to the server: SET gtid_purged and WAIT_FOR_EXECUTED_GTID_SET refuse undashed UUIDs. String
// is understood everywhere.
func Parse(s string) (Set, error) {
	if len(s) > MaxText {
		return Set{}, fmt.Errorf("parse GTID set: text has %d bytes; at most %d are allowed", len(s), MaxText)
	}
	p := parser{text: s, spans: make([]span, 0, min(strings.Count(s, ":"), MaxIntervals))}
	if err := p.set(); err != nil {
		return Set{}, fmt.Errorf("parse GTID set: %w", err)
	}
	return normalize(p.spans), nil
}

// MustParse is Parse for texts that are constant, as in tests: it panics on an error.
func MustParse(s string) Set {
	set, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return set
}

// parser reads set := ","* (uuidset (","+ uuidset)*)? ","* where uuidset := uuid (":" (tag | interval))*, with white
// space around every token.
type parser struct {
	text  string
	pos   int
	spans []span
}

func (p *parser) set() error {
	for {
		p.skipSpace()
		for p.at(',') {
			p.pos++
			p.skipSpace()
		}
		if p.pos == len(p.text) {
			return nil
		}
		if err := p.uuidSet(); err != nil {
			return err
		}
		if p.pos < len(p.text) && !p.at(',') {
			return p.fail(p.pos, `":" and a tag or an interval, "," and the next UUID, or the end`)
		}
	}
}

func (p *parser) uuidSet() error {
	uuid, n, ok := scanUUID(p.text[p.pos:])
	p.pos += n
	if !ok {
		return p.fail(p.pos, uuidFormats)
	}
	key := key{uuid: uuid}
	p.skipSpace()
	for p.at(':') {
		p.pos++
		p.skipSpace()
		var err error
		switch {
		case p.pos < len(p.text) && isTagStart(p.text[p.pos]):
			key.tag, err = p.tag()
		case p.pos < len(p.text) && isDigit(p.text[p.pos]):
			err = p.interval(key)
		default:
			err = p.fail(p.pos, "a tag (a letter or _ first) or an interval (N or N-N)")
		}
		if err != nil {
			return err
		}
		p.skipSpace()
	}
	return nil
}

func (p *parser) tag() (string, error) {
	start := p.pos
	for p.pos < len(p.text) && isTagPart(p.text[p.pos]) {
		p.pos++
	}
	if p.pos-start > MaxTag {
		return "", p.fail(start, fmt.Sprintf("a tag of at most %d characters (letters, digits, _), this one has %d",
			MaxTag, p.pos-start))
	}
	// A copy, so that a set does not hold on to the whole text that it was read from.
	lower := make([]byte, 0, MaxTag)
	for _, c := range []byte(p.text[start:p.pos]) {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower = append(lower, c)
	}
	return string(lower), nil
}

func (p *parser) interval(k key) error {
	at := p.pos
	first, err := p.number(1)
	if err != nil {
		return err
	}
	last := first
	p.skipSpace()
	if p.at('-') {
		p.pos++
		p.skipSpace()
		if last, err = p.number(0); err != nil {
			return err
		}
	}
	if last < first {
		return nil
	}
	if len(p.spans) == MaxIntervals {
		return p.fail(at, fmt.Sprintf("no more than %d intervals in one set", MaxIntervals))
	}
	p.spans = append(p.spans, span{key: k, interval: interval{first, last + 1}})
	return nil
}

const noLeadingZero = "a number without leading zeros, which the server reads as octal or decimal depending on the statement"

// number reads a decimal number from least to MaxNumber.
func (p *parser) number(least int64) (int64, error) {
	start := p.pos
	var n int64
	inRange := true
	for p.pos < len(p.text) && isDigit(p.text[p.pos]) {
		digit := int64(p.text[p.pos] - '0')
		if n > (MaxNumber-digit)/10 {
			inRange = false
		} else {
			n = n*10 + digit
		}
		p.pos++
	}
	if p.pos-start > 1 && p.text[start] == '0' {
		return 0, p.fail(start, noLeadingZero)
	}
	if p.pos == start || !inRange || n < least {
		return 0, p.fail(start, fmt.Sprintf("a number from %d to %d", least, MaxNumber))
	}
	return n, nil
}

func (p *parser) fail(offset int, want string) error {
	return &SyntaxError{Offset: offset, Found: excerpt(p.text, offset), Want: want}
}

func (p *parser) at(c byte) bool {
	return p.pos < len(p.text) && p.text[p.pos] == c
}

func (p *parser) skipSpace() {
	for p.pos < len(p.text) && (p.text[p.pos] == ' ' || '\t' <= p.text[p.pos] && p.text[p.pos] <= '\r') {
		p.pos++
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isTagStart(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isTagPart(c byte) bool { return isTagStart(c) || isDigit(c) }
