package desired

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ImageMap says which image holds a MySQL version: a series (9.7) or an exact release (9.7.4).
type ImageMap map[string]string

// ParseImageMap reads an image map from YAML:
//
//	images:
//	  "9.7": registry.example/mysql:9.7.4
func ParseImageMap(raw []byte) (ImageMap, error) {
	var file struct {
		Images map[string]string `json:"images"`
	}
	if err := yaml.UnmarshalStrict(raw, &file); err != nil {
		return nil, fmt.Errorf("parse image map: %w", err)
	}
	for version, image := range file.Images {
		if version == "" || image == "" {
			return nil, fmt.Errorf("parse image map: images[%q]: %q: neither the version nor the image may be empty", version, image)
		}
	}
	return file.Images, nil
}

// Resolve returns the image of a version, or an error that begins with the field, for people, and names the versions known.
func (m ImageMap) Resolve(version string) (string, error) {
	if image, ok := m[version]; ok {
		return image, nil
	}
	known := slices.Sorted(maps.Keys(m))
	if len(known) == 0 {
		return "", fmt.Errorf("spec.version: %q: not known to this operator, whose image map is empty; set spec.image", version)
	}
	return "", fmt.Errorf("spec.version: %q: not known to this operator; allowed are %s; set spec.image to use another", version, strings.Join(known, ", "))
}
