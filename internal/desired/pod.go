package desired

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Names of containers, for those who look at a pod's status.
const (
	ContainerAgent = "agent"
	ContainerMySQL = "mysqld"
	ContainerCheck = "check"
)

// userID is the numeric user and group of every container: an image need not know it by name.
const userID int64 = 65532

// memoryBackedLimit bounds what the memory-backed directory (socket, rendered configuration) may take of the limit.
var memoryBackedLimit = resource.MustParse("16Mi")

// podTemplate is the template of an instance's pod. Values that Kubernetes would default inside atomic lists are written
// out, so that what is read back equals what was applied.
func podTemplate(in Input, shape Shape, instance string) *corev1ac.PodTemplateSpecApplyConfiguration {
	cluster := in.Cluster
	labels := with(plain(shape.Pod.Labels), naming.InstanceLabels(cluster.Name, instance))
	if in.Primary != "" {
		labels[naming.LabelRole] = naming.RoleReplica
		if in.Primary == instance {
			labels[naming.LabelRole] = naming.RolePrimary
		}
	}
	annotations := with(plain(shape.Pod.Annotations), map[string]string{
		naming.AnnotationRevision:                 shape.Revision(),
		"kubectl.kubernetes.io/default-container": ContainerMySQL,
	})
	spec := podSpec(in, shape).
		WithTerminationGracePeriodSeconds(int64(agentapi.TerminationGrace / time.Second)).
		WithContainers(mysqlContainer(in, shape, instance)).
		WithVolumes(instanceVolumes(in, shape, instance)...)
	if shape.Pod.PriorityClassName != "" {
		spec.WithPriorityClassName(shape.Pod.PriorityClassName)
	}
	spec.WithAffinity(affinity(in, shape))
	spec.WithTopologySpreadConstraints(spread(in, shape)...)
	return corev1ac.PodTemplateSpec().WithLabels(labels).WithAnnotations(annotations).WithSpec(spec)
}

// podSpec is what the pods of instances and of checks have in common.
func podSpec(in Input, shape Shape) *corev1ac.PodSpecApplyConfiguration {
	spec := corev1ac.PodSpec().
		WithServiceAccountName(naming.ServiceAccount(in.Cluster.Name)).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).
			WithRunAsUser(userID).
			WithRunAsGroup(userID).
			WithFSGroup(userID).
			WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithInitContainers(installAgent(in, shape))
	for _, name := range shape.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(name))
	}
	if len(shape.Pod.NodeSelector) > 0 {
		spec.WithNodeSelector(shape.Pod.NodeSelector)
	}
	for _, toleration := range shape.Pod.Tolerations {
		spec.WithTolerations(convert[corev1ac.TolerationApplyConfiguration](toleration))
	}
	return spec
}

// installAgent copies the agent into the pod, so that any image that holds mysqld works.
func installAgent(in Input, shape Shape) *corev1ac.ContainerApplyConfiguration {
	small := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("10m"),
		corev1.ResourceMemory: resource.MustParse("32Mi"),
	}
	enough := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	return container(ContainerAgent, in.OperatorImage, shape).
		WithCommand("/agent", "install", naming.PathAgent).
		WithResources(corev1ac.ResourceRequirements().WithRequests(small).WithLimits(enough)).
		WithVolumeMounts(mount(volumeBin, naming.PathBin, false))
}

func mysqlContainer(in Input, shape Shape, instance string) *corev1ac.ContainerApplyConfiguration {
	env := []*corev1ac.EnvVarApplyConfiguration{
		fieldEnv("POD_NAMESPACE", "metadata.namespace"),
		value("PORPOISE_CLUSTER", in.Cluster.Name),
		value("PORPOISE_INSTANCE", instance),
	}
	if shape.Resources.Limits.Memory != nil {
		env = append(env, corev1ac.EnvVar().WithName("PORPOISE_MEMORY_LIMIT").
			WithValueFrom(corev1ac.EnvVarSource().WithResourceFieldRef(corev1ac.ResourceFieldSelector().
				WithContainerName(ContainerMySQL).
				WithResource("limits.memory").
				WithDivisor(resource.MustParse("1")))))
	}
	return container(ContainerMySQL, shape.Image, shape).
		WithCommand(naming.PathAgent, "run").
		WithEnv(env...).
		WithPorts(containerPort(portNameMySQL, naming.PortMySQL), containerPort(portNameAgent, naming.PortAgent)).
		WithResources(resources(shape)).
		// Liveness asks whether the agent lives, readiness whether the role is confirmed and served. Neither looks at
		// replication: probes never orchestrate.
		WithLivenessProbe(probe(agentapi.PathHealth).WithPeriodSeconds(10).WithTimeoutSeconds(5).WithFailureThreshold(6)).
		WithReadinessProbe(probe(agentapi.PathReady).WithPeriodSeconds(1).WithTimeoutSeconds(2).WithFailureThreshold(2)).
		WithVolumeMounts(
			mount(volumeData, naming.PathVolume, false),
			mount(volumeRun, naming.PathRun, false),
			mount(volumeTmp, "/tmp", false),
			mount(volumeBin, naming.PathBin, true),
			mount(volumeTLS, naming.PathTLS, true),
			mount(volumeConfig, naming.PathConfig, true),
			mount(volumeAccounts, naming.PathAccounts, true))
}

func container(name, image string, shape Shape) *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithRunAsNonRoot(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
	if shape.ImagePullPolicy != "" {
		c.WithImagePullPolicy(shape.ImagePullPolicy)
	}
	return c
}

func resources(shape Shape) *corev1ac.ResourceRequirementsApplyConfiguration {
	list := func(cpu, memory *resource.Quantity) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != nil {
			out[corev1.ResourceCPU] = *cpu
		}
		if memory != nil {
			out[corev1.ResourceMemory] = *memory
		}
		return out
	}
	out := corev1ac.ResourceRequirements()
	if requests := list(shape.Resources.Requests.CPU, shape.Resources.Requests.Memory); len(requests) > 0 {
		out.WithRequests(requests)
	}
	if limits := list(shape.Resources.Limits.CPU, shape.Resources.Limits.Memory); len(limits) > 0 {
		out.WithLimits(limits)
	}
	return out
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().
		WithScheme(corev1.URISchemeHTTPS).
		WithPath(path).
		WithPort(intstr.FromString(portNameAgent)))
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

func fieldEnv(name, path string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().
		WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath(path)))
}

func value(name, text string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(text)
}

func memoryLimitLiteral(shape Shape) (string, bool) {
	limit := shape.Resources.Limits.Memory
	if limit == nil {
		return "", false
	}
	return strconv.FormatInt(limit.Value(), 10), true
}

func instanceSelector(cluster, instance string) *metav1ac.LabelSelectorApplyConfiguration {
	return metav1ac.LabelSelector().WithMatchLabels(
		with(naming.ClusterSelector(cluster), map[string]string{naming.LabelInstance: instance}))
}
