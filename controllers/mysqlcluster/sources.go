package mysqlcluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sourceCache remembers the content of the ConfigMaps that configFrom names, by resource version. The informer holds
// only metadata, since it must see everybody's ConfigMaps; this holds the few whose content is needed.
type sourceCache struct {
	live client.Reader

	mu      sync.Mutex
	entries map[types.NamespacedName]sourceEntry
}

type sourceEntry struct {
	version string
	data    map[string]string
}

func newSourceCache(live client.Reader) *sourceCache {
	return &sourceCache{live: live, entries: map[types.NamespacedName]sourceEntry{}}
}

// get returns the content of the ConfigMap that metadata is of, reading it only when it has changed. An error of
// client.Get passes through, so that callers can tell NotFound.
func (c *sourceCache) get(ctx context.Context, metadata *metav1.PartialObjectMetadata) (map[string]string, error) {
	key := client.ObjectKeyFromObject(metadata)
	c.mu.Lock()
	entry, ok := c.entries[key]
	c.mu.Unlock()
	if ok && entry.version == metadata.ResourceVersion {
		return entry.data, nil
	}
	var full corev1.ConfigMap
	if err := c.live.Get(ctx, key, &full); err != nil {
		c.forget(key)
		return nil, fmt.Errorf("get ConfigMap %s: %w", key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = sourceEntry{version: full.ResourceVersion, data: full.Data}
	return full.Data, nil
}

// forget drops a ConfigMap that is gone.
func (c *sourceCache) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}
