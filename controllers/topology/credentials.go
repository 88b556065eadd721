package topology

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// credentialStore reads clusters' manager certificates when their Secret's metadata, which is all that is cached, show
// another version.
type credentialStore struct {
	cached client.Reader
	live   client.Reader

	mu sync.Mutex
	by map[types.NamespacedName]*agentclient.Credentials
}

func newCredentials(cached, live client.Reader) *credentialStore {
	return &credentialStore{cached: cached, live: live, by: map[types.NamespacedName]*agentclient.Credentials{}}
}

func (c *credentialStore) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, key)
}

// get returns a cluster's credentials; nil: its Secret does not exist yet. While the Secret is missing or cannot be read,
// those that were read before go on serving.
func (c *credentialStore) get(ctx context.Context, cluster types.NamespacedName) (*agentclient.Credentials, error) {
	c.mu.Lock()
	known := c.by[cluster]
	c.mu.Unlock()
	name := types.NamespacedName{Namespace: cluster.Namespace, Name: naming.SecretManagerTLS(cluster.Name)}
	meta := metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := c.cached.Get(ctx, name, &meta); err != nil {
		return known, client.IgnoreNotFound(err)
	}
	if known != nil && known.Version == version(&meta) {
		return known, nil
	}
	var secret corev1.Secret
	if err := c.live.Get(ctx, name, &secret); err != nil {
		return known, client.IgnoreNotFound(err)
	}
	fresh, err := agentclient.ParseCredentials(version(&secret), secret.Data)
	if err != nil {
		return known, fmt.Errorf("secret %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[cluster] = fresh
	return fresh, nil
}

func version(obj client.Object) string { return string(obj.GetUID()) + "/" + obj.GetResourceVersion() }
