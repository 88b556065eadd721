package gtid

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "9c5d2a01-0b1c-11ef-8a52-02420a000002"
	// undashedA is uuidA in the form that some tools print.
	undashedA = "3E11FA4771CA11E19E33C80AA9429562"
)

// acceptedTexts are texts with the canonical form that mysqld 9.7 gives them; the tier test compares each with a server.
var acceptedTexts = []struct {
	name, text, want string
}{
	{"empty", "", ""},
	{"only space", " \t\r\n\v\f", ""},
	{"only commas", ",, ,", ""},
	{"one", uuidA + ":1", uuidA + ":1"},
	{"range", uuidA + ":1-5", uuidA + ":1-5"},
	{"range of one", uuidA + ":7-7", uuidA + ":7"},
	{"largest number", uuidA + ":9223372036854775806", uuidA + ":9223372036854775806"},
	{"largest range", uuidA + ":1-9223372036854775806", uuidA + ":1-9223372036854775806"},
	{"adjacent intervals join", uuidA + ":1-3:4-6", uuidA + ":1-6"},
	{"overlapping intervals join", uuidA + ":1-5:3-9:2", uuidA + ":1-9"},
	{"unsorted intervals", uuidA + ":9:1:5-6", uuidA + ":1:5-6:9"},
	{"empty interval", uuidA + ":5-3", ""},
	{"empty interval down to 0", uuidA + ":1-0", ""},
	{"empty interval among others", uuidA + ":5-3:8", uuidA + ":8"},
	{"UUID alone", uuidA, ""},
	{"UUID and tag alone", uuidA + ":optag", ""},
	{"upper case UUID", strings.ToUpper(uuidA) + ":1", uuidA + ":1"},
	{"undashed UUID", undashedA + ":1", uuidA + ":1"},
	{"UUID in braces", "{" + uuidA + "}:1", uuidA + ":1"},
	{"repeated UUID", uuidA + ":1-3," + uuidA + ":3-5", uuidA + ":1-5"},
	{"unsorted UUIDs", uuidB + ":1," + uuidA + ":2", uuidA + ":2," + uuidB + ":1"},
	{"as the server prints", uuidA + ":1-5,\n" + uuidB + ":1", uuidA + ":1-5," + uuidB + ":1"},
	{"space around every token", " " + uuidA + " : 1 - 5 : 7 , " + uuidB + " : tag : 2 ", uuidA + ":1-5:7," + uuidB + ":tag:2"},
	{"commas everywhere", ",," + uuidA + ":1,,," + uuidB + ":2,,", uuidA + ":1," + uuidB + ":2"},
	{"tags are sticky", uuidA + ":1-33779:optag:1-2:4:zz_1:1", uuidA + ":1-33779:optag:1-2:4:zz_1:1"},
	{"begins with a tag", uuidA + ":optag:1-2", uuidA + ":optag:1-2"},
	{"a tag ends with its UUID", uuidA + ":tag:1," + uuidA + ":5", uuidA + ":5:tag:1"},
	{"upper case tag", uuidA + ":OpTag:1", uuidA + ":optag:1"},
	{"repeated tag", uuidA + ":b:1:a:1:b:2", uuidA + ":a:1:b:1-2"},
	{"tag after tag", uuidA + ":a:b:3", uuidA + ":b:3"},
	{"tags sort as bytes", uuidA + ":b:1:_:1:a_:1:a1:1:a:1", uuidA + ":_:1:a:1:a1:1:a_:1:b:1"},
	{"longest tag", uuidA + ":" + strings.Repeat("t", 32) + ":1", uuidA + ":" + strings.Repeat("t", 32) + ":1"},
	{"hexadecimal-looking tag", uuidA + ":abc:1", uuidA + ":abc:1"},
}

type refusedText struct {
	name, text string
	offset     int    // of the error
	want       string // part of what the error says is allowed
}

