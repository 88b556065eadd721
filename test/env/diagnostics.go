package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// diagnosticKinds are written out. Secrets are not among them.
var diagnosticKinds = []schema.GroupVersionKind{
	{Group: "porpoise.dev", Version: "v1", Kind: "MySQLCluster"},
	{Group: "porpoise.dev", Version: "v1", Kind: "MySQLTopology"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
}

// logLines per container are kept.
const logLines = 5000

// DumpDiagnostics writes objects, Events and logs of kube-system, the operator's and the given namespaces to a new folder below
// LogDir and returns its path. It goes on when a part cannot be read, and works with a context of its own: it is called
// when the caller's has ended.
func (e *Env) DumpDiagnostics(ctx context.Context, reason string, namespaces ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	dir := filepath.Join(e.LogDir, "diagnostics-"+time.Now().UTC().Format("20060102-150405.000"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for diagnostics: %w", err)
	}
	problems := []error{os.WriteFile(filepath.Join(dir, "reason.txt"), []byte(reason+"\n"), 0o644)}
	all := slices.Compact(slices.Sorted(slices.Values(append([]string{OperatorNamespace, metav1.NamespaceSystem}, namespaces...))))
	for _, namespace := range all {
		problems = append(problems, e.dumpNamespace(ctx, filepath.Join(dir, namespace), namespace))
	}
	problems = append(problems, e.dumpKind(ctx, dir, schema.GroupVersionKind{Version: "v1", Kind: "Node"}, ""))
	if err := errors.Join(problems...); err != nil {
		_ = os.WriteFile(filepath.Join(dir, "incomplete.txt"), []byte(err.Error()+"\n"), 0o644)
	}
	return dir, nil
}

func (e *Env) dumpNamespace(ctx context.Context, dir, namespace string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder for diagnostics: %w", err)
	}
	var problems []error
	for _, kind := range diagnosticKinds {
		problems = append(problems, e.dumpKind(ctx, dir, kind, namespace))
	}
	return errors.Join(append(problems, e.dumpEvents(ctx, dir, namespace), e.dumpLogs(ctx, dir, namespace))...)
}

func (e *Env) dumpKind(ctx context.Context, dir string, kind schema.GroupVersionKind, namespace string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := e.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list %s in %q: %w", kind.Kind, namespace, err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	var out strings.Builder
	for i := range list.Items {
		unstructured.RemoveNestedField(list.Items[i].Object, "metadata", "managedFields")
		text, err := yaml.Marshal(list.Items[i].Object)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", kind.Kind, list.Items[i].GetName(), err)
		}
		out.WriteString("---\n" + string(text))
	}
	return os.WriteFile(filepath.Join(dir, strings.ToLower(kind.Kind)+".yaml"), []byte(out.String()), 0o644)
}

func (e *Env) dumpEvents(ctx context.Context, dir, namespace string) error {
	list := &corev1.EventList{}
	if err := e.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list events in %s: %w", namespace, err)
	}
	when := func(ev corev1.Event) time.Time {
		if !ev.LastTimestamp.IsZero() {
			return ev.LastTimestamp.Time
		}
		return ev.EventTime.Time
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return when(a).Compare(when(b)) })
	var out strings.Builder
	for _, ev := range list.Items {
		fmt.Fprintf(&out, "%s %-7s %-22s %s/%s: %s (%d)\n", when(ev).UTC().Format(time.RFC3339), ev.Type, ev.Reason,
			ev.InvolvedObject.Kind, ev.InvolvedObject.Name, ev.Message, ev.Count)
	}
	return os.WriteFile(filepath.Join(dir, "events.txt"), []byte(out.String()), 0o644)
}

func (e *Env) dumpLogs(ctx context.Context, dir, namespace string) error {
	clientset, err := kubernetes.NewForConfig(e.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	pods := &corev1.PodList{}
	if err := e.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list pods in %s: %w", namespace, err)
	}
	var problems []error
	for _, pod := range pods.Items {
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			for _, previous := range []bool{false, true} {
				if previous && status.RestartCount == 0 {
					continue
				}
				problems = append(problems, dumpLog(ctx, clientset, dir, pod, status.Name, previous))
			}
		}
	}
	return errors.Join(problems...)
}

func dumpLog(ctx context.Context, clientset kubernetes.Interface, dir string, pod corev1.Pod, container string, previous bool) error {
	name := pod.Name + "." + container
	if previous {
		name += ".previous"
	}
	request := clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: new(int64(logLines)), Timestamps: true,
	})
	stream, err := request.Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", name, err)
	}
	defer func() { _ = stream.Close() }()
	file, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return fmt.Errorf("write the log of %s: %w", name, err)
	}
	defer func() { _ = file.Close() }()
	if _, err := io.Copy(file, stream); err != nil {
		return fmt.Errorf("read the log of %s: %w", name, err)
	}
	return nil
}
