package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Names of the images in a [Manifest].
const (
	NameOperator = "operator"
	NameMySQL    = "mysql"
)

// repository is where the project's images are named; nothing is served there for development tags.
const repository = "porpoise.dev"

// Built describes one image that was built.
type Built struct {
	// Name is NameOperator or NameMySQL.
	Name string `json:"name"`
	// Ref is the reference to deploy. Its tag changes with the content, so that a new build is rolled
	// out although nodes do not pull a tag which they have.
	Ref string `json:"ref"`
	// Tags are all references which the archive carries, Ref among them.
	Tags []string `json:"tags"`
	// Digest is that of the image's manifest, e.g. sha256:….
	Digest string `json:"digest"`
	// Version is the version of the software in the image.
	Version string `json:"version"`
	// Dir holds the OCI layout ("layout") and its archive ("image.tar").
	Dir string `json:"dir"`
	// Pushed is the reference by digest in the registry to which the image was pushed last.
	Pushed string `json:"pushed,omitempty"`
}

// Archive is the path of the archive for `ctr images import`, kind and docker load.
func (b Built) Archive() string { return filepath.Join(b.Dir, archiveName) }

// Layout is the path of the OCI layout.
func (b Built) Layout() string { return filepath.Join(b.Dir, layoutDir) }

// DeployRef is the reference a cluster can use: the pushed one if there is one.
func (b Built) DeployRef() string {
	if b.Pushed != "" {
		return b.Pushed
	}
	return b.Ref
}

// Manifest lists the images built from one work tree.
type Manifest struct {
	Images []Built `json:"images"`
}

// ErrNotBuilt is returned for an image which is not in the manifest.
var ErrNotBuilt = errors.New("image is not built (make it with: make images)")

// Find returns the image of that name.
func (m Manifest) Find(name string) (Built, error) {
	for _, b := range m.Images {
		if b.Name == name {
			return b, nil
		}
	}
	return Built{}, fmt.Errorf("find image %q: %w", name, ErrNotBuilt)
}

// Put adds an image, replacing the one of the same name.
func (m *Manifest) Put(b Built) {
	m.Images = slices.DeleteFunc(m.Images, func(old Built) bool { return old.Name == b.Name })
	m.Images = append(m.Images, b)
	slices.SortFunc(m.Images, func(a, b Built) int { return strings.Compare(a.Name, b.Name) })
}

// ReadManifest reads the manifest file; a missing one is empty.
func ReadManifest(path string) (Manifest, error) {
	var m Manifest
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("read the list of images: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("parse the list of images %s: %w", path, err)
	}
	return m, nil
}

// Write writes the manifest file.
func (m Manifest) Write(path string) error {
	return writeJSON(path, m)
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the folder of %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// SaveOperator writes the operator image below dir. The tag dev is for people; the reference to
// deploy carries the digest in its tag. Any other tag is a version and is used as it is.
func SaveOperator(dir string, img v1.Image, tag, version string) (Built, error) {
	digest, err := img.Digest()
	if err != nil {
		return Built{}, fmt.Errorf("compute the digest of the operator image: %w", err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return Built{}, fmt.Errorf("find folder %s: %w", dir, err)
	}
	name := repository + "/porpoise-operator:" + tag
	b := Built{Name: NameOperator, Ref: name, Tags: []string{name}, Digest: digest.String(), Version: version, Dir: filepath.Join(dir, NameOperator)}
	if tag == "dev" {
		b.Ref = name + "-" + digest.Hex[:12]
		b.Tags = append(b.Tags, b.Ref)
	}
	return b, publishDir(b.Dir, func(tmp string) error { return writeLayout(tmp, img, b.Tags) })
}

// repositoryName is the last part of a reference without tag and digest, e.g. mysql.
func repositoryName(ref string) string {
	name := ref[strings.LastIndex(ref, "/")+1:]
	if end := strings.IndexAny(name, ":@"); end >= 0 {
		name = name[:end]
	}
	return name
}
