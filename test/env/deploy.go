package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/porpoise-dev/porpoise/internal/release/install"
)

// LabelCreatedBy marks what was installed by Options.CreatedBy.
const LabelCreatedBy = "app.kubernetes.io/created-by"

// fieldOwner of what this package applies.
const fieldOwner = "porpoise-test-env"

// deployTimeout covers pulling the image from a registry.
const deployTimeout = 3 * time.Minute

// Deploy installs CRDs and operator from config/default with the images that were built, and waits until it runs. In a
// cluster that is not ours alone an operator that somebody else installed is used as it is.
func (e *Env) Deploy(ctx context.Context) error {
	objects, err := e.renderOperator()
	if err != nil {
		return err
	}
	foreign, err := e.foreignOperator(ctx, objects)
	if err != nil {
		return err
	}
	if foreign {
		e.Timeline.Note("Operator: the one that runs in namespace %s already is used as it is", OperatorNamespace)
	} else if err := e.applyOperator(ctx, objects); err != nil {
		return err
	}
	return e.WaitFor(ctx, "Operator: wait until it runs", deployTimeout, e.operatorRuns)
}

func (e *Env) applyOperator(ctx context.Context, objects []*unstructured.Unstructured) error {
	step := e.Timeline.Begin("Operator: install")
	// Definitions and namespaces come first, and kinds are served only a moment after their definition is there.
	early, late := splitEarly(objects)
	for _, o := range early {
		if err := e.apply(ctx, o); err != nil {
			return step.Fail(err)
		}
	}
	if _, err := poll(ctx, 30*time.Second, e.definitionsServed(early), step.Update); err != nil {
		return step.Fail(fmt.Errorf("wait until the CRDs are served: %w", err))
	}
	for _, o := range late {
		if err := e.apply(ctx, o); err != nil {
			return step.Fail(err)
		}
	}
	step.Done("%d objects applied", len(objects))
	return nil
}

// renderOperator renders config/default with the images that were built, as hack/deploy does.
func (e *Env) renderOperator() ([]*unstructured.Unstructured, error) {
	text, err := install.Render(e.run.root, e.Images)
	if err != nil {
		return nil, err
	}
	return decodeAll(string(text))
}

func decodeAll(text string) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

func splitEarly(objects []*unstructured.Unstructured) (early, late []*unstructured.Unstructured) {
	for _, o := range objects {
		if kind := o.GetKind(); kind == "CustomResourceDefinition" || kind == "Namespace" {
			early = append(early, o)
		} else {
			late = append(late, o)
		}
	}
	return early, late
}

func (e *Env) apply(ctx context.Context, o *unstructured.Unstructured) error {
	if by := e.options.CreatedBy; by != "" {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[LabelCreatedBy] = by
		o.SetLabels(labels)
	}
	err := e.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner(fieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
	}
	return nil
}

func (e *Env) definitionsServed(objects []*unstructured.Unstructured) Check {
	return func(ctx context.Context) (bool, string, error) {
		for _, o := range objects {
			if o.GetKind() != "CustomResourceDefinition" {
				continue
			}
			seen := &unstructured.Unstructured{}
			seen.SetGroupVersionKind(o.GroupVersionKind())
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(o), seen); err != nil {
				return false, "", err
			}
			if !conditionTrue(seen, "Established") {
				return false, o.GetName() + " is not established yet", nil
			}
		}
		return true, "all are served", nil
	}
}

func conditionTrue(o *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return m["status"] == "True"
		}
	}
	return false
}

func (e *Env) operatorDeployments(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := e.Client.List(ctx, list, client.InNamespace(OperatorNamespace)); err != nil {
		return nil, fmt.Errorf("list deployments in namespace %s: %w", OperatorNamespace, err)
	}
	return list.Items, nil
}

// operatorRuns waits for the rollout, not only for the old replicas.
func (e *Env) operatorRuns(ctx context.Context) (bool, string, error) {
	deployments, err := e.operatorDeployments(ctx)
	if err != nil {
		return false, "", err
	}
	if len(deployments) == 0 {
		return false, "no Deployment in namespace " + OperatorNamespace, nil
	}
	for _, d := range deployments {
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < wanted || s.AvailableReplicas < wanted || s.Replicas > wanted {
			return false, fmt.Sprintf("%d of %d replicas available%s", s.AvailableReplicas, wanted, e.podTrouble(ctx, d.Namespace)), nil
		}
	}
	return true, fmt.Sprintf("%d of %d replicas available", deployments[0].Status.AvailableReplicas, deployments[0].Status.Replicas), nil
}

// podTrouble says why pods of a namespace do not run, where their containers say so.
func (e *Env) podTrouble(ctx context.Context, namespace string) string {
	pods := &corev1.PodList{}
	if err := e.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return ""
	}
	for _, p := range pods.Items {
		for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			if w := s.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return fmt.Sprintf("; %s: %s %s", p.Name, w.Reason, w.Message)
			}
		}
	}
	return ""
}

// foreignOperator says whether somebody else's operator runs in a cluster that is not ours alone.
func (e *Env) foreignOperator(ctx context.Context, objects []*unstructured.Unstructured) (bool, error) {
	if !e.options.External() {
		return false, nil
	}
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		seen := &appsv1.Deployment{}
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(o), seen)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("get deployment %s: %w", o.GetName(), err)
		}
		if by := seen.Labels[LabelCreatedBy]; by == "" || by != e.options.CreatedBy {
			return true, nil
		}
	}
	return false, nil
}

// Undeploy removes the operator and its CRDs if Deploy with the same Options.CreatedBy installed them.
func (e *Env) Undeploy(ctx context.Context) error {
	path := filepath.Join(e.run.root, "config", "default")
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // The overlay says it; kustomize warns where both do.
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		return fmt.Errorf("build %s: %w", path, err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		return fmt.Errorf("build %s: %w", path, err)
	}
	objects, err := decodeAll(string(text))
	if err != nil {
		return err
	}
	step := e.Timeline.Begin("Operator: remove")
	removed := 0
	for i := range objects {
		// The other way round: the operator goes before its CRDs and its namespace.
		gone, err := e.removeOurs(ctx, objects[len(objects)-1-i])
		if err != nil {
			return step.Fail(err)
		}
		removed += gone
	}
	if _, err := poll(ctx, 2*time.Minute, e.operatorGone, step.Update); err != nil {
		return step.Fail(fmt.Errorf("wait until namespace %s is gone: %w", OperatorNamespace, err))
	}
	step.Done("%d objects; what others installed stays", removed)
	return nil
}

// operatorGone waits for the namespace if it is ending: what was in it has then ended, and it can be made again.
func (e *Env) operatorGone(ctx context.Context) (bool, string, error) {
	ns := &corev1.Namespace{}
	err := e.Client.Get(ctx, client.ObjectKey{Name: OperatorNamespace}, ns)
	if apierrors.IsNotFound(err) {
		return true, "gone", nil
	}
	return err == nil && ns.DeletionTimestamp == nil, "its namespace is ending", err
}

func (e *Env) removeOurs(ctx context.Context, o *unstructured.Unstructured) (int, error) {
	seen := &unstructured.Unstructured{}
	seen.SetGroupVersionKind(o.GroupVersionKind())
	err := e.Client.Get(ctx, client.ObjectKeyFromObject(o), seen)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("get %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if by := seen.GetLabels()[LabelCreatedBy]; by == "" || by != e.options.CreatedBy {
		return 0, nil
	}
	if err := client.IgnoreNotFound(e.Client.Delete(ctx, seen)); err != nil {
		return 0, fmt.Errorf("delete %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return 1, nil
}
