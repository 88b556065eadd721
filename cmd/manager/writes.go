package main

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// writes counts API writes, so that "a quiet cluster costs none" can be seen. Leases are renewed for ever and have their
// own resource label.
var writes = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "porpoise_api_writes_total",
	Help: "Writes that the operator sent to the API server, by lane, verb and resource (RESOURCE or RESOURCE/SUBRESOURCE).",
}, []string{"lane", "verb", "resource"})

func init() { metrics.Registry.MustRegister(writes) }

// countWrites makes every client of the configuration count.
func countWrites(config *rest.Config, lane string) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &writeCounter{next: next, lane: lane} })
}

type writeCounter struct {
	next http.RoundTripper
	lane string
}

// RoundTrip counts and passes on.
func (c *writeCounter) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		writes.WithLabelValues(c.lane, strings.ToLower(req.Method), resourceOf(req.URL.Path)).Inc()
	}
	return c.next.RoundTrip(req)
}

// WrappedRoundTripper lets client-go reach the transport, to cancel requests and to close connections.
func (c *writeCounter) WrappedRoundTripper() http.RoundTripper { return c.next }

// resourceOf names the resource of an API path: /api/v1/… or /apis/GROUP/VERSION/…, namespaced or not.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "other"
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		return parts[0] + "/" + parts[2]
	}
	return parts[0]
}