// refusedTexts are texts that mysqld 9.7 refuses; the tier test compares each with a server.
var refusedTexts = []refusedText{
	{"word", "hello", 0, "UUID"},
	{"number first", ":1", 0, "UUID"},
	{"short UUID", uuidA[:35] + ":1", 35, "UUID"},
	{"long UUID", uuidA + "0:1", 36, `":"`},
	{"UUID with one dash", "3e11fa47-71ca11e19e33c80aa9429562:1", 13, "UUID"},
	{"UUID with a late dash", "3e11fa4771ca-11e1-9e33-c80aa9429562:1", 12, "UUID"},
	{"undashed UUID in braces", "{" + undashedA + "}:1", 9, "UUID"},
	{"brace left open", "{" + uuidA + ":1", 37, "UUID"},
	{"space in a UUID", "3e11fa47 -71ca-11e1-9e33-c80aa9429562:1", 8, "UUID"},
	{"zero", uuidA + ":0", 37, "1 to 9223372036854775806"},
	{"from zero", uuidA + ":0-3", 37, "1 to 9223372036854775806"},
	{"number too large", uuidA + ":9223372036854775807", 37, "1 to 9223372036854775806"},
	{"end too large", uuidA + ":1-9223372036854775807", 39, "0 to 9223372036854775806"},
	{"number past 64 bits", uuidA + ":99999999999999999999999", 37, "1 to 9223372036854775806"},
	{"negative", uuidA + ":-1", 37, "a tag"},
	{"plus sign", uuidA + ":+1", 37, "a tag"},
	{"negative end", uuidA + ":1--3", 39, "0 to 9223372036854775806"},
	{"end missing", uuidA + ":1-", 39, "0 to 9223372036854775806"},
	{"colon at the end", uuidA + ":", 37, "a tag"},
	{"colon at the end after a number", uuidA + ":1:", 39, "a tag"},
	{"two colons", uuidA + "::1", 37, "a tag"},
	{"hexadecimal number", uuidA + ":0x10", 37, "1 to 9223372036854775806"},
	{"three ends", uuidA + ":1-2-3", 40, `","`},
	{"two numbers", uuidA + ":1 2", 39, `","`},
	{"semicolon", uuidA + ":1;" + uuidB + ":1", 38, `","`},
	{"comma between intervals", uuidA + ":1,5", 40, "UUID"},
	{"tag of 33 characters", uuidA + ":" + strings.Repeat("t", 33) + ":1", 37, "at most 32"},
	{"tag begins with a digit", uuidA + ":1tag:1", 38, `","`},
	{"tag with a dash", uuidA + ":my-tag:1", 39, `","`},
	{"tag of a letter outside ASCII", uuidA + ":é:1", 37, "a tag"},
	{"tag that is a range", uuidA + ":a-b", 38, `","`},
	{"sign of gtid_purged", "+" + uuidA + ":1", 0, "UUID"},
	{"zero byte", uuidA + ":1\x00", 38, `","`},
	{"no-break space", uuidA + ":1\u00a0", 38, `","`},
}

// stricterTexts are texts that the GTID functions of mysqld 9.7.4 take and Parse refuses, see there.
var stricterTexts = []refusedText{
	{"leading zero", uuidA + ":010", 37, "without leading zeros"},
	{"leading zero in an end", uuidA + ":1-07", 39, "without leading zeros"},
	{"zeros", uuidA + ":1-00", 39, "without leading zeros"},
	{"tag with a letter outside ASCII", uuidA + ":täg:1", 38, `","`},
}

