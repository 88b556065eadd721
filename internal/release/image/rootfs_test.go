package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const testStatus = `Package: base-files
Version: 14

Package: mysql-server-core
Status: install ok installed
Version: 1:9.7.4-2+b1

`

// testRootfs is a root file system as mmdebstrap would write it.
func testRootfs(t *testing.T) []byte {
	t.Helper()
	now := time.Now()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, text string) {
		h.ModTime, h.Size, h.Mode = now, int64(len(text)), max(h.Mode, 0o644)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "./", Typeflag: tar.TypeDir}, "")
	for _, dir := range []string{"etc", "tmp", "usr", "usr/bin", "usr/sbin", "usr/share/doc", "var", "var/lib", "var/lib/dpkg", "run", "dev"} {
		add(tar.Header{Name: "./" + dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}, "")
	}
	add(tar.Header{Name: "./bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"}, "")
	add(tar.Header{Name: "./dev/null", Typeflag: tar.TypeChar}, "")
	add(tar.Header{Name: "./etc/passwd", Typeflag: tar.TypeReg}, "root:x:0:0::/:/bin/sh\n")
	add(tar.Header{Name: "./tmp/left", Typeflag: tar.TypeReg}, "over")
	add(tar.Header{Name: "./usr/bin/perl5.42.3", Typeflag: tar.TypeReg}, "perl")
	add(tar.Header{Name: "./usr/bin/perl", Typeflag: tar.TypeLink, Linkname: "./usr/bin/perl5.42.3"}, "")
	add(tar.Header{Name: "./usr/bin/mysql", Typeflag: tar.TypeReg, Mode: 0o755}, "#!/bin/sh\necho client\n")
	add(tar.Header{Name: "./usr/bin/mysqlalias", Typeflag: tar.TypeLink, Linkname: "./usr/bin/mysql"}, "")
	add(tar.Header{Name: "./usr/sbin/mysqld", Typeflag: tar.TypeReg, Mode: 0o755}, "server")
	add(tar.Header{Name: "./usr/share/doc/readme", Typeflag: tar.TypeReg}, "read me")
	add(tar.Header{Name: "./var/lib/dpkg/status", Typeflag: tar.TypeReg}, testStatus)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestSlim(t *testing.T) {
	var out bytes.Buffer
	found, err := slim(bytes.NewReader(testRootfs(t)), &out)
	if err != nil {
		t.Fatal(err)
	}
	version, err := found.version("mysql-server-core")
	if err != nil || version != "9.7.4" {
		t.Errorf("version = %q, %v; want 9.7.4", version, err)
	}
	if _, err := found.version("mysql-client"); err == nil {
		t.Error("the version of a package that is not installed was found")
	}
	got := map[string]string{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(epoch) {
			t.Errorf("%s has time %v: want %v, as every build must give the same digest", h.Name, h.ModTime, epoch)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(text)
	}
	for _, name := range []string{"dev/", "tmp/", "bin", "usr/bin/mysql", "usr/bin/mysqlalias", "usr/sbin/mysqld", "var/lib/mysql/", "run/mysqld/", "var/lib/dpkg/status"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"dev/null", "tmp/left", "usr/bin/perl", "usr/bin/perl5.42.3", "usr/share/doc/", "usr/share/doc/readme"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s should be left out", name)
		}
	}
	if !strings.Contains(got["etc/passwd"], "root:x:0:0") || !strings.Contains(got["etc/passwd"], "mysql:x:65532:65532") {
		t.Errorf("etc/passwd = %q: want the users it had and mysql", got["etc/passwd"])
	}
}

func TestSlimRefusesACutStream(t *testing.T) {
	full := testRootfs(t)
	for _, cut := range []int{0, 512, len(full) / 2} {
		if _, err := slim(bytes.NewReader(full[:cut]), io.Discard); err == nil {
			t.Errorf("a root file system cut to %d of %d bytes was accepted", cut, len(full))
		}
	}
}

func TestUpstreamVersion(t *testing.T) {
	for debian, want := range map[string]string{
		"9.7.4-2": "9.7.4", "1:9.7.4-2+b1": "9.7.4", "8.4.6-0+deb13u1": "8.4.6", "9.7.4+dfsg-1": "9.7.4", "9.7.4": "9.7.4",
	} {
		if got := upstreamVersion(debian); got != want {
			t.Errorf("upstreamVersion(%q) = %q, want %q", debian, got, want)
		}
	}
}

func TestUnpackFile(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "rootfs.tar")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slim(bytes.NewReader(testRootfs(t)), f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	if err := unpackFile(archive, root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/mysql", "usr/bin/mysqlalias"} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v; want a program that all may run", name, info, err)
		}
	}
}

func TestUnpackFileStaysBelowItsFolder(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "evil.tar")
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{{Name: "out", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "out/escaped", Typeflag: tar.TypeReg, Mode: 0o644}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(archive, buf.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := unpackFile(archive, filepath.Join(dir, "root")); err == nil {
		t.Error("an entry behind a link out of the folder was unpacked")
	}
	if exists(filepath.Join(dir, "escaped")) {
		t.Error("a file was written outside the folder")
	}
}

func TestWrappersKeepThePID(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	if err := writeWrappers(bin, "/some root", loaders["amd64"]); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(bin, "mysqld"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "#!/bin/sh\nexec '/some root/usr/lib64/ld-linux-x86-64.so.2' ") {
		t.Errorf("wrapper %q: want one that replaces itself by the loader", text)
	}
	if !strings.HasSuffix(string(text), `'/some root/usr/sbin/mysqld' "$@"`+"\n") {
		t.Errorf("wrapper %q: want the caller's arguments first, since mysqld takes --defaults-file only there", text)
	}
}
