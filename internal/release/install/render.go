package install

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/porpoise-dev/porpoise/internal/release/image"
)

// What of the tree is rendered; the paths begin at its root.
const (
	sources       = "config"
	overlay       = "config/default"
	kustomization = overlay + "/kustomization.yaml"
	imageMap      = "config/manager/images.yaml"
)

// Names of the images in config/.
const (
	operatorName = "porpoise.dev/porpoise-operator"
	mysqlName    = "porpoise.dev/mysql"
)

// labelVersion tells the operator's version, by which `kubectl porpoise version` finds it.
const labelVersion = "app.kubernetes.io/version"

// Render returns the manifests of config/default, as YAML, with the images of the manifest. root is the folder of the
// work tree. An image that was not built is an image.ErrNotBuilt.
func Render(root string, images image.Manifest) ([]byte, error) {
	operator, err := images.Find(image.NameOperator)
	if err != nil {
		return nil, err
	}
	mysql, err := images.Find(image.NameMySQL)
	if err != nil {
		return nil, err
	}
	files, err := readSources(root)
	if err != nil {
		return nil, err
	}
	if err := edit(files, kustomization, func(text []byte) ([]byte, error) { return setOperator(text, operator) }); err != nil {
		return nil, err
	}
	err = edit(files, imageMap, func(text []byte) ([]byte, error) {
		return []byte(replaceReference(string(text), mysqlName+":"+mysql.Version, mysql.DeployRef())), nil
	})
	if err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // The overlay says it; kustomize warns where both do.
	resources, err := krusty.MakeKustomizer(options).Run(files, overlay)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", overlay, err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", overlay, err)
	}
	return text, nil
}

// readSources copies config/ into memory.
func readSources(root string) (filesys.FileSystem, error) {
	files := filesys.MakeFsInMemory()
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, sources, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		return files.WriteFile(path, text)
	})
	if err != nil {
		return nil, fmt.Errorf("read the manifests below %s: %w", root, err)
	}
	return files, nil
}

func edit(files filesys.FileSystem, path string, change func([]byte) ([]byte, error)) error {
	text, err := files.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if text, err = change(text); err != nil {
		return fmt.Errorf("edit %s: %w", path, err)
	}
	if err := files.WriteFile(path, text); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// setOperator does what `kustomize edit set image` does, and sets the version.
func setOperator(text []byte, operator image.Built) ([]byte, error) {
	var k types.Kustomization
	if err := k.Unmarshal(text); err != nil {
		return nil, err
	}
	k.Images = slices.DeleteFunc(k.Images, func(i types.Image) bool { return i.Name == operatorName })
	k.Images = append(k.Images, imageOf(operatorName, operator.DeployRef()))
	version, err := labelOf(operator.Version)
	if err != nil {
		return nil, err
	}
	for _, l := range k.Labels {
		if _, ok := l.Pairs[labelVersion]; ok {
			l.Pairs[labelVersion] = version
		}
	}
	return yaml.Marshal(k)
}

// labelOf returns a version as the value of a label, where a plus is not allowed.
func labelOf(version string) (string, error) {
	value := strings.ReplaceAll(version, "+", "_")
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return "", fmt.Errorf("version %q of the operator's image: it cannot be a label: %s", version, strings.Join(problems, "; "))
	}
	return value, nil
}

// imageOf says that the image of a name is to become that of a reference.
func imageOf(name, reference string) types.Image {
	out := types.Image{Name: name}
	reference, out.Digest, _ = strings.Cut(reference, "@")
	if colon := strings.LastIndex(reference, ":"); colon > strings.LastIndex(reference, "/") {
		reference, out.NewTag = reference[:colon], reference[colon+1:]
	}
	out.NewName = reference
	if out.Digest != "" {
		out.NewTag = "" // The digest says it all, and kustomize takes one of the two.
	}
	return out
}

// referenceCharacters may follow within a reference.
const referenceCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@"

// replaceReference replaces whole references only: …:9.7.4 in …:9.7.4-debug stays.
func replaceReference(text, old, fresh string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, old)
		out.WriteString(before)
		switch {
		case !found:
			return out.String()
		case after != "" && strings.ContainsRune(referenceCharacters, rune(after[0])):
			out.WriteString(old)
		default:
			out.WriteString(fresh)
		}
		text = after
	}
}
