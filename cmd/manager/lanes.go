package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/porpoise-dev/porpoise/controllers/mysqlcluster"
	"github.com/porpoise-dev/porpoise/internal/leadership"
)

// lanes returns both lanes; the first serves probes and metrics.
func (o options) lanes() ([]lane, error) {
	cluster, err := o.clusterLane()
	if err != nil {
		return nil, err
	}
	return []lane{o.topologyLane(), cluster}, nil
}

// namespace is the operator's own, where the Leases are.
func (o options) namespace() (string, error) {
	namespace := orElse(o.leaderNamespace, os.Getenv("POD_NAMESPACE"))
	if namespace == "" {
		return "", errors.New("the operator's namespace is not known: set env POD_NAMESPACE or --leader-elect-namespace")
	}
	return namespace, nil
}

// clusterLane describes the slow lane.
func (o options) clusterLane() (lane, error) {
	namespace, err := o.namespace()
	if err != nil {
		return lane{}, err
	}
	opts := mysqlcluster.Options{OperatorImage: o.operatorImage, OperatorNamespace: namespace, MaxConcurrentReconciles: o.clusterWorkers}
	if o.imageMap != "" {
		raw, err := os.ReadFile(o.imageMap)
		if err != nil {
			return lane{}, fmt.Errorf("--image-map: %w", err)
		}
		if opts.Images, err = mysqlcluster.ParseImageMap(raw); err != nil {
			return lane{}, fmt.Errorf("--image-map: %s: %w", o.imageMap, err)
		}
	}
	return lane{
		name: "cluster", lease: "porpoise-cluster",
		duration: 15 * time.Second, deadline: 10 * time.Second, period: 2 * time.Second,
		qps: o.clusterQPS, cached: mysqlcluster.CacheByObject(),
		setup: func(mgr ctrl.Manager, gate *leadership.Gate) error {
			opts.Gate = gate
			return mysqlcluster.SetupWithManager(mgr, opts)
		},
	}, nil
}
