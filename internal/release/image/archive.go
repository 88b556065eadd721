package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

const (
	// containerdName is the annotation from which containerd takes the full name of an image in an OCI
	// archive.
	containerdName = "io.containerd.image.name"
	layoutDir      = "layout"
	archiveName    = "image.tar"
)

// writeLayout writes img as an OCI layout with one entry per tag into dir/layout, and as an archive
// into dir/image.tar.
func writeLayout(dir string, img v1.Image, tags []string) error {
	target := filepath.Join(dir, layoutDir)
	l, err := layout.Write(target, empty.Index)
	if err != nil {
		return fmt.Errorf("write OCI layout %s: %w", target, err)
	}
	for _, tag := range tags {
		err := l.AppendImage(img, layout.WithAnnotations(map[string]string{
			containerdName:                      tag,
			"org.opencontainers.image.ref.name": path.Base(tag)[1+len(repositoryName(tag)):],
		}))
		if err != nil {
			return fmt.Errorf("write %s into OCI layout %s: %w", tag, target, err)
		}
	}
	return writeArchive(filepath.Join(dir, archiveName), target, img, tags)
}

// dockerManifest is the index of an archive in the form of `docker save`, which older versions of
// docker load. The blobs are shared with the OCI layout in the same archive.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func writeArchive(target, layoutPath string, img v1.Image, tags []string) (err error) {
	manifest, err := img.Manifest()
	if err != nil {
		return fmt.Errorf("read the image's manifest: %w", err)
	}
	docker := dockerManifest{Config: blobPath(manifest.Config.Digest), RepoTags: tags}
	for _, l := range manifest.Layers {
		docker.Layers = append(docker.Layers, blobPath(l.Digest))
	}
	index, err := json.Marshal([]dockerManifest{docker})
	if err != nil {
		return fmt.Errorf("encode the archive's index: %w", err)
	}
	f, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("create image archive: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	if err := addTree(w, os.DirFS(layoutPath)); err != nil {
		return fmt.Errorf("write image archive %s: %w", target, err)
	}
	if err := w.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o644, Size: int64(len(index)), ModTime: epoch}); err != nil {
		return fmt.Errorf("write image archive %s: %w", target, err)
	}
	if _, err := w.Write(index); err != nil {
		return fmt.Errorf("write image archive %s: %w", target, err)
	}
	return w.Close()
}

func blobPath(digest v1.Hash) string {
	return path.Join("blobs", digest.Algorithm, digest.Hex)
}

// addTree adds all files of a folder to an archive, in the order of their names.
func addTree(w *tar.Writer, tree fs.FS) error {
	var files []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, name := range files {
		if err := addFile(w, tree, name); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	return nil
}

func addFile(w *tar.Writer, tree fs.FS, name string) error {
	f, err := tree.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: epoch}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
