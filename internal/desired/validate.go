package desired

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Limits that the schema states too.
const (
	minReplicas     = 1
	maxReplicas     = 10
	maxMaxFailovers = 1000
)

var (
	minStorage     = resource.MustParse("1Gi")
	versionPattern = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,3})?$`)
	optionPattern  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
)

// Previous is what is known of the specification that the running instances were made from; the zero value: nothing.
type Previous struct {
	// Version of the newest mysqld that has run on the data, e.g. 9.7.4; empty: none has.
	Version string
	// StorageClassName of the volumes, where one was asked for.
	StorageClassName *string
	// Size of the largest volume.
	Size *resource.Quantity
	// HasVolumes is true when there are volumes.
	HasVolumes bool
}

// Validate repeats the schema's rules, so that input which reached the API server while its schema was older or missing
// changes nothing. Every error names field, value and what is allowed.
func Validate(cluster *v1.MySQLCluster, old Previous) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	errs = append(errs, validateName(cluster.Name)...)
	errs = append(errs, validateVersion(spec.Child("version"), cluster.Spec.Version, old.Version)...)
	errs = append(errs, validateReplicas(spec, &cluster.Spec)...)
	errs = append(errs, validateFailover(spec.Child("failover"), cluster.Spec.Failover)...)
	errs = append(errs, validateStorage(spec.Child("storage"), cluster.Spec.Storage, old)...)
	errs = append(errs, validateConfig(spec.Child("config"), cluster.Spec.Config)...)
	errs = append(errs, validateResources(spec.Child("resources"), cluster.Spec.Resources)...)
	errs = append(errs, validatePod(spec.Child("pod"), cluster.Spec.Pod)...)
	return errs
}

func validateName(name string) field.ErrorList {
	path := field.NewPath("metadata", "name")
	switch {
	case len(name) > naming.MaxClusterNameLength:
		return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("has %d characters; at most %d are allowed", len(name), naming.MaxClusterNameLength))}
	case strings.Contains(name, "."):
		return field.ErrorList{field.Invalid(path, name, "contains a dot; lower-case letters, digits and dashes are allowed")}
	case name == "" || name[0] < 'a' || name[0] > 'z':
		return field.ErrorList{field.Invalid(path, name, "must begin with a lower-case letter")}
	}
	return nil
}

func validateVersion(path *field.Path, version, ran string) field.ErrorList {
	if !versionPattern.MatchString(version) {
		return field.ErrorList{field.Invalid(path, version, "must be a series such as 9.7 or a release such as 9.7.4")}
	}
	if versionPattern.MatchString(ran) && slices.Compare(series(version), series(ran)) < 0 {
		return field.ErrorList{field.Invalid(path, version, "is an older series than "+ran+", which has run; MySQL cannot open newer data with an older series")}
	}
	return nil
}

var releasePattern = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{1,3}$`)

// NewerVersion returns the newer one of two releases such as 9.7.4. What is no release loses.
func NewerVersion(a, b string) string {
	switch {
	case !releasePattern.MatchString(b):
		return a
	case !releasePattern.MatchString(a) || slices.Compare(numbers(a), numbers(b)) < 0:
		return b
	}
	return a
}

// series returns major and minor number.
func series(version string) []int { return numbers(version)[:2] }

func numbers(version string) []int {
	parts := strings.Split(version, ".")
	out := make([]int, 0, len(parts))
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			n = 0 // Not reached: the patterns allow digits only.
		}
		out = append(out, n)
	}
	return out
}

func validateReplicas(spec *field.Path, s *v1.MySQLClusterSpec) field.ErrorList {
	if s.Replicas < minReplicas || s.Replicas > maxReplicas {
		return field.ErrorList{field.Invalid(spec.Child("replicas"), s.Replicas, fmt.Sprintf("must be %d to %d", minReplicas, maxReplicas))}
	}
	if s.Replication.Acks == nil {
		return nil
	}
	acks, path := *s.Replication.Acks, spec.Child("replication", "acks")
	switch {
	case acks < 0 || acks >= s.Replicas:
		return field.ErrorList{field.Invalid(path, acks, fmt.Sprintf("must be 0 or more and less than spec.replicas %d, since only replicas acknowledge", s.Replicas))}
	case acks == 0 && s.Replicas > 1:
		return field.ErrorList{field.Invalid(path, acks, fmt.Sprintf("must be 1 to %d; 0 is allowed only with spec.replicas 1", s.Replicas-1))}
	}
	return nil
}

