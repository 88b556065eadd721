package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/porpoise-dev/porpoise/internal/leadership"
	"github.com/porpoise-dev/porpoise/internal/version"
)

// terms shows lost Leases: more than one term of a process means that it lost some.
var terms = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "porpoise_leadership_terms_total",
	Help: "Terms of leading that began in this process, by lane. Each but the first follows a lost Lease.",
}, []string{"lane"})

func init() { metrics.Registry.MustRegister(terms) }

// lostPatience is how long reconciles, which are cancelled, may take to return when a Lease was lost. After it the process
// ends, and kubelet starts it anew: the next term must not begin beside the old one.
const lostPatience = 10 * time.Second

// lead opens the lane's gate whenever the lane leads, until ctx ends.
func (o options) lead(ctx context.Context, config *rest.Config, l lane, gate *leadership.Gate) error {
	if !o.leaderElect {
		return gate.Lead(ctx, o.gracefulShutdown)
	}
	lock, err := o.newLock(config, l)
	if err != nil {
		return err
	}
	return gate.Campaign(ctx, leadership.Election{
		Lock: lock, Name: l.lease, Duration: l.duration, Deadline: l.deadline, Period: l.period,
		Patience: lostPatience, Grace: o.gracefulShutdown,
	})
}

// newLock makes the lane's Lease with a client that nothing else uses.
//
// It speaks HTTP/1.1. By HTTP/2 client-go would share one connection with everything else that has the same credentials,
// and a renewal would stand behind the frames of watches and lists. And a request that is not answered in time closes its
// HTTP/1.1 connection, so that the next try dials anew, perhaps to another API server, where HTTP/2 would go on using a dead
// connection for longer than the Lease lasts.
func (o options) newLock(config *rest.Config, l lane) (resourcelock.Interface, error) {
	namespace, err := o.namespace()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the host's name for Lease %s: %w", l.lease, err)
	}
	own := l.clientConfig(config)
	own.NextProtos = []string{"http/1.1"}
	own.Dial = newDialer()
	own.QPS = -1 // The election's own period is the limit.
	// A slow answer must not count as none, and what is left must do for another try on a new connection.
	own.Timeout = l.deadline * 3 / 4
	leases, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("make the client for Lease %s: %w", l.lease, err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: l.lease}, Client: leases,
		// A restarted process is another candidate: it knows nothing of what its predecessor was about to do.
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

// clientConfig is the configuration of one of the lane's clients, which counts its writes.
func (l lane) clientConfig(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	own.UserAgent = "porpoise/" + version.Version() + " " + l.name
	countWrites(own, l.name)
	return own
}

// newDialer gives a client connections of its own: client-go shares them between clients whose configuration has the same
// credentials and the same dialer.
func newDialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return dialer.DialContext
}
