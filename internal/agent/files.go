package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// writeDurable replaces a file as a whole: after it returns without error, power loss leaves the new content, before that
// the old. The directory must exist.
func writeDurable(path string, content []byte) error {
	return writeDurableFrom(path, func(to *os.File) error {
		_, err := to.Write(content)
		return err
	})
}

// writeDurableFrom is writeDurable for what write writes.
func writeDurableFrom(path string, write func(to *os.File) error) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return explain(err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := write(tmp); err != nil {
		return explain(err)
	}
	if err := tmp.Sync(); err != nil {
		return explain(err)
	}
	if err := tmp.Close(); err != nil {
		return explain(err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return explain(err)
	}
	return syncDir(dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return explain(err)
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil {
		return explain(err)
	}
	return nil
}

// explain says in words what a full or read-only volume means here.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the volume is full: grow spec.storage.size: %w", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the volume is read-only (the node may have remounted it after a disk error): %w", err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("the volume does not belong to this user: check the storage class's support of fsGroup: %w", err)
	default:
		return err
	}
}

// isEmptyDir says whether a directory is missing or empty.
func isEmptyDir(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}
