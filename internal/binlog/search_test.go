package binlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// logs is a data directory with binary log files.
type logs struct {
	t     testing.TB
	dir   string
	paths []string
}

func newLogs(t testing.TB, files ...[]byte) *logs {
	t.Helper()
	l := &logs{t: t, dir: t.TempDir()}
	for i, content := range files {
		path := filepath.Join(l.dir, "binlog.00000"+string(rune('1'+i)))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l.paths = append(l.paths, path)
	}
	return l
}

// search looks for a set, and returns what it found with the file that it wrote of it.
func (l *logs) search(want string) (*Findings, []byte, error) {
	l.t.Helper()
	found, err := Search(context.Background(), l.paths, gtid.MustParse(want))
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	if err := found.Write(context.Background(), &out); err != nil {
		l.t.Fatal(err)
	}
	return found, out.Bytes(), nil
}

// read returns the transactions of a written file in their order.
func read(t testing.TB, file []byte) (all []string) {
	t.Helper()
	r, err := newReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		switch e.kind {
		case typeFormatDescription:
			if e.flags&flagInUse != 0 {
				t.Error("the copy is marked as in use")
			}
		case typeGTID:
			tx, err := parseGTID(e.body)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tx.String())
		}
	}
	if r.at != int64(len(file)) {
		t.Errorf("%d bytes of %d are events", r.at, len(file))
	}
	return all
}

// three files hold anUUID:1-10, then 11-14 with another:1-2 between them, then 15, and 16 torn.
func threeFiles(t testing.TB) *logs {
	t.Helper()
	first := newFile().format(0)
	first.event(typePreviousGTIDs, 0x80, make([]byte, 8)) // the empty set
	for n := range uint64(10) {
		first.transaction(anUUID, n+1)
	}
	first.event(typeRotate, 0, []byte("12345678binlog.000002"))
	second := newFile()
	second.plain = true // the option was another one then
	second.format(0).previous(anUUID, 10)
	for _, n := range []uint64{11, 12} {
		second.transaction(anUUID, n)
	}
	second.transaction(another, 1)
	second.transaction(another, 2)
	for _, n := range []uint64{13, 14} {
		second.transaction(anUUID, n)
	}
	second.event(typeStop, 0, nil)
	third := newFile().format(flagInUse).previousSets(anUUID, 14, another, 2)
	third.transaction(anUUID, 15)
	at := third.transaction(anUUID, 16)
	return newLogs(t, first.Bytes(), second.Bytes(), third.Bytes()[:at+60])
}

// previousSets appends the set of two UUIDs, each from 1.
func (b *builder) previousSets(uuid string, last uint64, other string, otherLast uint64) *builder {
	body := binary.LittleEndian.AppendUint64(nil, 2)
	for _, one := range []struct {
		uuid string
		last uint64
	}{{uuid, last}, {other, otherLast}} {
		u, err := gtid.ParseUUID(one.uuid)
		if err != nil {
			panic(err)
		}
		body = append(body, u[:]...)
		for _, n := range []uint64{1, 1, one.last + 1} {
			body = binary.LittleEndian.AppendUint64(body, n)
		}
	}
	b.event(typePreviousGTIDs, 0x80, body)
	return b
}

func TestSearch(t *testing.T) {
	l := threeFiles(t)
	for want, tc := range map[string]struct{ gtids, order string }{
		"":                                       {"", ""},
		anUUID + ":3":                            {anUUID + ":3", anUUID + ":3"},
		anUUID + ":15-16":                        {anUUID + ":15", anUUID + ":15"}, // 16 was never written to its end
		another + ":1-2":                         {another + ":1-2", another + ":1 " + another + ":2"},
		anUUID + ":10:13:15," + another + ":2:9": {anUUID + ":10:13:15," + another + ":2", anUUID + ":10 " + another + ":2 " + anUUID + ":13 " + anUUID + ":15"},
	} {
		found, file, err := l.search(want)
		if err != nil || !found.GTIDs.Equal(gtid.MustParse(tc.gtids)) {
			t.Errorf("%s: %v, found %+v", want, err, found)
			continue
		}
		if order := strings.Join(read(t, file), " "); order != tc.order {
			t.Errorf("%s: the file holds %s", want, order)
		}
		if held := gtid.MustParse(anUUID + ":1-15," + another + ":1-2"); !found.Held.Equal(held) || !found.Before.IsEmpty() {
			t.Errorf("%s: held %s, before %s", want, found.Held, found.Before)
		}
	}
}

