package mysqlcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/conditions"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Reasons of problems with pods.
const (
	reasonUnschedulable   = "Unschedulable"
	reasonImagePullFailed = "ImagePullFailed"
	reasonContainerConfig = "ContainerConfigError"
	reasonCrashLoop       = "CrashLoop"
	reasonPodRefused      = "PodRefused"
)

// waitingReasons says which reasons of a waiting container need a person, and what they are called here.
var waitingReasons = map[string]string{
	"ErrImagePull":               reasonImagePullFailed,
	"ImagePullBackOff":           reasonImagePullFailed,
	"ErrImageNeverPull":          reasonImagePullFailed,
	"InvalidImageName":           reasonImagePullFailed,
	"ImageInspectError":          reasonImagePullFailed,
	"RegistryUnavailable":        reasonImagePullFailed,
	"CreateContainerConfigError": reasonContainerConfig,
	"CreateContainerError":       reasonContainerConfig,
	"RunContainerError":          reasonContainerConfig,
	"CrashLoopBackOff":           reasonCrashLoop,
}

// troubles finds what keeps the pods of instances from running.
func (s *scope) troubles() {
	for name, pod := range s.live.pods {
		if problem, ok := s.podProblem(pod); ok {
			problem.Message = "instance " + name + ": " + problem.Message
			s.trouble[name] = problem
		}
	}
}

// podProblem says what keeps a pod from running, where that needs a person.
func (s *scope) podProblem(pod *corev1.Pod) (conditions.Problem, bool) {
	if !pod.DeletionTimestamp.IsZero() {
		return conditions.Problem{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		if age := s.now.Sub(pod.CreationTimestamp.Time); age < settleDelay {
			s.requeueAfter(settleDelay - age)
			continue
		}
		return conditions.Problem{Reason: reasonUnschedulable, Message: "no node can take its pod: " + c.Message}, true
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		reason, ok := waitingReasons[waiting.Reason]
		if !ok {
			continue
		}
		message := fmt.Sprintf("container %s of image %s: %s: %s", status.Name, status.Image, waiting.Reason, waiting.Message)
		if last := status.LastTerminationState.Terminated; reason == reasonCrashLoop && last != nil {
			message = fmt.Sprintf("container %s of image %s ended with exit code %d: %s", status.Name, status.Image, last.ExitCode, strings.TrimSpace(last.Message))
		}
		return conditions.Problem{Reason: reason, Message: message}, true
	}
	return conditions.Problem{}, false
}

// diagnose names what keeps wanted instances from running.
func diagnose(ctx context.Context, s *scope) (Result, error) {
	for _, name := range s.wanted() {
		if claim := s.live.claims[naming.DataClaim(name)]; claim != nil {
			if err := s.diagnoseClaim(ctx, claim); err != nil {
				return Result{}, err
			}
		}
	}
	for _, name := range s.wanted() {
		if problem, ok := s.trouble[name]; ok {
			s.problem(problem.Reason, problem.Message)
		}
		if set := s.live.statefulSets[name]; set != nil && s.live.pods[name] == nil {
			if err := s.diagnoseMissingPod(ctx, set); err != nil {
				return Result{}, err
			}
		}
	}
	return Continue(), nil
}

// diagnoseMissingPod asks the API server, without creating anything, why the StatefulSet's pod is not there: the answer is
// exact (quota, pod security, a missing priority class), where Events may be old or gone.
func (s *scope) diagnoseMissingPod(ctx context.Context, set *appsv1.StatefulSet) error {
	s.requeueAfter(missingPodDelay)
	if !set.DeletionTimestamp.IsZero() || s.now.Sub(set.CreationTimestamp.Time) < missingPodDelay {
		return nil
	}
	pod := &corev1.Pod{
		ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(),
		Spec:       *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Name, pod.Namespace = naming.Pod(set.Name), set.Namespace
	err := s.client.Create(ctx, pod, client.DryRunAll)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		reason := reasonPodRefused
		if problem, ok := classify(err); ok && problem.Reason == reasonQuotaExceeded {
			reason = reasonQuotaExceeded
		}
		problem := conditions.Problem{Reason: reason, Message: fmt.Sprintf("instance %s: its pod cannot be created: %s", set.Name, err)}
		s.trouble[set.Name] = problem
		s.problem(problem.Reason, problem.Message)
		return nil
	default:
		return fmt.Errorf("ask why the pod of %s is missing: %w", set.Name, err)
	}
}