func validateFailover(path *field.Path, f v1.FailoverSpec) field.ErrorList {
	var errs field.ErrorList
	switch f.Mode {
	case "", v1.FailoverAutomatic, v1.FailoverManual:
	default:
		errs = append(errs, field.NotSupported(path.Child("mode"), f.Mode, []v1.FailoverMode{v1.FailoverAutomatic, v1.FailoverManual}))
	}
	// 0 is what an absent one reads as where the schema gave it no default.
	if f.MaxFailovers < 0 || f.MaxFailovers > maxMaxFailovers {
		errs = append(errs, field.Invalid(path.Child("maxFailovers"), f.MaxFailovers, fmt.Sprintf("must be 1 to %d", maxMaxFailovers)))
	}
	switch f.ErrantTransactions {
	case "", v1.ErrantRebuild, v1.ErrantHold:
	default:
		errs = append(errs, field.NotSupported(path.Child("errantTransactions"), f.ErrantTransactions, []v1.ErrantPolicy{v1.ErrantRebuild, v1.ErrantHold}))
	}
	return errs
}

func validateStorage(path *field.Path, storage v1.StorageSpec, old Previous) field.ErrorList {
	var errs field.ErrorList
	size := path.Child("size")
	if storage.Size.Cmp(minStorage) < 0 {
		errs = append(errs, field.Invalid(size, storage.Size.String(), "must be at least "+minStorage.String()))
	}
	if old.Size != nil && storage.Size.Cmp(*old.Size) < 0 {
		errs = append(errs, field.Invalid(size, storage.Size.String(), "is less than "+old.Size.String()+"; a volume cannot shrink"))
	}
	// Absent means the default class, which Kubernetes writes into the claim: only a class asked for can be compared.
	if old.HasVolumes && storage.StorageClassName != nil && old.StorageClassName != nil && *storage.StorageClassName != *old.StorageClassName {
		errs = append(errs, field.Invalid(path.Child("storageClassName"), *storage.StorageClassName,
			"cannot be changed from "+*old.StorageClassName+"; volumes do not move between classes"))
	}
	switch storage.ReclaimPolicy {
	case "", v1.ReclaimRetain, v1.ReclaimDelete:
	default:
		errs = append(errs, field.NotSupported(path.Child("reclaimPolicy"), storage.ReclaimPolicy, []v1.ReclaimPolicy{v1.ReclaimRetain, v1.ReclaimDelete}))
	}
	return errs
}

func validateConfig(path *field.Path, config map[string]v1.ConfigValue) field.ErrorList {
	var errs field.ErrorList
	for name, value := range config {
		if !optionPattern.MatchString(name) {
			errs = append(errs, field.Invalid(path, name, "is not an option name; lower-case letters, digits, dashes and underscores are allowed"))
		}
		if strings.ContainsAny(string(value), "\r\n") {
			errs = append(errs, field.Invalid(path.Key(name), string(value), "must be one line"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func validateResources(path *field.Path, resources v1.ResourcesSpec) field.ErrorList {
	var errs field.ErrorList
	for name, pair := range map[string][2]*resource.Quantity{
		"cpu":    {resources.Requests.CPU, resources.Limits.CPU},
		"memory": {resources.Requests.Memory, resources.Limits.Memory},
	} {
		if request, limit := pair[0], pair[1]; request != nil && limit != nil && request.Cmp(*limit) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests", name), request.String(),
				fmt.Sprintf("must be at most %s, which is %s", limit.String(), path.Child("limits", name))))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func validatePod(path *field.Path, pod v1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	for key := range pod.Labels {
		if strings.HasPrefix(key, "porpoise.dev/") || strings.HasPrefix(key, "app.kubernetes.io/") {
			errs = append(errs, field.Forbidden(path.Child("labels").Key(key), "belongs to the operator; choose another prefix"))
		}
	}
	for key := range pod.Annotations {
		if strings.HasPrefix(key, "porpoise.dev/") {
			errs = append(errs, field.Forbidden(path.Child("annotations").Key(key), "belongs to the operator; choose another prefix"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}
