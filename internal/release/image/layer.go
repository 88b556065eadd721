package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// runAs is the user and group of everything that runs in our images.
const runAs = 65532

// epoch is the time of every file and of every image: a real time would give each build another
// digest.
var epoch = time.Unix(0, 0).UTC()

// fileEntry is one file or, when its name ends in a slash, one folder of a layer.
type fileEntry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// layerOf makes a layer of the entries in the given order.
func layerOf(entries []fileEntry) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		header := &tar.Header{
			Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, ModTime: epoch,
			Size: int64(len(e.data)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write layer entry %s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("write layer entry %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish layer: %w", err)
	}
	return tarLayer(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
}

// tarLayer makes a layer of an uncompressed tar stream, which open opens anew at every call.
// Speed of compression is preferred: images travel between processes of one machine far more often
// than over a network.
func tarLayer(open tarball.Opener) (v1.Layer, error) {
	layer, err := tarball.LayerFromOpener(open,
		tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	return layer, nil
}
