package desired

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Names of ports.
const (
	portNameMySQL = "mysql"
	portNameAgent = "agent"
)

// ServiceReadWrite leads to the primary.
func ServiceReadWrite(in Input) *corev1ac.ServiceApplyConfiguration {
	cluster := in.Cluster
	return clientService(in, naming.ServiceReadWrite(cluster.Name), cluster.Spec.Services.ReadWrite,
		map[string]string{naming.LabelRole: naming.RolePrimary})
}

// ServiceReadOnly leads to the replicas that serve, or to the primary where there is none; the topology lane labels them.
func ServiceReadOnly(in Input) *corev1ac.ServiceApplyConfiguration {
	cluster := in.Cluster
	return clientService(in, naming.ServiceReadOnly(cluster.Name), cluster.Spec.Services.ReadOnly,
		map[string]string{naming.LabelReadOnly: "true"})
}

// ServiceInstances is headless and gives each instance a host name, also while it is not ready: instances find each
// other and the manager finds agents before anything is ready.
func ServiceInstances(in Input) *corev1ac.ServiceApplyConfiguration {
	cluster := in.Cluster
	return corev1ac.Service(naming.ServiceInstances(cluster.Name), cluster.Namespace).
		WithLabels(naming.ClusterLabels(cluster.Name)).
		WithOwnerReferences(OwnerReference(cluster)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(naming.ClusterSelector(cluster.Name)).
			WithPorts(
				servicePort(portNameMySQL, naming.PortMySQL),
				servicePort(portNameAgent, naming.PortAgent)))
}

func clientService(in Input, name string, spec v1.ServiceSpec, role map[string]string) *corev1ac.ServiceApplyConfiguration {
	cluster := in.Cluster
	kind := spec.Type
	if kind == "" {
		kind = corev1.ServiceTypeClusterIP
	}
	service := corev1ac.Service(name, cluster.Namespace).
		WithLabels(naming.ClusterLabels(cluster.Name)).
		WithOwnerReferences(OwnerReference(cluster)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(kind).
			WithSelector(with(naming.ClusterSelector(cluster.Name), role)).
			WithPorts(servicePort(portNameMySQL, naming.PortMySQL)))
	if len(spec.Annotations) > 0 {
		service.WithAnnotations(plain(spec.Annotations))
	}
	return service
}

func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().
		WithName(name).
		WithProtocol(corev1.ProtocolTCP).
		WithPort(port).
		WithTargetPort(intstr.FromString(name))
}
