package gtid

import (
	"bytes"
	"encoding/hex"
	"fmt"
)

// UUID identifies the server on which a transaction was first committed: the value of @@server_uuid there.
// The zero value is the nil UUID, which no server uses.
type UUID [16]byte

// uuidGroups are the lengths in bytes of the groups between the dashes of a printed UUID.
var uuidGroups = [...]int{4, 2, 2, 2, 6}

const uuidFormats = "a UUID of 32 hexadecimal digits, as 8-4-4-4-12 (also within braces) or without dashes"

// ParseUUID reads the forms that mysqld takes: dashed, dashed within braces, undashed; in either case.
// Nothing may stand before or after it, not even a space.
func ParseUUID(s string) (UUID, error) {
	u, n, ok := scanUUID(s)
	if !ok || n != len(s) {
		return UUID{}, fmt.Errorf("parse UUID: %w", &SyntaxError{Offset: n, Found: excerpt(s, n), Want: uuidFormats})
	}
	return u, nil
}

// String prints u as the server does: lower case, with dashes.
func (u UUID) String() string {
	return string(u.append(make([]byte, 0, 36)))
}

// Compare orders UUIDs by their bytes, which is the order in which the server prints a set.
func (u UUID) Compare(other UUID) int {
	return bytes.Compare(u[:], other[:])
}

// MarshalText makes a UUID a string in JSON and YAML.
func (u UUID) MarshalText() ([]byte, error) {
	return u.append(nil), nil
}

// UnmarshalText is ParseUUID.
func (u *UUID) UnmarshalText(text []byte) error {
	parsed, err := ParseUUID(string(text))
	if err != nil {
		return err
	}
	*u = parsed
	return nil
}

func (u UUID) append(dst []byte) []byte {
	rest := u[:]
	for i, n := range uuidGroups {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, rest[:n])
		rest = rest[n:]
	}
	return dst
}

// scanUUID reads a UUID at the start of s and returns the number of bytes read; if there is none it returns the
// offset at which s stops being one.
func scanUUID(s string) (u UUID, n int, ok bool) {
	braces := len(s) > 0 && s[0] == '{'
	if braces {
		n++
	}
	dashes := braces
	out := 0
	for i, group := range uuidGroups {
		// The first gap decides: a UUID has all of its dashes or, unless it is within braces, none.
		if i == 1 && !braces {
			dashes = n < len(s) && s[n] == '-'
		}
		if i > 0 && dashes {
			if n >= len(s) || s[n] != '-' {
				return UUID{}, n, false
			}
			n++
		}
		for range group {
			for range 2 {
				digit, isHex := unhex(s, n)
				if !isHex {
					return UUID{}, n, false
				}
				u[out] = u[out]<<4 | digit
				n++
			}
			out++
		}
	}
	if braces {
		if n >= len(s) || s[n] != '}' {
			return UUID{}, n, false
		}
		n++
	}
	return u, n, true
}

// unhex returns the value of the hexadecimal digit at s[i], if there is one.
func unhex(s string, i int) (byte, bool) {
	if i >= len(s) {
		return 0, false
	}
	switch c := s[i]; {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
