// Package images makes the few images a cluster needs itself, each of one static program, as docker archives that containerd imports.
package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Write makes the archive at target: an image called reference whose entry point is the given program.
func Write(target, reference, program string) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	image, err := build(program)
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	if err := tarball.WriteToFile(target+".new", tag, image); err != nil {
		return fmt.Errorf("write image %s: %w", reference, err)
	}
	return os.Rename(target+".new", target)
}

func build(program string) (v1.Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	entry := "/" + path.Base(program)
	files, err := layerTar(entry, content)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithCompression(compression.None)) // these archives never leave the machine; inflating would only delay the start
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{entry}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("set config: %w", err)
	}
	return image, nil
}

// layerTar holds the program and, for programs that want one, an empty /tmp.
func layerTar(entry string, content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if err := w.WriteHeader(&tar.Header{Name: entry[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	return out.Bytes(), nil
}
