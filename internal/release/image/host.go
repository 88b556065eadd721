package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// systemCache is used by root for what other users must reach: tests run mysqld as another user, and
// root's home is closed to it.
const systemCache = "/var/cache/porpoise"

// hostPrograms are the programs made callable on the host, as paths in the root file system.
var hostPrograms = []string{"usr/sbin/mysqld", "usr/bin/mysql", "usr/bin/mysqladmin", "usr/bin/mysqlbinlog", "usr/bin/mysqldump"}

// loaders are the dynamic loaders of architectures, with the folder of their libraries.
var loaders = map[string][2]string{
	"amd64": {"usr/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu"},
	"arm64": {"usr/lib/ld-linux-aarch64.so.1", "usr/lib/aarch64-linux-gnu"},
}

// HostMySQL unpacks the root file system of the MySQL image and returns a folder with mysqld, mysql,
// mysqladmin, mysqlbinlog and mysqldump that run on this machine. A started mysqld is the started
// process itself, not a child of it, and finds its plugins and messages without options.
func HostMySQL(ctx context.Context, spec MySQLSpec, cache string, progress *Progress) (binDir string, err error) {
	loader, known := loaders[runtime.GOARCH]
	if !known {
		return "", fmt.Errorf("architecture %q: want amd64 or arm64", runtime.GOARCH)
	}
	built, err := MySQL(ctx, spec, cache, progress)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(hostBase(cache), "mysql-host", filepath.Base(built.Dir)+"-"+strings.TrimPrefix(built.Digest, "sha256:")[:12])
	binDir = filepath.Join(dir, "bin")
	if exists(binDir) {
		return binDir, nil
	}
	unlock, err := lockFile(ctx, dir+".lock", progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(binDir) {
		return binDir, nil
	}
	progress.Printf("unpacking MySQL %s for use on this machine into %s", built.Version, dir)
	err = publishDir(dir, func(tmp string) error {
		if err := unpackFile(filepath.Join(built.Dir, rootfsName), filepath.Join(tmp, "rootfs")); err != nil {
			return err
		}
		return writeWrappers(filepath.Join(tmp, "bin"), filepath.Join(dir, "rootfs"), loader)
	})
	if err != nil {
		return "", fmt.Errorf("unpack MySQL for this machine: %w", err)
	}
	return binDir, nil
}

// hostBase is the cache folder, or the system's when root works and others could not reach the former.
func hostBase(cache string) string {
	if os.Geteuid() != 0 || reachable(cache) {
		return cache
	}
	return systemCache
}

// reachable tells whether users other than the owner may enter a folder; the part of it which does
// not exist yet will be made so.
func reachable(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func writeWrappers(binDir, root string, loader [2]string) error {
	if err := os.MkdirAll(binDir, 0o755); err != nil {
		return fmt.Errorf("create the folder of programs: %w", err)
	}
	for _, program := range hostPrograms {
		// --argv0 lets mysqld find its plugins and messages relative to its own path, and the host's
		// library cache is ignored since it lists libraries that do not fit.
		text := fmt.Sprintf("#!/bin/sh\nexec '%[1]s/%[2]s' --inhibit-cache --library-path '%[1]s/%[3]s' --argv0 '%[1]s/%[4]s' '%[1]s/%[4]s' \"$@\"\n",
			root, loader[0], loader[1], program)
		if err := os.WriteFile(filepath.Join(binDir, filepath.Base(program)), []byte(text), 0o755); err != nil {
			return fmt.Errorf("write the starter of %s: %w", program, err)
		}
	}
	return nil
}

func unpackFile(archive, target string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("open the root file system's archive: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", target, err)
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return fmt.Errorf("open %s: %w", target, err)
	}
	defer func() { _ = root.Close() }()
	for reader := tar.NewReader(f); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", archive, err)
		}
		if err := unpackEntry(root, header, reader); err != nil {
			return fmt.Errorf("unpack %s: %w", header.Name, err)
		}
	}
}

// unpackEntry writes one entry below root, which no name or link can leave. Owners are not set: the
// files are read only, and an unprivileged user unpacks them as well.
func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(header.Name, "/")
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return root.Link(header.Linkname, name)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.FileMode(header.Mode).Perm()|0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
