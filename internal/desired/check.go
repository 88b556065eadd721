package desired

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// CheckPod lets the target image's own mysqld check a configuration before any instance is touched. It has the pull
// secrets, tolerations and node selector of instances, so that what stops it would stop them.
func CheckPod(in Input, shape Shape, version string) *corev1ac.PodApplyConfiguration {
	cluster := in.Cluster
	labels := naming.ClusterLabels(cluster.Name)
	labels[naming.LabelComponent] = ComponentCheck
	env := []*corev1ac.EnvVarApplyConfiguration{
		fieldEnv("POD_NAMESPACE", "metadata.namespace"),
		value("PORPOISE_CLUSTER", cluster.Name),
		value("PORPOISE_INSTANCE", naming.Instance(cluster.Name, 0)),
		value("PORPOISE_EXPECT_VERSION", version),
	}
	if limit, ok := memoryLimitLiteral(shape); ok {
		env = append(env, value("PORPOISE_MEMORY_LIMIT", limit))
	}
	check := container(ContainerCheck, shape.Image, shape).
		WithCommand(naming.PathAgent, "validate-config").
		WithEnv(env...).
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("50m"),
				corev1.ResourceMemory: resource.MustParse("128Mi"),
			}).
			WithLimits(corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("1"),
				corev1.ResourceMemory: resource.MustParse("512Mi"),
			})).
		WithVolumeMounts(
			mount(volumeRun, naming.PathRun, false),
			mount(volumeTmp, "/tmp", false),
			mount(volumeBin, naming.PathBin, true),
			mount(volumeConfig, naming.PathConfig, true))
	return corev1ac.Pod(naming.ConfigCheckPod(cluster.Name, shape.CheckHash(version)), cluster.Namespace).
		WithLabels(labels).
		WithOwnerReferences(OwnerReference(cluster)).
		WithSpec(podSpec(in, shape).
			WithRestartPolicy(corev1.RestartPolicyNever).
			WithTerminationGracePeriodSeconds(0).
			WithContainers(check).
			WithVolumes(scratchVolumes(in, shape)...))
}

// CheckResult is what the agent's validate-config leaves as the check container's termination message.
type CheckResult struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Version string `json:"version,omitempty"`
}

// ReadCheckResult reads a termination message.
func ReadCheckResult(message string) (CheckResult, error) {
	var result CheckResult
	if err := json.Unmarshal([]byte(message), &result); err != nil {
		return CheckResult{}, fmt.Errorf("read the result of the configuration check: %w", err)
	}
	if !result.OK && result.Reason == "" {
		return CheckResult{}, fmt.Errorf("read the result of the configuration check: refused without a reason: %q", result.Message)
	}
	return result, nil
}

// Verdict is the result as it is kept.
func (r CheckResult) Verdict() Verdict {
	if r.OK {
		return Verdict{ServerVersion: r.Version}
	}
	return Verdict{Rejected: r.Reason, Message: r.Message, ServerVersion: r.Version}
}
