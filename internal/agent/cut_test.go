package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/binlog"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// crashedLog is the binary log of a crashed primary with anUUID:1-last, and where its last transaction begins.
func crashedLog(t *testing.T, last int) (content []byte, lastAt int) {
	t.Helper()
	content = []byte{0xfe, 'b', 'i', 'n'}
	event := func(kind byte, body []byte) {
		header := make([]byte, 19)
		header[4] = kind
		binary.LittleEndian.PutUint32(header[9:], uint32(len(header)+len(body)+4))
		whole := slices.Concat(header, body)
		sum := crc32.ChecksumIEEE(whole)
		if kind == 15 {
			whole[17] = 1 // in use, after the checksum was made
		}
		content = binary.LittleEndian.AppendUint32(append(content, whole...), sum)
	}
	format := make([]byte, 100)
	format[0], format[56], format[99] = 4, 19, 1
	event(15, format)
	event(35, make([]byte, 8))
	uuid, err := gtid.ParseUUID(anUUID)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= last; n++ {
		lastAt = len(content)
		event(33, binary.LittleEndian.AppendUint64(append([]byte{0}, uuid[:]...), uint64(n)))
		event(2, []byte("BEGIN"))
	}
	return content, lastAt
}

// heldAgent is an agent with such a log in its data directory.
func heldAgent(t *testing.T) (a *Agent, log string, content []byte, lastAt int) {
	t.Helper()
	f := newStateFixture(t)
	f.set(func(s *state) {
		s.ClusterID, s.Data, s.Incarnation, s.WasPrimary = "c", agentapi.DataReady, "i", true
		s.Quorum = &agentapi.Quorum{Members: []agentapi.Member{{Name: "other"}}}
		f.putData("i")
	})
	cfg := DefaultConfig()
	cfg.Paths.State, cfg.Paths.Data = f.dir, f.data
	a = New(cfg, testr.New(t))
	if err := a.state.load(); err != nil {
		t.Fatal(err)
	}
	content, lastAt = crashedLog(t, 5)
	log = filepath.Join(f.data, "binlog.000007")
	for path, text := range map[string][]byte{log: content, filepath.Join(f.data, "binlog.index"): []byte("./binlog.000006\n./binlog.000007\n")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a, log, content, lastAt
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func promotedSet(text string) *gtid.Set {
	set := gtid.MustParse(text)
	return &set
}

func TestCutTail(t *testing.T) {
	a, log, content, lastAt := heldAgent(t)
	tails := filepath.Join(a.cfg.Paths.State, tailsDir)
	if text, err := a.cutTail(promotedSet(anUUID + ":1-9")); err != nil || text != "" || !bytes.Equal(mustRead(t, log), content) {
		t.Errorf("with nothing to cut: %q, %v", text, err)
	}
	for _, promoted := range []*gtid.Set{nil, promotedSet(anUUID + ":1-3:5")} {
		if text, err := a.cutTail(promoted); !errors.Is(err, binlog.ErrRefused) || !bytes.Equal(mustRead(t, log), content) {
			t.Errorf("promoted %v: %q, %v", promoted, text, err)
		}
	}
	// What cannot be saved is not cut.
	if err := os.WriteFile(tails, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.cutTail(promotedSet(anUUID + ":1-4")); err == nil || !bytes.Equal(mustRead(t, log), content) {
		t.Errorf("without a place to save: %v", err)
	}
	if err := os.Remove(tails); err != nil {
		t.Fatal(err)
	}
	text, err := a.cutTail(promotedSet(anUUID + ":1-4"))
	if err != nil || !strings.Contains(text, anUUID+":5") || !bytes.Equal(mustRead(t, log), content[:lastAt]) {
		t.Errorf("the cut: %q, %v", text, err)
	}
	// Again, as after a crash before the start of mysqld; what the document says stays.
	if err := a.state.update(func(s *state) { s.CutTail = text }); err != nil {
		t.Fatal(err)
	}
	if again, err := a.cutTail(promotedSet(anUUID + ":1-4")); err != nil || again != text {
		t.Errorf("the second time: %q, %v", again, err)
	}
	// As after a crash between saving and cutting, many times: the newest are kept.
	for range keptTails + 3 {
		if err := os.WriteFile(log, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err = a.cutTail(promotedSet(anUUID + ":1-4")); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := filepath.Glob(filepath.Join(tails, "*"))
	if err != nil || len(saved) != keptTails || !strings.Contains(text, saved[keptTails-1]) {
		t.Errorf("kept are %d, %v; the last cut says %q", len(saved), err, text)
	}
	if !bytes.HasSuffix(mustRead(t, saved[0]), content[lastAt:]) {
		t.Error("the saved tail does not end with what was cut off")
	}
}

// TestMustHold: only a former primary whose quorum has members waits for a manager.
func TestMustHold(t *testing.T) {
	a, _, _, _ := heldAgent(t)
	a.process.boot()
	if !a.mustHold() || !a.isHeld() || a.process.wanted {
		t.Error("a former primary with members is started at boot")
	}
	for name, change := range map[string]func(*state){
		"no members":      func(s *state) { s.Quorum = &agentapi.Quorum{Generation: 2} },
		"no quorum":       func(s *state) { s.Quorum = nil },
		"never a primary": func(s *state) { s.WasPrimary = false },
		"no data":         func(s *state) { s.Data = agentapi.DataFailed },
	} {
		before := a.state.get()
		if err := a.state.update(change); err != nil {
			t.Fatal(err)
		}
		if a.mustHold() {
			t.Errorf("%s: held", name)
		}
		if err := a.state.update(func(s *state) { *s = before }); err != nil {
			t.Fatal(err)
		}
	}
	// A state of an agent that did not know the flag.
	f := newStateFixture(t)
	f.set(func(s *state) { s.Role = agentapi.RolePrimary })
	if !f.mustLoad().get().WasPrimary {
		t.Error("a primary by an older state is not taken for one")
	}
}
