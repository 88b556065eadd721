package mysqlcluster

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/porpoise-dev/porpoise/internal/apply"
)

var writes = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "porpoise_cluster_writes_total",
	Help: "Writes of the cluster lane to the Kubernetes API, by kind and verb. It stands still while nothing changes.",
}, []string{"kind", "verb"})

func init() {
	metrics.Registry.MustRegister(writes)
}

// observeWrite counts and logs every write, and tells next of it.
func observeWrite(next func(context.Context, apply.Write)) func(context.Context, apply.Write) {
	return func(ctx context.Context, w apply.Write) {
		writes.WithLabelValues(w.Kind, string(w.Verb)).Inc()
		ctrl.LoggerFrom(ctx).Info("Wrote", "verb", w.Verb, "object", w.Kind+"/"+w.Key.Name)
		if next != nil {
			next(ctx, w)
		}
	}
}
