package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func TestWritesAreCounted(t *testing.T) {
	const (
		namespaced = "/apis/porpoise.dev/v1/namespaces/shop/"
		lane       = "writes-test"
	)
	writes.DeletePartialMatch(prometheus.Labels{"lane": lane}) // Of an earlier run in this process.
	reached := 0
	config := &rest.Config{Host: "http://api", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		reached++
		return &http.Response{StatusCode: http.StatusConflict, Body: http.NoBody}, nil
	})}
	countWrites(config, lane)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	sent := []struct{ method, path, verb, resource string }{
		{http.MethodPost, namespaced + "mysqlclusters", "post", "mysqlclusters"},
		{http.MethodPut, namespaced + "mysqltopologies/orders/status", "put", "mysqltopologies/status"},
		{http.MethodPatch, "/api/v1/namespaces/shop/pods/orders-0-0", "patch", "pods"},
		{http.MethodDelete, "/api/v1/namespaces/shop/pods/orders-0-0", "delete", "pods"},
		{http.MethodPatch, "/api/v1/persistentvolumes/pv-1", "patch", "persistentvolumes"},
		{http.MethodDelete, "/api/v1/namespaces/shop", "delete", "namespaces"},
		{http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/porpoise-system/leases/porpoise-topology", "put", "leases"},
		{http.MethodPost, "/version", "post", "other"},
		{http.MethodPost, "/api/v1", "post", "other"},
		// Reads are none.
		{http.MethodGet, namespaced + "mysqlclusters", "", ""},
		{http.MethodGet, namespaced + "mysqlclusters?watch=true", "", ""},
	}
	for _, s := range sent {
		req, err := http.NewRequestWithContext(t.Context(), s.method, "http://api"+s.path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if reached != len(sent) {
		t.Errorf("%d requests passed, want %d", reached, len(sent))
	}
	want := map[[2]string]float64{}
	for _, s := range sent {
		if s.verb != "" {
			want[[2]string{s.verb, s.resource}]++
		}
	}
	for labels, n := range want {
		if got := value(t, writes.WithLabelValues(lane, labels[0], labels[1])); got != n {
			t.Errorf("%s %s: counted %g, want %g", labels[0], labels[1], got, n)
		}
	}
	if got := value(t, writes.WithLabelValues(lane, "get", "mysqlclusters")); got != 0 {
		t.Errorf("%g reads were counted", got)
	}
}
