package toolchain

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// KubernetesVersion is pinned here and in kube/go.mod; a test compares the two.
const KubernetesVersion = "v1.37.2"

const sourceMarker = "kube/go.mod"

// SourceDir finds the directory test/cluster/kube: from the place this program was compiled at, or upwards from the working directory.
func SourceDir() (string, error) {
	var candidates []string
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		candidates = append(candidates, filepath.Join(filepath.Dir(file), "..", ".."))
	}
	if wd, err := os.Getwd(); err == nil {
		for dir := wd; ; dir = filepath.Dir(dir) {
			candidates = append(candidates, dir, filepath.Join(dir, "test", "cluster"))
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, sourceMarker)); err == nil {
			return filepath.Join(dir, "kube"), nil
		}
	}
	return "", errors.New("cannot find test/cluster/kube; run this inside of the porpoise repository")
}

// CacheRoot is the directory of all caches of this project.
func CacheRoot() (string, error) {
	if dir := os.Getenv("PORPOISE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "porpoise"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory (set PORPOISE_CACHE): %w", err)
	}
	return filepath.Join(home, ".cache", "porpoise"), nil
}

// key hashes every input of the build.
func key(source string, extra ...string) (string, error) {
	hash := sha256.New()
	for _, e := range extra {
		fmt.Fprintf(hash, "%q\n", e)
	}
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		relative, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%q\n", relative)
		_, err = io.Copy(hash, f)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash sources in %s: %w", source, err)
	}
	return KubernetesVersion + "-" + hex.EncodeToString(hash.Sum(nil))[:16], nil
}
