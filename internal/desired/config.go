package desired

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// ConfigMap holds the user's part of the configuration. It is immutable and named by its content, so that an instance
// which is recreated gets the configuration of its own revision, whatever the specification says by then.
func ConfigMap(in Input, shape Shape) *corev1ac.ConfigMapApplyConfiguration {
	cluster := in.Cluster
	return corev1ac.ConfigMap(naming.ConfigMap(cluster.Name, shape.ConfigHash()), cluster.Namespace).
		WithLabels(naming.ClusterLabels(cluster.Name)).
		WithOwnerReferences(OwnerReference(cluster)).
		WithImmutable(true).
		WithData(map[string]string{naming.FileUserConfig: shape.Config})
}
