package desired

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// labelNamespaceName is set by Kubernetes on every namespace.
const labelNamespaceName = "kubernetes.io/metadata.name"

// ServiceAccount is what instances run as. It has no rights, and its token is not mounted: an instance that is broken
// into holds nothing of the Kubernetes API.
func ServiceAccount(in Input) *corev1ac.ServiceAccountApplyConfiguration {
	cluster := in.Cluster
	return corev1ac.ServiceAccount(naming.ServiceAccount(cluster.Name), cluster.Namespace).
		WithLabels(naming.ClusterLabels(cluster.Name)).
		WithOwnerReferences(OwnerReference(cluster)).
		WithAutomountServiceAccountToken(false)
}

// PodDisruptionBudget lets evictions take one instance at a time.
func PodDisruptionBudget(in Input) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	cluster := in.Cluster
	return policyv1ac.PodDisruptionBudget(naming.PodDisruptionBudget(cluster.Name), cluster.Namespace).
		WithLabels(naming.ClusterLabels(cluster.Name)).
		WithOwnerReferences(OwnerReference(cluster)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(selector(cluster.Name)))
}

// NetworkPolicy lets clients reach MySQL from anywhere (they authenticate, over TLS), and the agents' port only from the
// manager's namespace, from instances of the same cluster and from pods that are labelled as scrapers. Probes come from the node and are always let in.
func NetworkPolicy(in Input) *networkingv1ac.NetworkPolicyApplyConfiguration {
	cluster := in.Cluster
	return networkingv1ac.NetworkPolicy(naming.NetworkPolicy(cluster.Name), cluster.Namespace).
		WithLabels(naming.ClusterLabels(cluster.Name)).
		WithOwnerReferences(OwnerReference(cluster)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(selector(cluster.Name)).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(
				networkingv1ac.NetworkPolicyIngressRule().WithPorts(policyPort(naming.PortMySQL)),
				networkingv1ac.NetworkPolicyIngressRule().
					WithPorts(policyPort(naming.PortAgent)).
					WithFrom(
						networkingv1ac.NetworkPolicyPeer().WithPodSelector(selector(cluster.Name)),
						networkingv1ac.NetworkPolicyPeer().WithNamespaceSelector(metav1ac.LabelSelector().
							WithMatchLabels(map[string]string{labelNamespaceName: in.OperatorNamespace})),
						networkingv1ac.NetworkPolicyPeer().
							WithNamespaceSelector(metav1ac.LabelSelector()).
							WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{naming.LabelScraper: "true"})))))
}

func policyPort(port int32) *networkingv1ac.NetworkPolicyPortApplyConfiguration {
	return networkingv1ac.NetworkPolicyPort().
		WithProtocol(corev1.ProtocolTCP).
		WithPort(intstr.FromInt32(port))
}
