package mysqlcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sourceCache remembers the content of the ConfigMaps that configFrom names, by resource version. The informer holds
// only metadata, since it must see everybody's ConfigMaps; this holds the few whose content is needed.
type sourceCache struct {
	live client.Reader
	// entries by types.NamespacedName. The least recently used go, so that what no cluster names any more goes too.
	entries *lru.Cache
}

// sourcesKept bounds the memory that contents take, each of at most 1 MiB.
const sourcesKept = 128

type sourceEntry struct {
	version string
	data    map[string]string
}

func newSourceCache(live client.Reader) *sourceCache {
	return &sourceCache{live: live, entries: lru.New(sourcesKept)}
}

// get returns the content of the ConfigMap that metadata is of, reading it only when it has changed. An error of
// client.Get passes through, so that callers can tell NotFound.
func (c *sourceCache) get(ctx context.Context, metadata *metav1.PartialObjectMetadata) (map[string]string, error) {
	key := client.ObjectKeyFromObject(metadata)
	if kept, ok := c.entries.Get(key); ok {
		if entry, ok := kept.(sourceEntry); ok && entry.version == metadata.ResourceVersion {
			return entry.data, nil
		}
	}
	var full corev1.ConfigMap
	if err := c.live.Get(ctx, key, &full); err != nil {
		c.forget(key)
		return nil, fmt.Errorf("get ConfigMap %s: %w", key, err)
	}
	c.entries.Add(key, sourceEntry{version: full.ResourceVersion, data: full.Data})
	return full.Data, nil
}

// forget drops a ConfigMap that is gone.
func (c *sourceCache) forget(key types.NamespacedName) {
	c.entries.Remove(key)
}
