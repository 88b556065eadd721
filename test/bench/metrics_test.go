package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const metricsText = `# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 5.24288e+07
# TYPE go_memstats_heap_inuse_bytes gauge
go_memstats_heap_inuse_bytes 2.097152e+07
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
# TYPE go_goroutines gauge
go_goroutines 321
# TYPE porpoise_api_writes_total counter
porpoise_api_writes_total{lane="topology",resource="leases",verb="put"} 100
porpoise_api_writes_total{lane="cluster",resource="leases",verb="put"} 20
porpoise_api_writes_total{lane="cluster",resource="tokenreviews",verb="post"} 3
porpoise_api_writes_total{lane="topology",resource="mysqltopologies/status",verb="put"} 7
`

func TestMetricsAreRead(t *testing.T) {
	began := time.Now()
	before, err := parseMetrics(strings.NewReader(metricsText), began)
	if err != nil {
		t.Fatal(err)
	}
	if before.residentMiB != 50 || before.heapMiB != 20 || before.goroutines != 321 || before.leases != 120 {
		t.Errorf("got %+v", before)
	}
	later := strings.NewReplacer("12.5", "13.1", `status",verb="put"} 7`, `status",verb="put"} 9`).Replace(metricsText)
	after, err := parseMetrics(strings.NewReader(later), began.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"topology put mysqltopologies/status": 2}, after.writesSince(before)); diff != "" {
		t.Error(diff)
	}
	if got := after.millicores(before); got < 9.99 || got > 10.01 {
		t.Errorf("0.6 s of CPU in a minute are %v millicores, want 10", got)
	}
	if n := len(before.writesSince(before)); n != 0 {
		t.Errorf("%d writes since the same moment", n)
	}
}

func TestMetricsThatLackSomethingAreRefused(t *testing.T) {
	for _, name := range []string{"process_resident_memory_bytes", "go_memstats_heap_inuse_bytes", "process_cpu_seconds_total", "go_goroutines"} {
		_, err := parseMetrics(strings.NewReader(strings.ReplaceAll(metricsText, name, "other_"+name)), time.Now())
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestManagersAreNamedByWhatTheyLead(t *testing.T) {
	for want, leaders := range map[string]map[string]string{
		"leader":                      {"topology": "a", "cluster": "a"},
		"standby":                     {"topology": "b", "cluster": "c"},
		"leader of the topology lane": {"topology": "a", "cluster": "b"},
	} {
		if got := managerRole("a", leaders); got != want {
			t.Errorf("%v: %q, want %q", leaders, got, want)
		}
	}
}
