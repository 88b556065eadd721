package desired

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// StatefulSet runs one instance. It is OnDelete: a changed template changes nothing until the pod is replaced, which is
// decided elsewhere. Its claim is not from a template, so that growing the volume is a patch of the claim.
func StatefulSet(in Input, shape Shape, instance string) *appsv1ac.StatefulSetApplyConfiguration {
	cluster := in.Cluster
	labels := naming.InstanceLabels(cluster.Name, instance)
	return appsv1ac.StatefulSet(instance, cluster.Namespace).
		WithLabels(labels).
		WithAnnotations(map[string]string{naming.AnnotationRevision: shape.Revision()}).
		WithOwnerReferences(OwnerReference(cluster)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithServiceName(naming.ServiceInstances(cluster.Name)).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.OnDeleteStatefulSetStrategyType)).
			WithRevisionHistoryLimit(2).
			WithSelector(instanceSelector(cluster.Name, instance)).
			WithTemplate(podTemplate(in, shape, instance)))
}
