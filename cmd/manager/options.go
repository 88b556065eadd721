package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/porpoise-dev/porpoise/internal/version"
)

// options are the flags of the command.
type options struct {
	logLevel, logFormat string

	namespaces       []string
	leaderElect      bool
	leaderNamespace  string
	healthAddress    string
	metrics          metricsOptions
	operatorImage    string
	imageMap         string
	topologyWorkers  int
	clusterWorkers   int
	topologyQPS      float32
	clusterQPS       float32
	gracefulShutdown time.Duration
}

// metricsOptions say how /metrics is served.
type metricsOptions struct {
	address string
	secure  bool
	certDir string
}

const long = `The Porpoise operator: MySQLCluster objects become replicated MySQL.

Two lanes run in this process, each with a Lease, a cache and a budget of API calls of its own:
  topology   who is primary and who may acknowledge commits   (Lease porpoise-topology: 3 s)
  cluster    which Kubernetes objects exist                   (Lease porpoise-cluster: 15 s)
Run two replicas: the one that does not lead keeps its caches and its streams from the agents warm.

A lane that loses its Lease stops acting at once, keeps everything warm, and stands for election again. The process ends on
SIGTERM after the work in hand, and then gives its Leases back. It needs the cluster's credentials (in a pod: its ServiceAccount;
elsewhere: KUBECONFIG).`

// maxGraceful bounds the end: a negative time would mean for ever to controller-runtime.
const maxGraceful = 10 * time.Minute

// newCommand describes the command; run is called with checked options.
func newCommand(run func(context.Context, options) error) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use: "manager", Short: "Run the Porpoise operator", Long: long, Version: version.String(),
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.namespaces, "watch-namespaces", nil, "namespaces to work in, comma-separated; all when empty")
	f.StringVar(&o.operatorImage, "operator-image", "", "image that instances copy their agent from: this operator's own (required)")
	f.StringVar(&o.imageMap, "image-map", "", "YAML `file` that says which image holds a MySQL version, e.g. images: {\"9.7\": REFERENCE}")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "take part in leader election; off only when no second manager can run")
	f.StringVar(&o.leaderNamespace, "leader-elect-namespace", "", "namespace of the Leases; default: the pod's own (env POD_NAMESPACE)")
	f.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns them off")
	f.StringVar(&o.metrics.address, "metrics-bind-address", ":8443", "address of /metrics; 0 turns it off")
	f.BoolVar(&o.metrics.secure, "metrics-secure", true, "serve /metrics by HTTPS, with a self-signed certificate unless --metrics-cert-dir is set; false: plain HTTP")
	f.StringVar(&o.metrics.certDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for /metrics, read again when they change")
	f.StringVar(&o.logLevel, "log-level", "info", "info, or debug for every decision")
	f.StringVar(&o.logFormat, "log-format", "json", "json, or console for people")
	f.IntVar(&o.topologyWorkers, "topology-workers", 16, "clusters that the topology lane works on at once, 1 to 256")
	f.IntVar(&o.clusterWorkers, "cluster-workers", 8, "clusters that the cluster lane works on at once, 1 to 256")
	f.Float32Var(&o.topologyQPS, "topology-qps", 100, "API calls per second of the topology lane, 1 to 10000; twice that in a burst")
	f.Float32Var(&o.clusterQPS, "cluster-qps", 50, "API calls per second of the cluster lane, 1 to 10000; twice that in a burst")
	f.DurationVar(&o.gracefulShutdown, "graceful-shutdown", 10*time.Second, "how long work in hand may take after SIGTERM, 0 to 10m")
	return cmd
}

// check refuses what cannot work, naming the flag, the value and what is allowed.
func (o options) check() error {
	var errs []error
	if o.operatorImage == "" {
		errs = append(errs, errors.New("--operator-image: must be set to the image of this operator, since instances copy their agent from it"))
	}
	if !slices.Contains([]string{"info", "debug"}, o.logLevel) {
		errs = append(errs, fmt.Errorf("--log-level: %q; allowed are info, debug", o.logLevel))
	}
	if !slices.Contains([]string{"json", "console"}, o.logFormat) {
		errs = append(errs, fmt.Errorf("--log-format: %q; allowed are json, console", o.logFormat))
	}
	for flag, n := range map[string]int{"topology-workers": o.topologyWorkers, "cluster-workers": o.clusterWorkers} {
		if n < 1 || n > 256 {
			errs = append(errs, fmt.Errorf("--%s: %d; allowed is 1 to 256", flag, n))
		}
	}
	for flag, n := range map[string]float32{"topology-qps": o.topologyQPS, "cluster-qps": o.clusterQPS} {
		if n < 1 || n > 10000 {
			errs = append(errs, fmt.Errorf("--%s: %g; allowed is 1 to 10000", flag, n))
		}
	}
	if o.gracefulShutdown < 0 || o.gracefulShutdown > maxGraceful {
		errs = append(errs, fmt.Errorf("--graceful-shutdown: %s; allowed is 0 to %s", o.gracefulShutdown, maxGraceful))
	}
	if o.metrics.certDir != "" && !o.metrics.secure {
		errs = append(errs, errors.New("--metrics-cert-dir: has no meaning with --metrics-secure=false"))
	}
	for _, ns := range o.namespaces {
		if strings.TrimSpace(ns) != ns || ns == "" {
			errs = append(errs, fmt.Errorf("--watch-namespaces: %q is not a namespace", ns))
		}
	}
	return errors.Join(errs...)
}
