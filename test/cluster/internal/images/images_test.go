package images

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestWriteMakesAnArchiveWithTheProgramAsEntryPoint(t *testing.T) {
	dir := t.TempDir()
	program, archive := filepath.Join(dir, "tool"), filepath.Join(dir, "tool.tar")
	if err := os.WriteFile(program, []byte("not really a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(archive, "porpoise.local/tool:1", program); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/tool" || config.OS != "linux" {
		t.Errorf("config %+v, OS %q", config.Config, config.OS)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers %v, %v; want one", layers, err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	modes := map[string]int64{}
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
	if modes["tool"] != 0o755 || modes["tmp/"] != 0o1777 {
		t.Errorf("files %v; want an executable tool and an open tmp", modes)
	}
}

func TestWriteRefusesBadInput(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "x"), "Not A Reference", "/bin/true"); err == nil {
		t.Error("a bad image name was accepted")
	}
	if err := Write(filepath.Join(t.TempDir(), "x"), "a:1", "/does/not/exist"); err == nil {
		t.Error("a missing program was accepted")
	}
}
