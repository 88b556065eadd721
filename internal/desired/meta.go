package desired

import (
	"encoding/json"
	"fmt"
	"maps"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Values of naming.LabelComponent. Only pods of the first are selected by Services and StatefulSets.
const (
	ComponentInstance = "instance"
	ComponentCheck    = "config-check"
	ComponentRevision = "revision"
)

// OwnerReference makes a cluster the controlling owner of a child, which is deleted with it.
func OwnerReference(cluster *v1.MySQLCluster) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1.GroupVersion.String()).
		WithKind("MySQLCluster").
		WithName(cluster.Name).
		WithUID(cluster.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// selector selects the instances' pods of a cluster.
func selector(cluster string) *metav1ac.LabelSelectorApplyConfiguration {
	return metav1ac.LabelSelector().WithMatchLabels(naming.ClusterSelector(cluster))
}

// plain turns a map with string values of a named type into one of strings.
func plain[V ~string](in map[string]V) map[string]string {
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = string(v)
	}
	return out
}

// with returns a map that has the entries of all; later ones win.
func with(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// convert turns a value of an API type into its apply configuration, which has the same JSON form.
func convert[T any](from any) *T {
	raw, err := json.Marshal(from)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", from, err)) // API types always encode.
	}
	out := new(T)
	if err := json.Unmarshal(raw, out); err != nil {
		panic(fmt.Sprintf("decode %T: %v", out, err)) // Apply configurations take every value of their API type.
	}
	return out
}
