//go:build e2e

package registry

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/test/env"
)

// connect attaches to the cluster; its Images are those that were built and pushed last.
func connect(t *testing.T) *env.Env {
	t.Helper()
	k, err := env.Attach(t.Context(), env.Options{Kubeconfig: world.kubeconfig, CreatedBy: "porpoise-registry-test", Out: os.Stdout})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// diagnoseFailure writes everything about our namespaces to a folder if the test fails.
func diagnoseFailure(t *testing.T, k *env.Env) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := k.DumpDiagnostics(context.Background(), t.Name(), demo, orders)
		if err != nil {
			t.Errorf("write diagnostics: %v", err)
		}
		t.Logf("diagnostics: %s", dir)
	})
}

func create(t *testing.T, k *env.Env, object client.Object) {
	t.Helper()
	if err := k.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s/%s: %v", object, object.GetNamespace(), object.GetName(), err)
	}
}

// assertPodsFrom wants this many pods in a namespace, all of whose containers name an image by the digest it was pushed
// with, and run it.
func assertPodsFrom(t *testing.T, k *env.Env, team, namespace string, count int) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := k.Client.List(t.Context(), pods, client.InNamespace(namespace)); err != nil {
		t.Fatalf("list pods in namespace %s: %v", namespace, err)
	}
	if len(pods.Items) != count {
		t.Errorf("%d pods in namespace %s, want %d", len(pods.Items), namespace, count)
	}
	pushed := []string{}
	for _, b := range k.Images.Images {
		if !strings.HasPrefix(b.Pushed, team+"/") || !strings.HasSuffix(b.Pushed, "@"+b.Digest) {
			t.Errorf("image %s was pushed as %q, want %s/…@%s", b.Name, b.Pushed, team, b.Digest)
		}
		pushed = append(pushed, b.Pushed)
	}
	for _, pod := range pods.Items {
		asked := map[string]string{}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			asked[c.Name] = c.Image
			if !slices.Contains(pushed, c.Image) {
				t.Errorf("pod %s, container %s: image %s, want one of %v", pod.Name, c.Name, c.Image, pushed)
			}
		}
		for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			// The node knows one content by every name it was pulled by, and tells one of them.
			_, digest, _ := strings.Cut(asked[s.Name], "@")
			if !strings.HasPrefix(s.ImageID, world.registry.host+"/") || !strings.HasSuffix(s.ImageID, "@"+digest) {
				t.Errorf("pod %s, container %s: runs %q, want %s", pod.Name, s.Name, s.ImageID, asked[s.Name])
			}
		}
	}
}

// assertNodePulledAll wants the node to have asked for every image where it was pushed last, and every part to have gone from
// the registry to the node. What it has from another repository it does not take again, but it must be let in all the same.
func assertNodePulledAll(t *testing.T, k *env.Env) {
	t.Helper()
	for _, b := range k.Images.Images {
		if !world.registry.wasResolved(b.Pushed) {
			t.Errorf("the node has not asked the registry for %s", b.Pushed)
		}
		for _, digest := range parts(t, b.Layout(), b.Digest) {
			if !world.registry.wasPulled(digest) {
				t.Errorf("image %s: the node has not pulled %s from the registry", b.Name, digest)
			}
		}
	}
}

// parts lists the digests of an image's manifest, configuration and layers.
func parts(t *testing.T, path, digest string) []string {
	t.Helper()
	hash, err := v1.NewHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := layout.FromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	image, err := folder.Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	out := []string{digest, manifest.Config.Digest.String()}
	for _, layer := range manifest.Layers {
		out = append(out, layer.Digest.String())
	}
	return out
}

// inventoryKinds are those of objects that belong to no namespace, and of namespaces themselves.
var inventoryKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"},
	{Version: "v1", Kind: "PersistentVolume"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"},
}

func inventory(t *testing.T, k *env.Env) []string {
	t.Helper()
	found, err := readInventory(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func readInventory(ctx context.Context, k *env.Env) ([]string, error) {
	var found []string
	for _, kind := range inventoryKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := k.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for _, o := range list.Items {
			found = append(found, kind.Kind+" "+o.Name)
		}
	}
	return found, nil
}

// assertNothingLeft waits a little, since volumes go after their claims.
func assertNothingLeft(t *testing.T, k *env.Env, before []string) {
	t.Helper()
	err := k.WaitFor(t.Context(), t.Name()+": nothing is left in the cluster", time.Minute, func(ctx context.Context) (bool, string, error) {
		now, err := readInventory(ctx, k)
		if err != nil {
			return false, "", err
		}
		left := slices.DeleteFunc(now, func(object string) bool { return slices.Contains(before, object) })
		return len(left) == 0, fmt.Sprintf("left: %v", left), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
