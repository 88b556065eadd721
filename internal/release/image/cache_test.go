package image

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPublishDirKeepsTheOldOnFailure(t *testing.T) {
	target := filepath.Join(t.TempDir(), "thing")
	write := func(text string, fail error) error {
		return publishDir(target, func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600), fail)
		})
	}
	if err := write("first", nil); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := write("second", broken); !errors.Is(err, broken) {
		t.Fatalf("error %v, want that of the filler", err)
	}
	text, err := os.ReadFile(filepath.Join(target, "file"))
	if err != nil || string(text) != "first" {
		t.Errorf("file = %q, %v; want the first, since the second failed", text, err)
	}
	left, err := os.ReadDir(filepath.Dir(target))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want nothing but the folder", left, err)
	}
}

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*lockPoll)
	defer cancel()
	if _, err := lockFile(ctx, path, NewProgress(&out)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v: want the deadline, since the lock is taken", err)
	}
	if strings.Count(out.String(), path) != 1 {
		t.Errorf("progress %q: want one line that names the lock", out.String())
	}
	unlock()
	unlock, err = lockFile(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("lock again: %v", err)
	}
	unlock()
}

func TestCacheDir(t *testing.T) {
	t.Setenv("HOME", "/home/someone")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("PORPOISE_CACHE", "")
	for _, tt := range []struct{ variable, value, want string }{
		{"HOME", "/home/someone", "/home/someone/.cache/porpoise"},
		{"XDG_CACHE_HOME", "/cache", "/cache/porpoise"},
		{"PORPOISE_CACHE", "/elsewhere", "/elsewhere"},
	} {
		t.Setenv(tt.variable, tt.value)
		if got, err := CacheDir(); err != nil || got != tt.want {
			t.Errorf("with %s: %q, %v; want %q", tt.variable, got, err, tt.want)
		}
	}
}

func TestReachable(t *testing.T) {
	dir := t.TempDir() // below folders that others may enter, or not: look at our own part only
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if reachable(filepath.Join(closed, "below", "not-yet")) {
		t.Error("a folder below one that is closed to others was called reachable")
	}
	if !reachable("/usr/not-yet") {
		t.Error("/usr was called closed")
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := NewProgress(&out).Heartbeat(10*time.Second, func() string { return "alive" })
		time.Sleep(35 * time.Second) //nolint:forbidigo // The clock of this test is virtual.
		stop()
		if got := strings.Count(out.String(), "alive"); got != 3 {
			t.Errorf("%d heartbeats in 35 s of 10 s each, want 3:\n%s", got, out.String())
		}
	})
}