// TestSearchReadsLittle: a file that cannot hold any is not read beyond its head, so damage there does no harm.
func TestSearchReadsLittle(t *testing.T) {
	l := threeFiles(t)
	content, err := os.ReadFile(l.paths[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-10] ^= 1
	if err := os.WriteFile(l.paths[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, _, err := l.search(another + ":2"); err != nil || found.GTIDs.Count() != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, _, err := l.search(anUUID + ":3"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "binlog.000001") {
		t.Errorf("a damaged file that is needed: %v", err)
	}
	// Before anything is called missing, everything is read.
	if _, _, err := l.search(another + ":2-3"); !errors.Is(err, ErrRefused) {
		t.Errorf("a damaged file that may be needed: %v", err)
	}
}

// TestSearchHeadsThatLie: what a later head does not name is found all the same.
func TestSearchHeadsThatLie(t *testing.T) {
	first := newFile().format(0).previous(anUUID, 4)
	first.transaction(another, 7)
	first.event(typeRotate, 0, make([]byte, 12))
	l := newLogs(t, first.Bytes(), newFile().format(flagInUse).previous(anUUID, 4).Bytes())
	found, _, err := l.search(another + ":7")
	if err != nil || found.GTIDs.Count() != 1 || !found.Before.Equal(gtid.MustParse(anUUID+":1-4")) {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestSearchTorn: whatever a crash left of the last file, whole transactions are found and others are not.
func TestSearchTorn(t *testing.T) {
	b := newFile().format(flagInUse).previous(anUUID, 10)
	first := b.sized(anUUID, 11)
	second := b.sized(anUUID, 12)
	file := b.Bytes()
	before := newFile().format(0).previous(anUUID, 9)
	before.sized(anUUID, 10)
	before.event(typeRotate, 0, make([]byte, 12))
	for size := range len(file) + 1 {
		l := newLogs(t, before.Bytes(), file[:size])
		found, _, err := l.search(anUUID + ":10-12")
		want := anUUID + ":10"
		if int64(size) >= second {
			want = anUUID + ":10-11"
		}
		if size == len(file) {
			want = anUUID + ":10-12"
		}
		if err != nil || !found.GTIDs.Equal(gtid.MustParse(want)) {
			t.Fatalf("%d bytes of %d (from %d and %d): %v, %+v", size, len(file), first, second, err, found)
		}
	}
}

// sized appends a transaction whose GTID says how long it is.
func (b *builder) sized(uuid string, number uint64) int64 {
	u, err := gtid.ParseUUID(uuid)
	if err != nil {
		panic(err)
	}
	body := append([]byte{0}, u[:]...)
	body = binary.LittleEndian.AppendUint64(body, number)
	body = append(body, timestampsMark)
	body = append(body, make([]byte, timestampsLength+timeLength)...)
	gtidEvent := headerLength + len(body) + 1 + checksumLength
	query, end := []byte("BEGIN"), []byte("COMMIT")
	whole := gtidEvent + 2*(headerLength+checksumLength) + len(query) + len(end)
	at := b.event(typeGTID, 0, append(body, byte(whole)))
	b.event(2, 0, query)
	b.event(2, 0, end)
	return at
}

func TestSearchRefused(t *testing.T) {
	if _, err := Search(t.Context(), nil, gtid.Set{}); !errors.Is(err, ErrRefused) {
		t.Errorf("no file: %v", err)
	}
	good, at := crashed(false)
	with := func(change func(*builder)) []byte {
		b, _ := crashed(false)
		change(b)
		return b.Bytes()
	}
	damaged := func(at int64, value byte) []byte {
		out := bytes.Clone(good.Bytes())
		out[at] = value
		return out
	}
	for name, tc := range map[string]struct {
		file  []byte
		names string
	}{
		"encrypted":              {damaged(0, 0xfd), "encrypted"},
		"another file":           {[]byte("#!/bin/sh"), "begins with"},
		"bad checksum":           {damaged(at[1]-6, 'x'), "checksum"},
		"no format":              {append(bytes.Clone(magic[:]), good.Bytes()[at[0]:]...), "format description"},
		"no previous GTIDs":      {headed(func(b *builder) { b.transaction(anUUID, 1) }), "files before it"},
		"anonymous":              {with(func(b *builder) { b.event(typeAnonymousGTID, 0, make([]byte, 40)) }), "no GTID"},
		"a second head":          {with(func(b *builder) { b.format(0) }), "second head"},
		"a short GTID":           {with(func(b *builder) { b.event(typeGTID, 0, make([]byte, 5)) }), "too early"},
		"a GTID and nothing":     {with(func(b *builder) { b.sizedAlone(anUUID, 15); b.transaction(anUUID, 16) }), "GTID alone"},
		"a GTID and then an end": {with(func(b *builder) { b.sizedAlone(anUUID, 15); b.event(typeStop, 0, nil) }), "GTID alone"},
	} {
		_, _, err := newLogs(t, tc.file).search(anUUID + ":11")
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.names) || !strings.Contains(err.Error(), "binlog.000001") {
			t.Errorf("%s: %v should name %q and the file", name, err, tc.names)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Search(ctx, newLogs(t, good.Bytes()).paths, gtid.Set{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func headed(change func(*builder)) []byte {
	b := newFile().format(0)
	change(b)
	return b.Bytes()
}

func (b *builder) sizedAlone(uuid string, number uint64) {
	u, err := gtid.ParseUUID(uuid)
	if err != nil {
		panic(err)
	}
	b.event(typeGTID, 0, binary.LittleEndian.AppendUint64(append([]byte{0}, u[:]...), number))
}

// TestLengths: what GTIDs of a real mysqld say of their transactions' lengths.
func TestLengths(t *testing.T) {
	if n := lengthOfGTID(unhex(t, realGTID)); n != 0x010c {
		t.Errorf("untagged: %d", n)
	}
	for text, want := range map[string]int64{realTagged: 264, realLast: 272} {
		if n := lengthOfTaggedGTID(unhex(t, text)); n != want {
			t.Errorf("tagged: %d, want %d", n, want)
		}
	}
	body := unhex(t, realGTID)
	for n := range body {
		lengthOfGTID(body[:n])
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"binlog.000002", "binlog.999999", "binlog.1000000", "binlog.index", "binlog.000003.bak", "relay.000001"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "binlog.000004"), 0o700); err != nil {
		t.Fatal(err)
	}
	paths, err := Files(dir, "binlog")
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	if err != nil || strings.Join(names, " ") != "binlog.000002 binlog.999999 binlog.1000000" {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := Files(filepath.Join(dir, "missing"), "binlog"); err == nil {
		t.Error("a directory that is missing has files")
	}
}

func inMemory(content []byte) source {
	return source{name: "memory", open: func() (io.ReaderAt, int64, func(), error) {
		return bytes.NewReader(content), int64(len(content)), func() {}, nil
	}}
}

// FuzzSearch: no file makes a search panic; what it finds was wanted, is held, and is what the copy holds.
func FuzzSearch(f *testing.F) {
	for _, plain := range []bool{false, true} {
		b, _ := crashed(plain)
		f.Add(b.Bytes())
		b.event(typeTaggedGTID, 0, unhex(f, realTagged))
		b.event(typeXID, 0, make([]byte, 8))
		f.Add(b.Bytes())
		sized := newFile()
		sized.plain = plain
		sized.format(flagInUse).previous(anUUID, 10).sized(anUUID, 12)
		f.Add(sized.Bytes())
	}
	before := newFile().format(0).previous(anUUID, 9)
	before.transaction(anUUID, 10)
	before.event(typeStop, 0, nil)
	want := gtid.MustParse(anUUID + ":10:12-13," + another + ":foo:1")
	f.Fuzz(func(t *testing.T, file []byte) {
		found, err := searchIn(t.Context(), []source{inMemory(before.Bytes()), inMemory(file)}, want)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := found.Write(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		copied := out.Bytes()
		if !want.Contains(found.GTIDs) || !found.Held.Contains(found.GTIDs) {
			t.Fatalf("found %s of %s; held %s", found.GTIDs, want, found.Held)
		}
		if int64(len(copied)) > int64(len(file)+before.Len()) {
			t.Fatalf("%d bytes were copied of %d", len(copied), len(file))
		}
		r, err := newReader(bytes.NewReader(copied), int64(len(copied)))
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		for {
			e, err := r.next()
			if err != nil {
				t.Fatalf("the copy: %v", err)
			}
			if e == nil {
				break
			}
			if e.kind == typeGTID || e.kind == typeTaggedGTID {
				n++
			}
		}
		if n < found.GTIDs.Count() || r.at != int64(len(copied)) {
			t.Fatalf("the copy holds %d transactions in %d of %d bytes, found were %s", n, r.at, len(copied), found.GTIDs)
		}
	})
}
