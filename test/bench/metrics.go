package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sample is what a manager's metrics say at a moment.
type sample struct {
	at time.Time
	// residentMiB and heapMiB are memory of the process and of its heap in use.
	residentMiB, heapMiB float64
	// cpuSeconds since the process began.
	cpuSeconds float64
	goroutines float64
	// writes to the API server since the process began, Leases and reviews apart, by "lane verb resource".
	writes map[string]float64
	leases float64
}

// scrape reads metrics; token may be empty.
func scrape(ctx context.Context, web *http.Client, url, token string) (*sample, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := web.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: %s", response.Status)
	}
	return parseMetrics(response.Body, time.Now())
}

// parseMetrics reads the text format of Prometheus. What every Go process with these metrics has must be there.
func parseMetrics(r io.Reader, at time.Time) (*sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	s := &sample{at: at, writes: map[string]float64{}}
	for name, to := range map[string]*float64{
		"process_resident_memory_bytes": &s.residentMiB, "go_memstats_heap_inuse_bytes": &s.heapMiB,
		"process_cpu_seconds_total": &s.cpuSeconds, "go_goroutines": &s.goroutines,
	} {
		family := families[name]
		if family == nil || len(family.GetMetric()) != 1 {
			return nil, fmt.Errorf("read metrics: there is no %s", name)
		}
		*to = valueOf(family.GetMetric()[0])
	}
	s.residentMiB /= 1 << 20
	s.heapMiB /= 1 << 20
	for _, m := range families["porpoise_api_writes_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		switch {
		case labels["resource"] == "leases":
			s.leases += valueOf(m)
		case !strings.Contains(labels["resource"], "reviews"):
			s.writes[labels["lane"]+" "+labels["verb"]+" "+labels["resource"]] += valueOf(m)
		}
	}
	return s, nil
}

func valueOf(m *dto.Metric) float64 {
	if c := m.GetCounter(); c != nil {
		return c.GetValue()
	}
	if g := m.GetGauge(); g != nil {
		return g.GetValue()
	}
	return m.GetUntyped().GetValue()
}

// writesSince counts the writes between two samples of one process.
func (s *sample) writesSince(before *sample) map[string]int {
	out := map[string]int{}
	for name, n := range s.writes {
		if d := int(n - before.writes[name]); d != 0 {
			out[name] = d
		}
	}
	return out
}

// millicores used on average between two samples of one process.
func (s *sample) millicores(before *sample) float64 {
	return 1000 * (s.cpuSeconds - before.cpuSeconds) / s.at.Sub(before.at).Seconds()
}
