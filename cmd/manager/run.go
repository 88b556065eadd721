package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/controllers/topology"
	"github.com/porpoise-dev/porpoise/internal/leadership"
	"github.com/porpoise-dev/porpoise/internal/version"
)

// lane is one of the two managers, with what distinguishes it.
type lane struct {
	name  string
	lease string
	// duration, deadline and period of the Lease. Overlap of two leaders is harmless in the topology lane: epochs and
	// compare-and-swap decide, so it can be short. Losing it is cheap too: only the acting stops.
	duration, deadline, period time.Duration
	qps                        float32
	cached                     map[client.Object]cache.ByObject
	setup                      func(ctrl.Manager, *leadership.Gate) error
}

// run starts both lanes and ends when ctx does or when either ends.
func run(ctx context.Context, o options) error {
	logger := newLogger(o)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	logger.Info("Starting", "version", version.String(), "namespaces", o.namespaces, "operatorImage", o.operatorImage)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	lanes, err := o.lanes()
	if err != nil {
		return err
	}
	// Neither lane goes on without the other: a process that half works would keep its place as a leader.
	group, ctx := errgroup.WithContext(ctx)
	for i, l := range lanes {
		group.Go(func() error { return o.runLane(ctx, config, l, i == 0) })
	}
	err = group.Wait()
	logger.Info("Ended")
	return err
}

// runLane runs a lane until ctx ends. Its manager is not the one that elects: controller-runtime's ends with the Lease, and
// making it anew fills all caches and dials all agents again, on a machine that was too busy to renew a Lease. Here only the
// gate closes, and opens again with the next term; everything else stays as warm as a standby's.
func (o options) runLane(ctx context.Context, config *rest.Config, l lane, first bool) error {
	gate := leadership.NewGate()
	gate.OnBegin(terms.WithLabelValues(l.name).Inc)
	mgr, err := o.newManager(config, l, gate, first)
	if err != nil {
		return fmt.Errorf("make the %s lane: %w", l.name, err)
	}
	if err := l.setup(mgr, gate); err != nil {
		return fmt.Errorf("set up the %s lane: %w", l.name, err)
	}
	group, ctx := errgroup.WithContext(log.IntoContext(ctx, mgr.GetLogger()))
	group.Go(func() error { return mgr.Start(ctx) })
	group.Go(func() error {
		select {
		case <-mgr.Elected(): // Without an election of its own this says that everything runs.
		case <-ctx.Done():
			return nil
		}
		return o.lead(ctx, config, l, gate)
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%s lane: %w", l.name, err)
	}
	return nil
}

// topologyLane describes the fast lane.
func (o options) topologyLane() lane {
	return lane{
		name: "topology", lease: "porpoise-topology",
		duration: 3 * time.Second, deadline: 2 * time.Second, period: 500 * time.Millisecond,
		qps: o.topologyQPS, cached: topology.CacheByObject(),
		setup: func(mgr ctrl.Manager, gate *leadership.Gate) error {
			return topology.SetupWithManager(mgr, topology.Options{MaxConcurrentReconciles: o.topologyWorkers, Gate: gate})
		},
	}
}

// newManager makes a lane's manager, whose writes pass the gate only while the lane leads. The first one serves probes and
// metrics, whose registry both lanes share.
func (o options) newManager(config *rest.Config, l lane, gate *leadership.Gate, first bool) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1.AddToScheme(scheme))
	own := l.clientConfig(config)
	own.QPS, own.Burst = l.qps, int(2*l.qps)
	own.Dial = newDialer()
	own.Wrap(gate.Fence)
	opts := ctrl.Options{
		Scheme:                  scheme,
		Logger:                  ctrl.Log.WithName(l.name),
		LeaderElection:          false,
		GracefulShutdownTimeout: ptr.To(o.gracefulShutdown),
		Cache:                   o.cacheOptions(l),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
	}
	if first {
		opts.HealthProbeBindAddress = o.healthAddress
		opts.Metrics = o.metrics.server()
	}
	mgr, err := ctrl.NewManager(own, opts)
	if err != nil || !first {
		return mgr, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("ping", healthz.Ping)
}

func (o options) cacheOptions(l lane) cache.Options {
	out := cache.Options{ByObject: l.cached}
	if len(o.namespaces) > 0 {
		out.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range o.namespaces {
			out.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return out
}

func (m metricsOptions) server() metricsserver.Options {
	return metricsserver.Options{
		BindAddress: m.address, SecureServing: m.secure, CertDir: m.certDir,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }},
	}
}

// newLogger writes structured lines through zap; libraries log through it too.
func newLogger(o options) logr.Logger {
	level := zapcore.InfoLevel
	if o.logLevel == "debug" {
		level = zapcore.DebugLevel
	}
	opts := zap.Options{Level: level, TimeEncoder: zapcore.RFC3339NanoTimeEncoder, StacktraceLevel: zapcore.PanicLevel}
	if o.logFormat == "console" {
		opts.Development = true
	}
	return zap.New(zap.UseFlagOptions(&opts))
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
