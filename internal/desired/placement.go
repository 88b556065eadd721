package desired

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// affinity is the user's, or else prefers a node of its own for each instance. It only prefers: three instances on one
// node are better than one instance and two that wait.
func affinity(in Input, shape Shape) *corev1ac.AffinityApplyConfiguration {
	if shape.Pod.Affinity != nil {
		return convert[corev1ac.AffinityApplyConfiguration](shape.Pod.Affinity)
	}
	return corev1ac.Affinity().WithPodAntiAffinity(corev1ac.PodAntiAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(corev1ac.WeightedPodAffinityTerm().
			WithWeight(100).
			WithPodAffinityTerm(corev1ac.PodAffinityTerm().
				WithTopologyKey(corev1.LabelHostname).
				WithLabelSelector(selector(in.Cluster.Name)))))
}

// spread is the user's, or else spreads instances over zones where nodes have any.
func spread(in Input, shape Shape) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	if len(shape.Pod.TopologySpreadConstraints) == 0 {
		return []*corev1ac.TopologySpreadConstraintApplyConfiguration{
			corev1ac.TopologySpreadConstraint().
				WithMaxSkew(1).
				WithTopologyKey(corev1.LabelTopologyZone).
				WithWhenUnsatisfiable(corev1.ScheduleAnyway).
				WithLabelSelector(selector(in.Cluster.Name)),
		}
	}
	out := make([]*corev1ac.TopologySpreadConstraintApplyConfiguration, 0, len(shape.Pod.TopologySpreadConstraints))
	for _, constraint := range shape.Pod.TopologySpreadConstraints {
		c := convert[corev1ac.TopologySpreadConstraintApplyConfiguration](constraint)
		if c.LabelSelector == nil {
			c.WithLabelSelector(selector(in.Cluster.Name))
		}
		out = append(out, c)
	}
	return out
}
