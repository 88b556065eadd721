package apply

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// converter knows the merge rules of the built-in kinds. Building it parses their whole schema, hence once.
var converter = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// extract returns the fields of a live object that owner applied, and whether it ever did.
func extract(live client.Object, owner string) (any, bool, error) {
	var entry *metav1.ManagedFieldsEntry
	for _, candidate := range live.GetManagedFields() {
		if candidate.Manager == owner && candidate.Operation == metav1.ManagedFieldsOperationApply && candidate.Subresource == "" {
			entry = &candidate
			break
		}
	}
	if entry == nil || entry.FieldsV1 == nil {
		return nil, false, nil
	}
	object, err := withKind(live)
	if err != nil {
		return nil, false, err
	}
	typed, err := converter().ObjectToTyped(object)
	if err != nil {
		return nil, false, fmt.Errorf("read fields of %T: %w", live, err)
	}
	fields := &fieldpath.Set{}
	if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, false, fmt.Errorf("read managed fields of %T: %w", live, err)
	}
	return typed.ExtractItems(fields.Leaves()).AsValue().Unstructured(), true, nil
}

// withKind returns the object with its kind filled in, which typed clients leave out and the converter needs.
func withKind(live client.Object) (client.Object, error) {
	if !live.GetObjectKind().GroupVersionKind().Empty() {
		return live, nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(live)
	if err != nil {
		return nil, fmt.Errorf("find the kind of %T: %w", live, err)
	}
	object, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("copy %T: not an object", live)
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	return object, nil
}

// equalTopology compares a MySQLTopology, of which client-go has no schema. Its spec has one writer, so that the whole of
// it is compared; of its metadata, what is desired must be there.
func equalTopology(desired Configuration, live *v1.MySQLTopology) (bool, error) {
	raw, err := json.Marshal(desired)
	if err != nil {
		return false, fmt.Errorf("encode %T: %w", desired, err)
	}
	want := &v1.MySQLTopology{}
	if err := json.Unmarshal(raw, want); err != nil {
		return false, fmt.Errorf("decode %T: %w", want, err)
	}
	for key, value := range want.Labels {
		if live.Labels[key] != value {
			return false, nil
		}
	}
	return equality.Semantic.DeepEqual(want.Spec, live.Spec) &&
		equality.Semantic.DeepEqual(want.OwnerReferences, live.OwnerReferences), nil
}
