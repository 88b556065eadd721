package mysqlcluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	reasonCheckFailed     = "ConfigCheckFailed"
	eventRevisionAccepted = "RevisionAccepted"
	eventRevisionRejected = "RevisionRejected"
	actionCheck           = "Check"
	// checkRetryDelay is how long a check that could not be made is left to be looked at before it is tried again.
	checkRetryDelay = 15 * time.Second
)

// accept lets the target image check the configuration before any instance is touched, and keeps the verdict with the
// revision. A revision that was rejected is not tried again until what was checked changes. The pods of a cluster that has
// nothing to lose yet start meanwhile, and wait: where the check passes, as it nearly always does, they have not waited.
func accept(ctx context.Context, s *scope) (Result, error) {
	if err := s.acceptShape(ctx); err != nil {
		return Result{}, err
	}
	if s.target == nil {
		s.target = s.newestAccepted()
	}
	if s.target == nil && s.unjudged && s.unfounded() {
		hash := s.shape.Revision()
		s.target, s.tentative = &desired.StoredRevision{Name: naming.Revision(s.cluster.Name, hash), Hash: hash, Shape: *s.shape}, true
	}
	return Continue(), nil
}

func (s *scope) acceptShape(ctx context.Context) error {
	if s.shape == nil || s.foreign {
		return nil
	}
	hash, check := s.shape.Revision(), s.shape.CheckHash(s.cluster.Spec.Version)
	s.unjudged = true
	if stored, ok := s.live.revisions[hash]; ok && stored.Verdict.Check == check {
		return s.settle(ctx, stored.Verdict)
	}
	if err := s.applyConfigMap(ctx, *s.shape); err != nil {
		return err
	}
	pod := s.live.checks[naming.ConfigCheckPod(s.cluster.Name, check)]
	if pod == nil {
		return s.apply(ctx, desired.CheckPod(s.in, *s.shape, s.cluster.Spec.Version), nil)
	}
	verdict, done, err := s.verdict(ctx, pod)
	if err != nil || !done {
		return err
	}
	verdict.Check, verdict.ResolvedFrom = check, s.resolvedFrom
	s.announceVerdict(hash, verdict)
	return s.settle(ctx, verdict)
}

// settle keeps the verdict, and makes an accepted revision the target.
func (s *scope) settle(ctx context.Context, verdict desired.Verdict) error {
	hash := s.shape.Revision()
	s.unjudged = false
	verdict.ResolvedFrom = s.resolvedFrom
	number := s.number(hash)
	want := desired.Revision(s.in, *s.shape, verdict, number)
	if err := s.apply(ctx, want, s.live.revisionObjects[naming.Revision(s.cluster.Name, hash)]); err != nil {
		return err
	}
	if verdict.Rejected != "" {
		s.problem(verdict.Rejected, fmt.Sprintf("%simage %s: %s", s.culprit(verdict.Rejected), s.shape.Image, verdict.Message))
		return nil
	}
	s.target = &desired.StoredRevision{Name: naming.Revision(s.cluster.Name, hash), Hash: hash, Number: number, Shape: *s.shape, Verdict: verdict}
	return nil
}

// culprit names the fields that a refusal of mysqld is about, as far as its reason tells.
func (s *scope) culprit(reason string) string {
	switch {
	case reason != reasonConfigRejected:
		return ""
	case len(s.cluster.Spec.ConfigFrom) == 0:
		return "spec.config: "
	case len(s.cluster.Spec.Config) == 0:
		return "spec.configFrom: "
	}
	return "spec.config, spec.configFrom: "
}

// number is the revision's own while it is the newest, or else the next: the highest is the one asked for last.
func (s *scope) number(hash string) int64 {
	var highest int64
	newest := ""
	for _, revision := range s.live.revisions {
		if revision.Number > highest {
			highest, newest = revision.Number, revision.Hash
		}
	}
	if newest == hash {
		return highest
	}
	return highest + 1
}

// verdict reads what the check found; done is false while it runs or cannot be made.
func (s *scope) verdict(ctx context.Context, pod *corev1.Pod) (verdict desired.Verdict, done bool, err error) {
	terminated := checkEnd(pod)
	if terminated == nil && pod.Status.Phase != corev1.PodFailed {
		if problem, ok := s.podProblem(pod); ok {
			s.problem(problem.Reason, "checking the configuration: "+problem.Message)
		}
		return desired.Verdict{}, false, nil
	}
	var result desired.CheckResult
	message := "its pod ended: " + pod.Status.Reason + " " + pod.Status.Message
	if terminated != nil {
		message = terminated.Message
		if terminated.ExitCode == 0 {
			if result, err = desired.ReadCheckResult(terminated.Message); err == nil {
				return result.Verdict(), true, nil
			}
			message = err.Error()
		}
	}
	s.problem(reasonCheckFailed, fmt.Sprintf("the configuration could not be checked by image %s and will be tried again: %s", s.shape.Image, message))
	if ended := endOf(pod); s.now.Sub(ended) < checkRetryDelay {
		s.requeueAfter(checkRetryDelay - s.now.Sub(ended))
		return desired.Verdict{}, false, nil
	}
	return desired.Verdict{}, false, s.applier.DeleteUID(ctx, pod, client.GracePeriodSeconds(0))
}

func checkEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == desired.ContainerCheck {
			return status.State.Terminated
		}
	}
	return nil
}

// endOf is when a pod's last container ended, or when the pod was made where that is not known.
func endOf(pod *corev1.Pod) time.Time {
	end := pod.CreationTimestamp.Time
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if t := status.State.Terminated; t != nil && t.FinishedAt.After(end) {
				end = t.FinishedAt.Time
			}
		}
	}
	return end
}

func (s *scope) announceVerdict(hash string, verdict desired.Verdict) {
	revision := s.child("apps/v1", "ControllerRevision", naming.Revision(s.cluster.Name, hash))
	if verdict.Rejected != "" {
		s.event(corev1.EventTypeWarning, eventRevisionRejected, actionCheck,
			fmt.Sprintf("revision %s (%s) is refused: %s", hash, s.shape.Image, verdict.Message), revision)
		return
	}
	s.event(corev1.EventTypeNormal, eventRevisionAccepted, actionCheck,
		fmt.Sprintf("revision %s: mysqld %s of %s accepts the configuration", hash, verdict.ServerVersion, s.shape.Image), revision)
}

// applyConfigMap makes the ConfigMap of a shape where it is missing. It is immutable and named by its content, so that
// one which exists is right, and its content need not be read.
func (s *scope) applyConfigMap(ctx context.Context, shape desired.Shape) error {
	if s.live.configMaps[naming.ConfigMap(s.cluster.Name, shape.ConfigHash())] != nil {
		return nil
	}
	return s.apply(ctx, desired.ConfigMap(s.in, shape), nil)
}
