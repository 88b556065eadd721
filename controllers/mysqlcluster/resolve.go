package mysqlcluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/mycnf"
)

// Reasons of problems with what the specification names.
const (
	reasonUnknownVersion       = "UnknownVersion"
	reasonConfigMapNotFound    = "ConfigMapNotFound"
	reasonConfigMapKeyNotFound = "ConfigMapKeyNotFound"
	reasonConfigRejected       = "ConfigRejected"
)

// resolve finds the image and the configuration that the specification names. Where it cannot, the instances stay at what
// they are.
func resolve(ctx context.Context, s *scope) (Result, error) {
	if s.invalid {
		return Continue(), nil
	}
	image, from, err := s.image()
	if err != nil {
		s.problem(reasonUnknownVersion, err.Error())
	}
	config, ok, configErr := s.config(ctx)
	if configErr != nil {
		return Result{}, configErr
	}
	if err != nil || !ok {
		return Continue(), nil
	}
	shape := desired.ShapeOf(s.cluster, image, config)
	s.shape, s.resolvedFrom = &shape, from
	return Continue(), nil
}

// image resolves the image, and says from which version. A version that was resolved before keeps its image: a newer
// operator with a newer map restarts no database.
func (s *scope) image() (image, from string, err error) {
	if s.cluster.Spec.Image != "" {
		return s.cluster.Spec.Image, "", nil
	}
	version := s.cluster.Spec.Version
	var pinned *desired.StoredRevision
	for _, revision := range s.live.revisions {
		if revision.Verdict.Rejected == "" && revision.Verdict.ResolvedFrom == version && (pinned == nil || revision.Number > pinned.Number) {
			pinned = &revision
		}
	}
	if pinned != nil {
		return pinned.Shape.Image, version, nil
	}
	if image, err = s.options.Images.Resolve(version); err != nil {
		return "", "", err // It becomes a condition's message, which begins with the field.
	}
	return image, version, nil
}

// config merges the user's options; ok is false where a person must correct something.
func (s *scope) config(ctx context.Context) (text string, ok bool, err error) {
	var all []mycnf.Settings
	ok = true
	for i, source := range s.cluster.Spec.ConfigFrom {
		settings, found, err := s.source(ctx, i, source.ConfigMapKeyRef)
		if err != nil {
			return "", false, err
		}
		ok = ok && found
		all = append(all, settings)
	}
	settings, err := mycnf.FromMap(options(s.cluster.Spec.Config))
	if err != nil {
		s.problem(reasonConfigRejected, "spec.config: "+err.Error())
		return "", false, nil
	}
	if err := mycnf.Check(settings); err != nil {
		s.problem(reasonConfigRejected, "spec.config: "+err.Error())
		return "", false, nil
	}
	return mycnf.Merge(append(all, settings)...).Text(), ok, nil
}

// source reads one entry of configFrom.
func (s *scope) source(ctx context.Context, i int, ref v1.ConfigMapKeyRef) (mycnf.Settings, bool, error) {
	path := fmt.Sprintf("spec.configFrom[%d].configMapKeyRef", i)
	key := types.NamespacedName{Namespace: s.cluster.Namespace, Name: ref.Name}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err := s.client.Get(ctx, key, metadata)
	var data map[string]string
	if err == nil {
		data, err = s.sources.get(ctx, metadata)
	}
	if apierrors.IsNotFound(err) {
		s.sources.forget(key)
		s.problem(reasonConfigMapNotFound, fmt.Sprintf("%s.name: ConfigMap %q does not exist in namespace %q", path, ref.Name, s.cluster.Namespace))
		return mycnf.Settings{}, false, nil
	}
	if err != nil {
		return mycnf.Settings{}, false, fmt.Errorf("read %s: %w", path, err)
	}
	text, ok := data[ref.Key]
	if !ok {
		keys := strings.Join(slices.Sorted(maps.Keys(data)), ", ")
		s.problem(reasonConfigMapKeyNotFound, fmt.Sprintf("%s.key: ConfigMap %q has no key %q; it has: %s", path, ref.Name, ref.Key, orNone(keys)))
		return mycnf.Settings{}, false, nil
	}
	settings, err := mycnf.ParseUser(ref.Name+"/"+ref.Key, text)
	if err == nil {
		err = mycnf.Check(settings)
	}
	if err != nil {
		s.problem(reasonConfigRejected, path+": "+err.Error())
		return mycnf.Settings{}, false, nil
	}
	return settings, true, nil
}

func options(config map[string]v1.ConfigValue) map[string]string {
	out := make(map[string]string, len(config))
	for name, value := range config {
		out[name] = string(value)
	}
	return out
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
