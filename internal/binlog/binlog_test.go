package binlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// TestRealBodies reads what a real mysqld wrote.
func TestRealBodies(t *testing.T) {
	for want, tx := range map[string]func() (transaction, error){
		anUUID + ":6":                        func() (transaction, error) { return parseGTID(unhex(t, realGTID)) },
		another + ":foo:1":                   func() (transaction, error) { return parseTaggedGTID(unhex(t, realTagged)) },
		another + ":foo:9223372036854775806": func() (transaction, error) { return parseTaggedGTID(unhex(t, realLast)) },
	} {
		if got, err := tx(); err != nil || got.String() != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	set, err := parsePreviousGTIDs(unhex(t, realSet))
	if err != nil || !set.Equal(gtid.MustParse(realSetText)) {
		t.Errorf("%s, %v; want %s", set, err, realSetText)
	}
}

// TestCutShort: a body that ends anywhere is refused, and nothing panics.
func TestCutShort(t *testing.T) {
	tagged, set := unhex(t, realTagged), unhex(t, realSet)
	for n := range set {
		if _, err := parsePreviousGTIDs(set[:n]); err == nil {
			t.Errorf("%d bytes of a set are taken", n)
		}
	}
	for n := range bytes.Index(tagged, []byte("foo")) + 3 {
		if _, err := parseTaggedGTID(tagged[:n]); err == nil {
			t.Errorf("%d bytes of a tagged GTID are taken", n)
		}
	}
}

// crashed is a file with u:1-10 before it and u:11-14 in it, and where each of the four begins.
func crashed(plain bool) (*builder, [4]int64) {
	b := newFile()
	b.plain = plain
	b.format(flagInUse).previous(anUUID, 10)
	var at [4]int64
	for i := range at {
		at[i] = b.transaction(anUUID, uint64(11+i))
	}
	return b, at
}

func find(b []byte, promoted string) (Tail, error) {
	return FindTail(bytes.NewReader(b), int64(len(b)), gtid.MustParse(promoted))
}

func TestFindTail(t *testing.T) {
	for _, plain := range []bool{false, true} {
		b, at := crashed(plain)
		file := b.Bytes()
		for promoted, want := range map[string]struct {
			offset int64
			gtids  string
		}{
			anUUID + ":1-14":                    {0, ""},
			anUUID + ":1-200," + another + ":1": {0, ""},
			anUUID + ":1-13":                    {at[3], anUUID + ":14"},
			anUUID + ":1-11":                    {at[1], anUUID + ":12-14"},
			anUUID + ":1-10":                    {at[0], anUUID + ":11-14"},
		} {
			tail, err := find(file, promoted)
			if err != nil || tail.Offset != want.offset || tail.GTIDs.String() != want.gtids {
				t.Errorf("plain %t, promoted %s: %+v, %v", plain, promoted, tail, err)
			}
			if !tail.IsEmpty() && tail.End != int64(len(file)) {
				t.Errorf("promoted %s: the tail ends at %d of %d", promoted, tail.End, len(file))
			}
		}
		// A crash while an event was written: what there is of it belongs to no copy.
		for torn := at[3] + 1; torn < int64(len(file)); torn++ {
			tail, err := find(file[:torn], anUUID+":1-12")
			if err != nil || tail.Offset != at[2] || tail.End > torn {
				t.Fatalf("cut at %d: %+v, %v", torn, tail, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	good, at := crashed(false)
	damaged := func(at int64, value byte) []byte {
		out := bytes.Clone(good.Bytes())
		out[at] = value
		return out
	}
	with := func(change func(*builder)) []byte {
		b, _ := crashed(false)
		change(b)
		return b.Bytes()
	}
	clean := newFile().format(0).previous(anUUID, 10)
	clean.transaction(anUUID, 11)
	for name, tc := range map[string]struct {
		file     []byte
		promoted string
		names    string
	}{
		"empty":                      {nil, "", "0 bytes"},
		"encrypted":                  {damaged(0, 0xfd), "", "encrypted"},
		"another file":               {[]byte("#!/bin/sh"), "", "begins with"},
		"magic number alone":         {magic[:], "", "format description"},
		"no previous GTIDs":          {newFile().format(flagInUse).Bytes(), "", "files before it"},
		"bad checksum of the format": {damaged(magicLength+headerLength+10, 'x'), anUUID + ":1-12", "checksum"},
		"bad checksum of a GTID":     {damaged(at[1]+headerLength+20, 'x'), anUUID + ":1-12", "checksum"},
		"bad checksum elsewhere":     {damaged(at[1]-6, 'x'), anUUID + ":1-12", "checksum"},
		"an event without length":    {damaged(at[1]+9, 3), anUUID + ":1-12", "length"},
		"promoted behind the tail":   {good.Bytes(), anUUID + ":1-12:14", "was promoted"},
		"errant in files before":     {good.Bytes(), anUUID + ":1-9:11-14", "1 transactions"},
		"nothing promoted":           {good.Bytes(), "", "10 transactions"},
		"closed cleanly":             {clean.Bytes(), anUUID + ":1-10", "cleanly"},
		"anonymous":                  {with(func(b *builder) { b.event(typeAnonymousGTID, 0, make([]byte, 40)) }), anUUID + ":1-14", "no GTID"},
		"a second head":              {with(func(b *builder) { b.format(0) }), anUUID + ":1-14", "second head"},
		"a short GTID":               {with(func(b *builder) { b.event(typeGTID, 0, make([]byte, 5)) }), anUUID + ":1-14", "too early"},
		"the number 0":               {with(func(b *builder) { b.transaction(anUUID, 0) }), anUUID + ":1-14", "number"},
		"a bad tagged GTID":          {with(func(b *builder) { b.event(typeTaggedGTID, 0, []byte{4}) }), anUUID + ":1-14", "version"},
	} {
		_, err := find(tc.file, tc.promoted)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.names) {
			t.Errorf("%s: %v should name %q", name, err, tc.names)
		}
	}
	// A clean end is no reason to refuse where there is nothing to cut.
	if tail, err := find(clean.Bytes(), anUUID+":1-11"); err != nil || !tail.IsEmpty() {
		t.Errorf("a clean file with nothing to cut: %+v, %v", tail, err)
	}
}

func TestWriteTail(t *testing.T) {
	b, at := crashed(false)
	file := append(bytes.Clone(b.Bytes()), "torn"...)
	tail, err := find(file, anUUID+":1-12")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteTail(&out, bytes.NewReader(file), tail); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(out.Bytes(), b.Bytes()[at[2]:]) {
		t.Error("the copy does not end with the tail's events")
	}
	r, err := newReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if inUse, err := readHead(r, gtid.MustParse(anUUID+":1-10")); err != nil || inUse {
		t.Errorf("the copy's head: in use %t, %v", inUse, err)
	}
}

func TestLastFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := LastFile(dir, "binlog"); err == nil {
		t.Error("an index that is missing is taken")
	}
	for text, want := range map[string]string{
		"./binlog.000001\n./binlog.000002\n": "binlog.000002",
		"/elsewhere/binlog.000009\n":         "binlog.000009",
		"":                                   "",
		"./other.000001\n":                   "",
	} {
		if err := os.WriteFile(filepath.Join(dir, "binlog.index"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		path, err := LastFile(dir, "binlog")
		if (err != nil) != (want == "") || want != "" && path != filepath.Join(dir, want) {
			t.Errorf("%q: %q, %v", text, path, err)
		}
	}
}

// FuzzFindTail: nothing panics or reads beyond the file, a tail lies within it, and its copy holds the same transactions.
func FuzzFindTail(f *testing.F) {
	for _, plain := range []bool{false, true} {
		b, _ := crashed(plain)
		f.Add(b.Bytes())
		b.event(typeTaggedGTID, 0, unhex(f, realTagged))
		f.Add(b.Bytes())
		tagged := newFile()
		tagged.plain = plain
		tagged.format(flagInUse)
		tagged.event(typePreviousGTIDs, 0, unhex(f, realSet))
		f.Add(tagged.Bytes())
	}
	promoted := gtid.MustParse(anUUID + ":1-12")
	f.Fuzz(func(t *testing.T, file []byte) {
		tail, err := FindTail(bytes.NewReader(file), int64(len(file)), promoted)
		if err != nil || tail.IsEmpty() {
			return
		}
		if tail.headerEnd > tail.Offset || tail.Offset >= tail.End || tail.End > int64(len(file)) || tail.GTIDs.IsEmpty() ||
			!tail.GTIDs.Intersect(promoted).IsEmpty() {
			t.Fatalf("%+v of a file of %d bytes", tail, len(file))
		}
		if rest, err := FindTail(bytes.NewReader(file[:tail.Offset]), tail.Offset, promoted); err != nil || !rest.IsEmpty() {
			t.Fatalf("after the cut: %+v, %v", rest, err)
		}
		var saved bytes.Buffer
		if err := WriteTail(&saved, bytes.NewReader(file), tail); err != nil {
			t.Fatal(err)
		}
		saved.Bytes()[magicLength+flagsAt] |= flagInUse
		again, err := FindTail(bytes.NewReader(saved.Bytes()), int64(saved.Len()), promoted)
		if err != nil || !again.GTIDs.Equal(tail.GTIDs) {
			t.Fatalf("the copy holds %s, %v; the tail %s", again.GTIDs, err, tail.GTIDs)
		}
	})
}

// FuzzBodies: bodies of events never make a reader panic.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{realGTID, realTagged, realLast, realSet} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (transaction, error){parseGTID, parseTaggedGTID} {
			if tx, err := parse(body); err == nil && !tx.in(gtid.MustParse(tx.String())) {
				t.Fatalf("%s is not what it prints", tx)
			}
		}
		_, _ = parsePreviousGTIDs(body)
	})
}