func TestParseAccepts(t *testing.T) {
	for _, tc := range acceptedTexts {
		t.Run(tc.name, func(t *testing.T) {
			set, err := Parse(tc.text)
			if err != nil {
				t.Fatalf("Parse(%q): %v", tc.text, err)
			}
			if got := set.String(); got != tc.want {
				t.Errorf("Parse(%q) = %q, want %q", tc.text, got, tc.want)
			}
			if set.IsEmpty() != (tc.want == "") {
				t.Errorf("IsEmpty() = %v of %q", set.IsEmpty(), tc.want)
			}
			checkInvariants(t, set)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range append(slices.Clone(refusedTexts), stricterTexts...) {
		t.Run(tc.name, func(t *testing.T) {
			set, err := Parse(tc.text)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("Parse(%q) = %q, %v; want a SyntaxError", tc.text, set, err)
			}
			if syntax.Offset != tc.offset || !strings.Contains(syntax.Want, tc.want) {
				t.Errorf("Parse(%q): %v; want byte %d and %q", tc.text, err, tc.offset, tc.want)
			}
			if !set.IsEmpty() {
				t.Errorf("Parse(%q) = %q beside an error", tc.text, set)
			}
		})
	}
}

func TestParseErrorText(t *testing.T) {
	_, err := Parse(uuidA + ":0-3")
	want := `parse GTID set: at byte 37: found "0-3"; allowed here: a number from 1 to 9223372036854775806`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	_, err = Parse(uuidA + ":")
	want = `parse GTID set: at byte 37: text ends; allowed here: a tag (a letter or _ first) or an interval (N or N-N)`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err = Parse(strings.Repeat("x", 1000)); err == nil || len(err.Error()) > 250 {
		t.Errorf("an error must quote little of the text: %v", err)
	}
}

func TestParseLimits(t *testing.T) {
	if _, err := Parse(strings.Repeat(" ", MaxText)); err != nil {
		t.Errorf("MaxText bytes: %v", err)
	}
	if _, err := Parse(strings.Repeat(" ", MaxText+1)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(MaxText)) {
		t.Errorf("MaxText+1 bytes: %v; want an error with the limit", err)
	}
	full := uuidA + strings.Repeat(":1", MaxIntervals)
	set, err := Parse(full)
	if err != nil || set.String() != uuidA+":1" {
		t.Errorf("MaxIntervals intervals: %.60q, %v", set, err)
	}
	if _, err := Parse(full + ":1"); err == nil || !strings.Contains(err.Error(), fmt.Sprint(MaxIntervals)) {
		t.Errorf("MaxIntervals+1 intervals: %v; want an error with the limit", err)
	}
}

// TestParseMemory feeds the costliest texts there are within the limits.
func TestParseMemory(t *testing.T) {
	var tags, uuids strings.Builder
	tags.WriteString(uuidA)
	for i := range MaxIntervals {
		fmt.Fprintf(&tags, ":TAG%x_%d:9", MaxIntervals-i, i)
	}
	for i := MaxText / 36; i > 0; i-- {
		fmt.Fprintf(&uuids, "%032x:1,", i)
	}
	for name, text := range map[string]string{"tags": tags.String(), "UUIDs": uuids.String()} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		set, err := Parse(text)
		runtime.ReadMemStats(&after)
		if err != nil || set.Count() < 200_000 {
			t.Fatalf("%s: %d GTIDs, %v", name, set.Count(), err)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 64 {
			t.Errorf("%s: Parse of %d bytes allocated %d MiB", name, len(text), mib)
		} else {
			t.Logf("%s: Parse of %d bytes allocated %d MiB", name, len(text), mib)
		}
	}
}

// TestParseDoesNotKeepText: sets live for long and texts may be large.
func TestParseDoesNotKeepText(t *testing.T) {
	text := uuidA + ":1" + strings.Repeat(":1", 1000) + ":2:tag:1"
	set := MustParse(text)
	if n := cap(set.parts[0].intervals); n != 1 {
		t.Errorf("one interval is kept in an array of %d", n)
	}
}

func TestMustParsePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("MustParse of garbage returned")
		}
	}()
	MustParse("garbage")
}

func TestParseUUID(t *testing.T) {
	for _, text := range []string{uuidA, strings.ToUpper(uuidA), undashedA, strings.ToLower(undashedA), "{" + uuidA + "}"} {
		u, err := ParseUUID(text)
		if err != nil || u.String() != uuidA {
			t.Errorf("ParseUUID(%q) = %v, %v; want %s", text, u, err, uuidA)
		}
	}
	for _, tc := range []struct {
		text   string
		offset int
	}{
		{"", 0}, {" " + uuidA, 0}, {uuidA + " ", 36}, {uuidA + "0", 36}, {uuidA[:35], 35}, {"{" + undashedA + "}", 9},
		{strings.Replace(uuidA, "f", "g", 1), 4}, {strings.ReplaceAll(uuidA, "-", "_"), 8},
	} {
		_, err := ParseUUID(tc.text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset != tc.offset {
			t.Errorf("ParseUUID(%q): %v; want a SyntaxError at byte %d", tc.text, err, tc.offset)
		}
	}
}
