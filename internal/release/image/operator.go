package image

import (
	"bytes"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Binaries are the programs of the operator image, in the order of their layers: the one that
// changes least often first.
var Binaries = []string{"kubectl-porpoise", "agent", "manager"}

// OperatorSpec says what the operator image is made of.
type OperatorSpec struct {
	// BinDir holds the programs named in [Binaries], statically linked.
	BinDir string
	// Arch is the programs' architecture as Go names it, e.g. amd64.
	Arch string
	// Version and Revision become labels: the product's version and the git commit.
	Version, Revision string
}

// Operator builds the operator image: the binaries, certificate authorities, and a user to run as.
// The same spec and binaries give the same digest.
func Operator(spec OperatorSpec) (v1.Image, error) {
	base, err := baseLayer()
	if err != nil {
		return nil, err
	}
	layers := []mutate.Addendum{addendum(base, "user and certificate authorities")}
	for _, name := range Binaries {
		path := filepath.Join(spec.BinDir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a binary of the operator image (make it with: make build): %w", err)
		}
		if err := checkStatic(data, spec.Arch); err != nil {
			return nil, fmt.Errorf("binary %s: %w", path, err)
		}
		layer, err := layerOf([]fileEntry{{name: name, mode: 0o755, data: data}})
		if err != nil {
			return nil, err
		}
		layers = append(layers, addendum(layer, "binary "+name))
	}
	return assemble(spec.Arch, v1.Config{
		User:       fmt.Sprintf("%d:%d", runAs, runAs),
		Entrypoint: []string{"/manager"},
		WorkingDir: "/",
		Env:        []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "porpoise-operator",
			"org.opencontainers.image.description": "Porpoise, a Kubernetes operator for MySQL",
			"org.opencontainers.image.version":     spec.Version,
			"org.opencontainers.image.revision":    spec.Revision,
			"org.opencontainers.image.source":      "https://github.com/porpoise-dev/porpoise",
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}, layers)
}

func addendum(layer v1.Layer, what string) mutate.Addendum {
	return mutate.Addendum{
		Layer:     layer,
		History:   v1.History{CreatedBy: what, Created: v1.Time{Time: epoch}},
		MediaType: types.OCILayer,
	}
}

// assemble puts layers and configuration together to an OCI image for Linux.
func assemble(arch string, config v1.Config, layers []mutate.Addendum) (v1.Image, error) {
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: epoch}, Config: config,
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("set the image's configuration: %w", err)
	}
	img, err = mutate.Append(img, layers...)
	if err != nil {
		return nil, fmt.Errorf("append the image's layers: %w", err)
	}
	return img, nil
}

// baseLayer holds what a static Go program may look up.
func baseLayer() (v1.Layer, error) {
	user := fmt.Sprintf("porpoise:x:%d:%d:porpoise:/:/sbin/nologin\n", runAs, runAs)
	return layerOf([]fileEntry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nporpoise:x:%d:\n", runAs)},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/sbin/nologin\n" + user)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificateAuthorities()},
		{name: "tmp/", mode: 0o1777},
	})
}

// certificateAuthorities renders the trust store of Mozilla. Authorities which are trusted only with a
// constraint (e.g. for certificates issued before a date) are left out, since a file of
// certificates cannot say so.
func certificateAuthorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		// Encode fails only when the writer does, and a buffer does not.
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
	}
	return out.Bytes()
}

// machines maps Go's names of architectures to those in ELF headers.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkStatic refuses a program that would not start in an image without C library.
func checkStatic(program []byte, arch string) error {
	machine, known := machines[arch]
	if !known {
		return fmt.Errorf("architecture %q: want amd64 or arm64", arch)
	}
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("read as a Linux program: %w", err)
	}
	if file.Machine != machine {
		return fmt.Errorf("is built for %s, want %s", file.Machine, machine)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("needs a dynamic loader, which the image does not have: build it with CGO_ENABLED=0")
		}
	}
	return nil
}
