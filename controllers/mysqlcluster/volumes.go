package mysqlcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	reasonStorageClassNotFound = "StorageClassNotFound"
	reasonVolumeNotExpandable  = "VolumeNotExpandable"
	reasonVolumeLost           = "VolumeLost"

	annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"
)

// volumes keeps a claim for every wanted instance and grows it where its class allows that.
func volumes(ctx context.Context, s *scope) (Result, error) {
	if s.invalid || s.foreign || s.target == nil {
		return Continue(), nil
	}
	for _, instance := range s.wanted() {
		if err := s.keepClaim(ctx, instance); err != nil {
			return Result{}, err
		}
	}
	return Continue(), nil
}

func (s *scope) keepClaim(ctx context.Context, instance string) error {
	storage := s.cluster.Spec.Storage
	claim := s.live.claims[naming.DataClaim(instance)]
	if claim == nil {
		return s.makeClaim(ctx, instance)
	}
	if !claim.DeletionTimestamp.IsZero() {
		return nil // A claim that goes is made anew once it is gone.
	}
	if s.tentative {
		return nil // A cache that is behind must not make a volume blank again.
	}
	size := storage.Size
	if has := claimSize(claim); size.Cmp(has) <= 0 {
		size = has // A kept volume may be larger than what is asked for now.
	} else if allowed, err := s.mayGrow(ctx, claim); err != nil {
		return err
	} else if !allowed {
		s.problem(reasonVolumeNotExpandable, fmt.Sprintf(
			"spec.storage.size: %s is more than the %s of PersistentVolumeClaim %s, and StorageClass %q does not allow volumes to grow (allowVolumeExpansion)",
			storage.Size.String(), has.String(), claim.Name, ptr.Deref(claim.Spec.StorageClassName, "")))
		size = has
	}
	// The class of a claim cannot be changed: what it has is kept where the applied one names any.
	class := storage.StorageClassName
	if class != nil && claim.Spec.StorageClassName != nil {
		class = claim.Spec.StorageClassName
	}
	return s.apply(ctx, desired.DataClaim(s.in, instance, desired.Volume{Size: size, Class: class}), claim)
}

// makeClaim makes a claim that the cache does not have.
func (s *scope) makeClaim(ctx context.Context, instance string) error {
	storage := s.cluster.Spec.Storage
	want := desired.DataClaim(s.in, instance, desired.Volume{Size: storage.Size, Class: storage.StorageClassName, Blank: s.tentative})
	if s.tentative {
		return s.create(ctx, want)
	}
	return s.apply(ctx, want, nil)
}

// isBlank tells whether nothing can have been written to the volume of a claim. The mark is taken away before the record
// exists that lets an instance be initialised (see mayFound), and never comes back.
func isBlank(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[naming.AnnotationBlank] == "true"
}

// unfounded tells whether there is nothing yet that could be lost: no record, and no volume that may hold data.
func (s *scope) unfounded() bool {
	for _, claim := range s.live.claims {
		if !isBlank(claim) {
			return false
		}
	}
	return s.live.topology == nil
}

func (s *scope) mayGrow(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
		return false, nil
	}
	var class storagev1.StorageClass
	switch err := s.client.Get(ctx, types.NamespacedName{Name: *claim.Spec.StorageClassName}, &class); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get StorageClass %s: %w", *claim.Spec.StorageClassName, err)
	}
	return ptr.Deref(class.AllowVolumeExpansion, false), nil
}

// diagnoseClaim says why a claim is not bound, where that needs a person.
func (s *scope) diagnoseClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	switch claim.Status.Phase {
	case corev1.ClaimBound:
		return nil
	case corev1.ClaimLost:
		s.problem(reasonVolumeLost, fmt.Sprintf("PersistentVolumeClaim %s has lost its volume %s", claim.Name, claim.Spec.VolumeName))
		return nil
	}
	var classes storagev1.StorageClassList
	if err := s.client.List(ctx, &classes); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	wanted := ptr.Deref(claim.Spec.StorageClassName, "")
	var names []string
	for _, class := range classes.Items {
		if wanted == "" && class.Annotations[annotationDefaultClass] == "true" {
			return nil
		}
		names = append(names, class.Name)
	}
	slices.Sort(names)
	known := orNone(strings.Join(names, ", "))
	switch {
	case slices.Contains(names, wanted):
	case wanted == "":
		s.problem(reasonStorageClassNotFound, fmt.Sprintf("spec.storage.storageClassName: absent, and there is no default StorageClass; there are: %s", known))
	default:
		s.problem(reasonStorageClassNotFound, fmt.Sprintf("spec.storage.storageClassName: StorageClass %q not found; there are: %s", wanted, known))
	}
	return nil
}
