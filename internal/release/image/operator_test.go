package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// buildPrograms compiles a small program under the name of each of the image's binaries, in a new
// folder, with the flags of the Makefile.
func buildPrograms(t *testing.T, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	source := map[string]string{
		"go.mod":  "module example.org/program\n\ngo 1.26\n",
		"main.go": "package main\n\nfunc main() { println(\"hello\") }\n",
	}
	for name, text := range source {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the test's program: %v\n%s", err, out)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range Binaries {
		if err := os.Link(program, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

func buildOperator(t *testing.T) v1.Image {
	t.Helper()
	img, err := Operator(OperatorSpec{BinDir: buildPrograms(t), Arch: runtime.GOARCH, Version: "v1.0.0", Revision: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digestOf(t *testing.T, img v1.Image) string {
	t.Helper()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func TestOperatorIsReproducible(t *testing.T) {
	first, second := digestOf(t, buildOperator(t)), digestOf(t, buildOperator(t))
	if first != second {
		t.Errorf("two builds in different folders gave %s and %s", first, second)
	}
}

func TestOperatorContents(t *testing.T) {
	img := buildOperator(t)
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || !cmp.Equal(config.Config.Entrypoint, []string{"/manager"}) {
		t.Errorf("user %q, entrypoint %q: want 65532:65532 and /manager", config.Config.User, config.Config.Entrypoint)
	}
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != "v1.0.0" {
		t.Errorf("version label %q, want v1.0.0", got)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("platform %s/%s, want linux/%s", config.OS, config.Architecture, runtime.GOARCH)
	}
	files := filesOf(t, img)
	for _, name := range []string{"manager", "agent", "kubectl-porpoise"} {
		if files[name] == nil || files[name].Mode != 0o755 {
			t.Errorf("/%s: %+v, want a program", name, files[name])
		}
	}
	if ca := files["etc/ssl/certs/ca-certificates.crt"]; ca == nil || ca.Size < 50_000 {
		t.Errorf("certificate authorities: %+v, want the public ones", ca)
	}
}

func filesOf(t *testing.T, img v1.Image) map[string]*tar.Header {
	t.Helper()
	stream := mutate.Extract(img)
	defer func() { _ = stream.Close() }()
	files := map[string]*tar.Header{}
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(h.Name, "/")] = h
	}
}

func TestOperatorRefusesBinaries(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	script := t.TempDir()
	for _, name := range Binaries {
		if err := os.WriteFile(filepath.Join(script, name), []byte("#!/bin/sh\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dynamic := t.TempDir()
	for _, name := range Binaries {
		if err := os.Link(dynamicProgram(t), filepath.Join(dynamic, name)); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		bin, arch, want string
	}{
		"missing":            {bin: t.TempDir(), arch: runtime.GOARCH, want: "make build"},
		"not a program":      {bin: script, arch: runtime.GOARCH, want: "read as a Linux program"},
		"other architecture": {bin: buildPrograms(t), arch: other, want: "is built for"},
		"unknown":            {bin: buildPrograms(t), arch: "z80", want: "want amd64 or arm64"},
		"dynamic":            {bin: dynamic, arch: runtime.GOARCH, want: "CGO_ENABLED=0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Operator(OperatorSpec{BinDir: tt.bin, Arch: tt.arch})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v: want one with %q", err, tt.want)
			}
		})
	}
}

// dynamicProgram is a copy of a program of the machine, which needs a loader.
func dynamicProgram(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSaveLoadPush(t *testing.T) {
	img := buildOperator(t)
	want := digestOf(t, img)
	built, err := SaveOperator(t.TempDir(), img, "dev", "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(built.Ref, "porpoise.dev/porpoise-operator:dev-") || !strings.HasSuffix(want[:19], built.Ref[len(built.Ref)-12:]) {
		t.Errorf("reference %s: want a tag that carries digest %s", built.Ref, want)
	}

	t.Run("layout", func(t *testing.T) {
		saved, err := loadLayout(built)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(saved); err != nil {
			t.Error(err)
		}
	})

	t.Run("archive in docker's form", func(t *testing.T) {
		for _, ref := range built.Tags {
			tag, err := name.NewTag(ref)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := tarball.ImageFromPath(built.Archive(), &tag)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(configOf(t, img), configOf(t, loaded)); diff != "" {
				t.Errorf("configuration of %s (-built +loaded):\n%s", ref, diff)
			}
		}
	})

	t.Run("archive in containerd's form", func(t *testing.T) {
		var names []string
		for _, m := range archiveIndex(t, built.Archive()).Manifests {
			names = append(names, m.Annotations[containerdName])
			if m.Digest.String() != want {
				t.Errorf("the archive has %s, want %s", m.Digest, want)
			}
		}
		if diff := cmp.Diff(built.Tags, names); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	})

	t.Run("push", func(t *testing.T) {
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		defer server.Close()
		host := strings.TrimPrefix(server.URL, "http://")
		ref, err := Push(t.Context(), built, PushOptions{Registry: host + "/team"})
		if err != nil {
			t.Fatal(err)
		}
		if ref != host+"/team/porpoise-operator@"+want {
			t.Errorf("pushed %s, want digest %s in %s/team", ref, want, host)
		}
		for _, pulled := range []string{ref, host + "/team/porpoise-operator:dev"} {
			parsed, err := name.ParseReference(pulled)
			if err != nil {
				t.Fatal(err)
			}
			got, err := remote.Image(parsed)
			if err != nil {
				t.Fatal(err)
			}
			if digestOf(t, got) != want {
				t.Errorf("%s is %s, want %s", pulled, digestOf(t, got), want)
			}
		}
	})

	t.Run("push to nowhere", func(t *testing.T) {
		if _, err := Push(t.Context(), built, PushOptions{Registry: "UPPER CASE"}); err == nil || !strings.Contains(err.Error(), "host[:port]") {
			t.Errorf("error %v: want one that says how a registry is written", err)
		}
	})
}

func configOf(t *testing.T, img v1.Image) *v1.ConfigFile {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// archiveIndex reads index.json of an OCI archive, as containerd does.
func archiveIndex(t *testing.T, path string) v1.IndexManifest {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var index v1.IndexManifest
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("find index.json in %s: %v", path, err)
		}
		if h.Name != "index.json" {
			continue
		}
		if err := json.NewDecoder(r).Decode(&index); err != nil {
			t.Fatal(err)
		}
		return index
	}
}

func TestManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "images.json")
	m, err := ReadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Find(NameMySQL); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("error %v, want ErrNotBuilt", err)
	}
	m.Put(Built{Name: NameOperator, Ref: "old"})
	m.Put(Built{Name: NameMySQL, Ref: "mysql"})
	m.Put(Built{Name: NameOperator, Ref: "new", Pushed: "registry/new@sha256:1"})
	if err := m.Write(path); err != nil {
		t.Fatal(err)
	}
	m, err = ReadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Images) != 2 {
		t.Errorf("%d images, want 2: the same name replaces", len(m.Images))
	}
	if b, err := m.Find(NameOperator); err != nil || b.DeployRef() != "registry/new@sha256:1" {
		t.Errorf("found %+v, %v: want the pushed reference", b, err)
	}
	if b, err := m.Find(NameMySQL); err != nil || b.DeployRef() != "mysql" {
		t.Errorf("found %+v, %v: want the reference as built", b, err)
	}
}
