package mysqlcluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/porpoise-dev/porpoise/internal/apply"
)

func TestPodProblem(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "mysqld", Image: "example.org/mysql:1",
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7, Message: "no such file\n"}},
			}}
		}
	}
	unschedulable := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient memory.",
		}}
	}
	for name, tc := range map[string]struct {
		age    time.Duration
		change func(*corev1.Pod)
		reason string
		want   string
	}{
		"running":          {time.Hour, func(*corev1.Pod) {}, "", ""},
		"creating":         {time.Hour, waiting("ContainerCreating", ""), "", ""},
		"no room":          {time.Minute, unschedulable, "Unschedulable", "Insufficient memory"},
		"no room just now": {time.Second, unschedulable, "", ""},
		"image missing":    {time.Minute, waiting("ImagePullBackOff", "not found"), "ImagePullFailed", "example.org/mysql:1: ImagePullBackOff: not found"},
		"image never":      {time.Minute, waiting("ErrImageNeverPull", "absent"), "ImagePullFailed", "absent"},
		"configuration":    {time.Minute, waiting("CreateContainerConfigError", `secret "x" not found`), "ContainerConfigError", `secret "x" not found`},
		"crash loop":       {time.Minute, waiting("CrashLoopBackOff", "back-off"), "CrashLoop", "container mysqld of image example.org/mysql:1 ended with exit code 7: no such file"},
		"being deleted": {time.Minute, func(p *corev1.Pod) {
			waiting("CrashLoopBackOff", "")(p)
			p.DeletionTimestamp = &metav1.Time{Time: now}
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{now: now}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-tc.age))}}
			tc.change(pod)
			problem, ok := s.podProblem(pod)
			if ok != (tc.reason != "") || problem.Reason != tc.reason || !strings.Contains(problem.Message, tc.want) {
				t.Errorf("got %t %+v, want %s %q", ok, problem, tc.reason, tc.want)
			}
			if name == "no room just now" && s.requeue == 0 {
				t.Error("it is not looked at again")
			}
		})
	}
}

func TestClassify(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"none":        {nil, ""},
		"conflict":    {apierrors.NewConflict(resource, "x", errors.New("changed")), ""},
		"unavailable": {apierrors.NewServiceUnavailable("later"), ""},
		"quota":       {fmt.Errorf("apply: %w", apierrors.NewForbidden(resource, "x", errors.New("exceeded quota: small"))), reasonQuotaExceeded},
		"forbidden":   {apierrors.NewForbidden(resource, "x", errors.New("violates PodSecurity")), reasonForbidden},
		"foreign":     {fmt.Errorf("Service x %w", apply.ErrForeign), reasonObjectExists},
	} {
		t.Run(name, func(t *testing.T) {
			problem, ok := classify(tc.err)
			if ok != (tc.want != "") || problem.Reason != tc.want {
				t.Errorf("got %t %+v, want %q", ok, problem, tc.want)
			}
		})
	}
}
