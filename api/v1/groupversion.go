package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupVersion identifies this package's kinds: porpoise.dev/v1.
var GroupVersion = schema.GroupVersion{Group: "porpoise.dev", Version: "v1"}

// AddToScheme registers the kinds of this package with a scheme. It never fails.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&MySQLCluster{}, &MySQLClusterList{},
		&MySQLTopology{}, &MySQLTopologyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
