package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// CacheDir is the folder for what is costly to make and does not depend on the work tree:
// $PORPOISE_CACHE, or porpoise below the user's cache folder ($XDG_CACHE_HOME or ~/.cache).
func CacheDir() (string, error) {
	if dir := os.Getenv("PORPOISE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set PORPOISE_CACHE to choose one): %w", err)
	}
	return filepath.Join(base, "porpoise"), nil
}

// lockPoll is how often a waiting process looks whether the one that builds is ready.
const lockPoll = 250 * time.Millisecond

// lockFile takes an exclusive lock on path, so that two builds of the same thing do not both spend
// the minute it takes. The lock is released by the returned function, and by the kernel when the
// process dies.
func lockFile(ctx context.Context, path string, progress *Progress) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create the folder of lock %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", path, err)
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			progress.Printf("another process is building this; waiting for its lock %s", path)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for lock %s: %w", path, ctx.Err())
		case <-tick.C:
		}
	}
}

// publishDir makes target hold what fill wrote, in one step: a reader sees the whole folder or none,
// and a failed or killed fill leaves nothing that looks ready.
func publishDir(target string, fill func(dir string) error) error {
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", parent, err)
	}
	tmp, err := os.MkdirTemp(parent, filepath.Base(target)+".new-")
	if err != nil {
		return fmt.Errorf("create a folder beside %s: %w", target, err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil { //nolint:gosec // tests of other users read the cache
		return fmt.Errorf("open %s to readers: %w", tmp, err)
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("remove the former %s: %w", target, err)
	}
	if err := os.Rename(tmp, target); err != nil {
		return fmt.Errorf("publish %s: %w", target, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
