package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
)

// Configuration is a typed apply configuration with its name.
type Configuration interface {
	runtime.ApplyConfiguration
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	GetAPIVersion() *string
}

// Verb names a kind of write.
type Verb string

// The writes that an Applier makes.
const (
	Created Verb = "created"
	Updated Verb = "updated"
	Deleted Verb = "deleted"
)

// Write tells of one write that was made.
type Write struct {
	Verb Verb
	Kind string
	Key  types.NamespacedName
}

// ErrForeign is returned when an object of the wanted name exists and belongs to somebody else.
var ErrForeign = errors.New("exists and does not belong to this MySQLCluster")

// ErrBehind is returned when the object that is to be created exists already and only the cache does not show it yet.
var ErrBehind = errors.New("exists already, and the cache is behind")

// Applier writes objects under one field owner.
type Applier struct {
	// Client writes; reads through it may come from a cache.
	Client client.Client
	// Live reads past every cache. It is asked only before an object is created.
	Live client.Reader
	// Owner is the field owner.
	Owner string
	// Observe is told of every write; nil: nobody.
	Observe func(ctx context.Context, write Write)
}

// Apply makes the object what desired says. live is the object as the cache has it, nil where it has none; owned tells
// whether an object that the cache does not have may be taken over. It returns whether it wrote.
func (a *Applier) Apply(ctx context.Context, desired Configuration, live client.Object, owned func(client.Object) bool) (bool, error) {
	kind, key := identify(desired)
	verb := Updated
	if isNil(live) {
		verb = Created
		if err := a.refuseForeign(ctx, desired, owned); err != nil {
			return false, err
		}
	} else {
		same, err := Equal(desired, live, a.Owner)
		if err != nil {
			return false, fmt.Errorf("compare %s %s: %w", kind, key, err)
		}
		if same {
			return false, nil
		}
	}
	// The client writes the answer into what it is given; the caller's stays what it was.
	request, ok := reflect.New(reflect.TypeOf(desired).Elem()).Interface().(Configuration)
	if !ok {
		return false, fmt.Errorf("apply %s %s: %T is not a pointer to a configuration", kind, key, desired)
	}
	if err := recode(desired, request); err != nil {
		return false, fmt.Errorf("apply %s %s: %w", kind, key, err)
	}
	if err := a.Client.Apply(ctx, request, client.FieldOwner(a.Owner), client.ForceOwnership); err != nil {
		return false, fmt.Errorf("apply %s %s: %w", kind, key, err)
	}
	a.tell(ctx, Write{Verb: verb, Kind: kind, Key: key})
	return true, nil
}

// Create is Apply for an object that must not be made twice, since what is in it was made up for this one call (a password, a
// key) or holds only at its beginning. One that exists and is owned is left as it is: ErrBehind.
func (a *Applier) Create(ctx context.Context, desired Configuration, owned func(client.Object) bool) error {
	behind := false
	_, err := a.Apply(ctx, desired, nil, func(object client.Object) bool {
		behind = owned(object)
		return false
	})
	if behind {
		kind, key := identify(desired)
		return fmt.Errorf("%s %s %w", kind, key, ErrBehind)
	}
	return err
}

// refuseForeign keeps a forced apply from taking over an object that somebody else made under the wanted name.
func (a *Applier) refuseForeign(ctx context.Context, desired Configuration, owned func(client.Object) bool) error {
	kind, key := identify(desired)
	object, err := a.empty(desired)
	if err != nil {
		return err
	}
	switch err := a.Live.Get(ctx, key, object); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get %s %s before creating it: %w", kind, key, err)
	case !owned(object):
		return fmt.Errorf("%s %s %w", kind, key, ErrForeign)
	}
	return nil
}

func (a *Applier) empty(desired Configuration) (client.Object, error) {
	gvk := schema.FromAPIVersionAndKind(*desired.GetAPIVersion(), *desired.GetKind())
	object, err := a.Client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", gvk, err)
	}
	typed, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("apply %s: %T is not an object", gvk, object)
	}
	return typed, nil
}

// Delete deletes exactly the object given: another of the same name, or the same one changed since, is left alone. An
// object that is gone already is no error.
func (a *Applier) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	opts = append(opts, client.Preconditions{UID: &uid, ResourceVersion: &version})
	return a.delete(ctx, object, opts...)
}

// DeleteUID deletes the object of this UID in whatever state it is by now. It is for pods, whose status changes all the
// time.
func (a *Applier) DeleteUID(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	uid := object.GetUID()
	return a.delete(ctx, object, append(opts, client.Preconditions{UID: &uid})...)
}

func (a *Applier) delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	kind := reflect.TypeOf(object).Elem().Name()
	key := client.ObjectKeyFromObject(object)
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := a.Client.Delete(ctx, object, opts...); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("delete %s %s: %w", kind, key, err)
	}
	a.tell(ctx, Write{Verb: Deleted, Kind: kind, Key: key})
	return nil
}

func (a *Applier) tell(ctx context.Context, write Write) {
	if a.Observe != nil {
		a.Observe(ctx, write)
	}
}

// Equal tells whether live already has exactly what owner would apply: no field missing or different, and none left over
// from an earlier apply.
func Equal(desired Configuration, live client.Object, owner string) (bool, error) {
	if topology, ok := live.(*v1.MySQLTopology); ok {
		return equalTopology(desired, topology)
	}
	applied, found, err := extract(live, owner)
	if err != nil || !found {
		return false, err
	}
	want, err := normalize(desired, desired)
	if err != nil {
		return false, err
	}
	have, err := normalize(applied, desired)
	if err != nil {
		return false, err
	}
	return equality.Semantic.DeepEqual(want, have), nil
}

// normalize brings a value to the type of like and out again, so that both sides of a comparison have gone the same way
// (canonical quantities, no empty leftovers), without what identifies the object and without its status.
func normalize(value any, like Configuration) (map[string]any, error) {
	typed := reflect.New(reflect.TypeOf(like).Elem()).Interface()
	if err := recode(value, typed); err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := recode(typed, &out); err != nil {
		return nil, err
	}
	delete(out, "apiVersion")
	delete(out, "kind")
	delete(out, "status") // Others'. Some servers list its zero values beside what was applied.
	if metadata, ok := out["metadata"].(map[string]any); ok {
		delete(metadata, "name")
		delete(metadata, "namespace")
	}
	return out, nil
}

func recode(from, to any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode %T: %w", from, err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("decode %T: %w", to, err)
	}
	return nil
}

func identify(c Configuration) (string, types.NamespacedName) {
	key := types.NamespacedName{}
	if name := c.GetName(); name != nil {
		key.Name = *name
	}
	if namespace := c.GetNamespace(); namespace != nil {
		key.Namespace = *namespace
	}
	return *c.GetKind(), key
}

func isNil(object client.Object) bool {
	return object == nil || reflect.ValueOf(object).IsNil()
}
