package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

type stateFixture struct {
	t         *testing.T
	dir, data string
}

func newStateFixture(t *testing.T) stateFixture {
	t.Helper()
	root := t.TempDir()
	return stateFixture{t: t, dir: filepath.Join(root, "agent"), data: filepath.Join(root, "mysql")}
}

func (f stateFixture) load() (*stateStore, error) {
	s := newStateStore(f.dir, f.data)
	return s, s.load()
}

func (f stateFixture) mustLoad() *stateStore {
	f.t.Helper()
	s, err := f.load()
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f stateFixture) set(change func(*state)) {
	f.t.Helper()
	if err := f.mustLoad().update(change); err != nil {
		f.t.Fatal(err)
	}
}

// putData makes a data directory; with an incarnation it is complete.
func (f stateFixture) putData(incarnation string) {
	f.t.Helper()
	if err := os.MkdirAll(f.data, 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.data, "ibdata1"), nil, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if incarnation != "" {
		if err := writeMark(f.data, mark{ClusterID: "c", Incarnation: incarnation}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestStateSurvives(t *testing.T) {
	f := newStateFixture(t)
	f.set(func(s *state) { s.Epoch, s.Role = 7, agentapi.RolePrimary })
	if st := f.mustLoad().get(); st.Epoch != 7 || st.Role != agentapi.RolePrimary || st.Data != agentapi.DataEmpty {
		t.Fatalf("%+v", st)
	}
	leftover, err := filepath.Glob(filepath.Join(f.dir, ".*"))
	if err != nil || len(leftover) != 0 {
		t.Errorf("temporary files are left: %v %v", leftover, err)
	}
}

// TestStateReconcile: what a kill in the middle of making data leaves is Failed, or Ready when it was complete.
func TestStateReconcile(t *testing.T) {
	for name, tc := range map[string]struct {
		data        agentapi.DataState
		directory   bool
		incarnation string
		want        agentapi.DataState
	}{
		"killed before the directory":         {agentapi.DataInitializing, false, "", agentapi.DataFailed},
		"killed in the middle of a clone":     {agentapi.DataCloning, true, "", agentapi.DataFailed},
		"killed between directory and record": {agentapi.DataInitializing, true, "i", agentapi.DataReady},
		"all is well":                         {agentapi.DataReady, true, "i", agentapi.DataReady},
		"failed before":                       {agentapi.DataFailed, true, "", agentapi.DataFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newStateFixture(t)
			f.set(func(s *state) { s.ClusterID, s.Data, s.Incarnation = "c", tc.data, "i" })
			if tc.directory {
				f.putData(tc.incarnation)
			}
			if st := f.mustLoad().get(); st.Data != tc.want {
				t.Errorf("data is %s, want %s", st.Data, tc.want)
			}
		})
	}
}

// TestStateRefuses: where the state could be wrong nothing is loaded, and nothing on the volume is changed.
func TestStateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(stateFixture)
		names string
	}{
		"no state but data":   {func(f stateFixture) { f.putData("i"); _ = os.RemoveAll(f.dir) }, "missing"},
		"damaged":             {func(f stateFixture) { f.putData("i"); f.overwrite("{") }, "damaged"},
		"empty":               {func(f stateFixture) { f.putData("i"); f.overwrite("") }, "damaged"},
		"another format":      {func(f stateFixture) { f.putData("i"); f.overwrite(`{"format":99,"data":"Ready"}`) }, "format 99"},
		"another incarnation": {func(f stateFixture) { f.putData("other") }, "other"},
		"unmarked data":       {func(f stateFixture) { f.putData("") }, "no " + markFile},
		"data is gone":        {func(stateFixture) {}, "missing"},
		"damaged mark": {func(f stateFixture) {
			f.putData("i")
			_ = os.WriteFile(filepath.Join(f.data, markFile), []byte("x"), 0o600)
		}, "mark"},
		"data that was not made":  {func(f stateFixture) { f.putData(""); f.overwrite(`{"format":1,"data":"Empty"}`) }, "never made"},
		"marked data, none known": {func(f stateFixture) { f.putData("i"); f.overwrite(`{"format":1,"data":"Empty"}`) }, "incarnation i"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newStateFixture(t)
			f.set(func(s *state) { s.ClusterID, s.Data, s.Incarnation = "c", agentapi.DataReady, "i"; f.putData("i") })
			if err := os.RemoveAll(f.data); err != nil {
				t.Fatal(err)
			}
			tc.spoil(f)
			s, err := f.load()
			if err == nil || !strings.Contains(err.Error(), tc.names) {
				t.Fatalf("error %v should name %q", err, tc.names)
			}
			if s.ready() || s.update(func(*state) {}) == nil {
				t.Error("a state that was not loaded can be written")
			}
		})
	}
}

func (f stateFixture) overwrite(text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, stateFile), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func TestExplain(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.ENOSPC: "full", syscall.EROFS: "read-only", syscall.EACCES: "fsGroup"} {
		if err := explain(&os.PathError{Op: "write", Path: "x", Err: errno}); !strings.Contains(err.Error(), want) || !errors.Is(err, errno) {
			t.Errorf("%v is explained as %v", errno, err)
		}
	}
}

// TestStateVolumeFull: what cannot be written is not acted on. /dev/full refuses writes like a full volume.
func TestStateVolumeFull(t *testing.T) {
	f := newStateFixture(t)
	s := f.mustLoad()
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	if err := s.update(func(s *state) { s.Epoch = 9 }); err == nil {
		t.Fatal("the update of a state that cannot be written succeeds")
	}
	if got := s.get().Epoch; got != 0 {
		t.Errorf("the epoch became %d though it is not on disk", got)
	}
}
