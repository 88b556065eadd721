package main

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"
)

// parse runs the command with arguments and returns what run was given.
func parse(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	var got *options
	cmd := newCommand(func(_ context.Context, o options) error {
		got = &o
		return nil
	})
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return got, err
}

func TestBadFlags(t *testing.T) {
	const image = "--operator-image=op"
	for _, tc := range []struct {
		name string
		args []string
		// want are parts of the message: the flag, the value, what is allowed.
		want []string
	}{
		{"no image", nil, []string{"--operator-image", "must be set"}},
		{"log level", []string{image, "--log-level=loud"}, []string{"--log-level", `"loud"`, "info, debug"}},
		{"log format", []string{image, "--log-format=xml"}, []string{"--log-format", `"xml"`, "json, console"}},
		{"no topology worker", []string{image, "--topology-workers=0"}, []string{"--topology-workers", "0;", "1 to 256"}},
		{"too many topology workers", []string{image, "--topology-workers=257"}, []string{"--topology-workers", "257", "1 to 256"}},
		{"negative cluster workers", []string{image, "--cluster-workers=-3"}, []string{"--cluster-workers", "-3", "1 to 256"}},
		{"topology calls", []string{image, "--topology-qps=0.5"}, []string{"--topology-qps", "0.5", "1 to 10000"}},
		{"cluster calls", []string{image, "--cluster-qps=10001"}, []string{"--cluster-qps", "10001", "1 to 10000"}},
		{"certificate without TLS", []string{image, "--metrics-secure=false", "--metrics-cert-dir=/certs"}, []string{"--metrics-cert-dir", "--metrics-secure=false"}},
		{"empty namespace", []string{image, "--watch-namespaces=a,,b"}, []string{"--watch-namespaces", `""`}},
		{"namespace with a space", []string{image, "--watch-namespaces=a, b"}, []string{"--watch-namespaces", `" b"`}},
		{"shutdown", []string{image, "--graceful-shutdown=-1s"}, []string{"--graceful-shutdown", "-1s", "0 to 10m0s"}},
		{"not a number", []string{image, "--cluster-workers=many"}, []string{"--cluster-workers", `"many"`}},
		{"an argument", []string{image, "now"}, []string{`"now"`}},
		{"several at once", []string{"--log-level=loud", "--topology-qps=0"}, []string{"--operator-image", "--log-level", "--topology-qps"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := parse(t, tc.args...)
			if err == nil {
				t.Fatalf("accepted: %+v", o)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not mention %q", err, part)
				}
			}
			if o != nil {
				t.Error("run was called")
			}
		})
	}
}

func TestFlags(t *testing.T) {
	o, err := parse(t, "--operator-image=op", "--watch-namespaces=a,b", "--topology-workers=256", "--cluster-qps=1", "--graceful-shutdown=0s")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(o.namespaces, []string{"a", "b"}) || o.topologyWorkers != 256 || o.clusterQPS != 1 || o.gracefulShutdown != 0 {
		t.Errorf("parsed %+v", o)
	}
	o, err = parse(t, "--operator-image=op")
	if err != nil {
		t.Fatal(err)
	}
	if !o.leaderElect || !o.metrics.secure || o.gracefulShutdown != 10*time.Second {
		t.Errorf("defaults %+v", o)
	}
}

func TestTheNamespaceOfTheLeases(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	if _, err := (options{}).lanes(); err == nil || !strings.Contains(err.Error(), "POD_NAMESPACE or --leader-elect-namespace") {
		t.Errorf("error %v", err)
	}
	t.Setenv("POD_NAMESPACE", "of-the-pod")
	if got, err := (options{}).namespace(); err != nil || got != "of-the-pod" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := (options{leaderNamespace: "of-the-flag"}).namespace(); err != nil || got != "of-the-flag" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestABadImageMap(t *testing.T) {
	missing := t.TempDir() + "/images.yaml"
	_, err := options{leaderNamespace: "x", imageMap: missing}.lanes()
	if err == nil || !strings.Contains(err.Error(), "--image-map") || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v", err)
	}
}

// What client-go refuses of a Lease's times would show at the first election only.
func TestTheLeasesTimes(t *testing.T) {
	lanes, err := options{leaderNamespace: "x"}.lanes()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range lanes {
		if l.duration <= l.deadline || l.deadline <= l.period*12/10 || l.duration-l.period < l.deadline {
			t.Errorf("%s: %s / %s / %s", l.name, l.duration, l.deadline, l.period)
		}
		names[l.lease] = true
	}
	if len(names) != 2 {
		t.Errorf("Leases %v, want one for each of two lanes", names)
	}
}
