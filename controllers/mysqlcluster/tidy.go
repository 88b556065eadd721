package mysqlcluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// revisionHistoryLimit is how many revisions are kept besides those in use.
const revisionHistoryLimit = 10

// tidy deletes what nothing needs any more: ended or outdated checks, revisions beyond the limit, configurations that no
// pod, template or kept check uses, and certificates of instances that are gone.
func tidy(ctx context.Context, s *scope) (Result, error) {
	if err := s.tidyChecks(ctx); err != nil {
		return Result{}, err
	}
	inUse := s.revisionsInUse()
	if err := s.tidyRevisions(ctx, inUse); err != nil {
		return Result{}, err
	}
	if err := s.tidyConfigMaps(ctx, inUse); err != nil {
		return Result{}, err
	}
	return Continue(), s.tidySecrets(ctx)
}

// tidySecrets deletes the certificates of instances that are gone.
func (s *scope) tidySecrets(ctx context.Context) error {
	for _, secret := range s.live.secrets {
		instance := secret.Labels[naming.LabelInstance]
		if instance == "" || s.invalid || s.live.statefulSets[instance] != nil || slices.Contains(s.wanted(), instance) || !metav1.IsControlledBy(secret, s.cluster) {
			continue
		}
		if err := s.applier.Delete(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

// tidyChecks deletes the pods of checks whose verdict is kept or whose question has changed.
func (s *scope) tidyChecks(ctx context.Context) error {
	wanted := ""
	if s.shape != nil {
		check := s.shape.CheckHash(s.cluster.Spec.Version)
		if stored, ok := s.live.revisions[s.shape.Revision()]; !ok || stored.Verdict.Check != check {
			wanted = naming.ConfigCheckPod(s.cluster.Name, check)
		}
	} else if len(s.problems) > 0 && !s.invalid {
		return nil // What is to be checked is not known just now.
	}
	for name, pod := range s.live.checks {
		if name == wanted || !metav1.IsControlledBy(pod, s.cluster) {
			continue
		}
		if err := s.applier.DeleteUID(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			return err
		}
	}
	return nil
}

// revisionsInUse are those of pods, templates, the target and the stable one.
func (s *scope) revisionsInUse() map[string]bool {
	inUse := map[string]bool{s.cluster.Status.Revisions.Stable: true}
	if s.target != nil {
		inUse[s.target.Hash] = true
	}
	if s.shape != nil {
		inUse[s.shape.Revision()] = true
	}
	for _, set := range s.live.statefulSets {
		inUse[set.Annotations[naming.AnnotationRevision]] = true
	}
	for _, pod := range s.live.pods {
		inUse[pod.Annotations[naming.AnnotationRevision]] = true
	}
	return inUse
}

func (s *scope) tidyRevisions(ctx context.Context, inUse map[string]bool) error {
	var idle []desired.StoredRevision
	for _, revision := range s.live.revisions {
		if !inUse[revision.Hash] {
			idle = append(idle, revision)
		}
	}
	slices.SortFunc(idle, func(a, b desired.StoredRevision) int { return int(b.Number - a.Number) })
	for _, revision := range idle[min(len(idle), revisionHistoryLimit):] {
		if err := s.applier.Delete(ctx, s.live.revisionObjects[revision.Name]); err != nil {
			return err
		}
	}
	return nil
}

// tidyConfigMaps keeps the configurations of the revisions in use; an older one is made again from its revision.
func (s *scope) tidyConfigMaps(ctx context.Context, inUse map[string]bool) error {
	keep := map[string]bool{}
	if s.shape != nil {
		keep[naming.ConfigMap(s.cluster.Name, s.shape.ConfigHash())] = true
	}
	for hash := range inUse {
		if revision, ok := s.live.revisions[hash]; ok {
			keep[naming.ConfigMap(s.cluster.Name, revision.Shape.ConfigHash())] = true
		}
	}
	for _, pods := range []map[string]*corev1.Pod{s.live.pods, s.live.checks} {
		for _, pod := range pods {
			for _, volume := range pod.Spec.Volumes {
				if volume.ConfigMap != nil {
					keep[volume.ConfigMap.Name] = true
				}
			}
		}
	}
	for _, set := range s.live.statefulSets {
		for _, volume := range set.Spec.Template.Spec.Volumes {
			if volume.ConfigMap != nil {
				keep[volume.ConfigMap.Name] = true
			}
		}
	}
	for name, metadata := range s.live.configMaps {
		if keep[name] || !metav1.IsControlledBy(metadata, s.cluster) {
			continue
		}
		if err := s.applier.Delete(ctx, metadata); err != nil {
			return err
		}
	}
	return nil
}
