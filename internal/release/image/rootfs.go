package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// rootfsFacts is what is learnt from a root file system while it is copied.
type rootfsFacts struct {
	size       int64
	dpkgStatus []byte
}

// version returns the upstream version of an installed package, e.g. 9.7.4 for Debian's 9.7.4-2.
func (f rootfsFacts) version(pkg string) (string, error) {
	for paragraph := range strings.SplitSeq(string(f.dpkgStatus), "\n\n") {
		name, version := "", ""
		for line := range strings.Lines(paragraph) {
			if v, ok := strings.CutPrefix(line, "Package: "); ok {
				name = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "Version: "); ok {
				version = strings.TrimSpace(v)
			}
		}
		if name == pkg && version != "" {
			return upstreamVersion(version), nil
		}
	}
	return "", fmt.Errorf("find the version of package %s: it is not in the root file system's package list", pkg)
}

// upstreamVersion strips epoch and Debian revision: [epoch:]upstream[-revision].
func upstreamVersion(debian string) string {
	if _, after, found := strings.Cut(debian, ":"); found {
		debian = after
	}
	if i := strings.LastIndex(debian, "-"); i >= 0 {
		debian = debian[:i]
	}
	upstream, _, _ := strings.Cut(debian, "+")
	return upstream
}

// slim copies a root file system from in to out without what [wanted] refuses, with fixed times, and
// with the user, the group and the folders that images of MySQL have.
func slim(in io.Reader, out io.Writer) (rootfsFacts, error) {
	var found rootfsFacts
	reader, writer := tar.NewReader(in), tar.NewWriter(out)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return found, fmt.Errorf("read the next file: %w", err)
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if name == "" || !wanted(name) {
			continue
		}
		if err := copyEntry(writer, header, name, reader, &found); err != nil {
			return found, fmt.Errorf("copy %s: %w", name, err)
		}
	}
	for _, dir := range []string{"run/mysqld/", "var/lib/mysql/", "var/lib/mysql-files/"} {
		err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o750, Uid: runAs, Gid: runAs, ModTime: epoch})
		if err != nil {
			return found, fmt.Errorf("add folder %s: %w", dir, err)
		}
	}
	if len(found.dpkgStatus) == 0 {
		return found, fmt.Errorf("the root file system has no package list: was it cut short?")
	}
	return found, writer.Close()
}

// mysqlUser is added to /etc/passwd and, cut, to /etc/group: Debian's package without server
// set-up does not make the user.
var mysqlUser = map[string]string{
	"etc/passwd": fmt.Sprintf("mysql:x:%d:%d:MySQL:/var/lib/mysql:/usr/sbin/nologin\n", runAs, runAs),
	"etc/group":  fmt.Sprintf("mysql:x:%d:\n", runAs),
}

const dpkgStatusPath = "var/lib/dpkg/status"

func copyEntry(writer *tar.Writer, header *tar.Header, name string, content io.Reader, found *rootfsFacts) error {
	clean := tar.Header{
		Typeflag: header.Typeflag, Name: name, Linkname: header.Linkname, Size: header.Size,
		Mode: header.Mode, Uid: header.Uid, Gid: header.Gid, ModTime: epoch,
	}
	switch header.Typeflag {
	case tar.TypeDir:
		clean.Name += "/"
	case tar.TypeLink:
		clean.Linkname = strings.TrimPrefix(path.Clean("/"+header.Linkname), "/")
		if !wanted(clean.Linkname) {
			return fmt.Errorf("is a hard link to %s, which is left out", clean.Linkname)
		}
	case tar.TypeReg, tar.TypeSymlink:
	default:
		return nil // Devices: the container runtime makes them.
	}
	if addition, special := mysqlUser[name]; special || name == dpkgStatusPath {
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if name == dpkgStatusPath {
			found.dpkgStatus = data
		}
		data = append(data, addition...)
		clean.Size, content = int64(len(data)), bytes.NewReader(data)
	}
	found.size += clean.Size
	if err := writer.WriteHeader(&clean); err != nil {
		return err
	}
	_, err := io.Copy(writer, content)
	return err
}
