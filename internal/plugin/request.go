package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	// followInterval is how often the status is read while a request is followed.
	followInterval = 200 * time.Millisecond
	// requestTries is how often a request is written anew where the status was written in between.
	requestTries = 20
	// withdrawTimeout bounds taking a request back, when the time for everything else is over.
	withdrawTimeout = 5 * time.Second
	// defaultRequestTimeout is how long an answer to a request is waited for.
	defaultRequestTimeout = time.Minute
)

// requester asks the operator for something by an annotation, and follows what becomes of it.
type requester struct {
	*tool
	conn    connection
	key     client.ObjectKey
	started time.Time
}

func (t *tool) requester(conn connection, name string, timeout time.Duration) *requester {
	own := *t
	own.timeout = timeout
	return &requester{tool: &own, conn: conn, key: client.ObjectKey{Namespace: conn.namespace, Name: name}, started: t.now()}
}

// say prints a line with the time since the request.
func (r *requester) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.streams.Out, "%6.1fs  %s\n", r.now().Sub(r.started).Seconds(), clean(fmt.Sprintf(format, args...)))
}

func (r *requester) cluster(ctx context.Context) (*porpoisev1.MySQLCluster, error) {
	cluster := &porpoisev1.MySQLCluster{}
	if err := r.conn.client.Get(ctx, r.key, cluster); err != nil {
		return nil, r.explain(ctx, r.conn, r.key, err)
	}
	return cluster, nil
}

// topology reads the record; nil without an error: it may not be read, or does not exist.
func (r *requester) topology(ctx context.Context) (*porpoisev1.MySQLTopology, error) {
	topology := &porpoisev1.MySQLTopology{}
	switch err := r.conn.client.Get(ctx, r.key, topology); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // Who may not read the record is told less.
	case err != nil:
		return nil, fmt.Errorf("get mysqltopology %s: %w", r.key, err)
	}
	return topology, nil
}

// annotate writes an annotation if check still lets it, upon the very object that was checked; value "" takes it away.
func (r *requester) annotate(ctx context.Context, annotation, value string, check func(*porpoisev1.MySQLCluster) error) error {
	for try := 1; ; try++ {
		cluster, err := r.cluster(ctx)
		if err != nil {
			return err
		}
		if err := check(cluster); err != nil {
			return err
		}
		base := cluster.DeepCopy()
		if cluster.Annotations == nil {
			cluster.Annotations = map[string]string{}
		}
		if cluster.Annotations[annotation] = value; value == "" {
			delete(cluster.Annotations, annotation)
		}
		err = r.conn.client.Patch(ctx, cluster, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), client.FieldOwner(naming.OwnerPlugin))
		switch {
		case err == nil:
			return nil
		case apierrors.IsConflict(err) && try < requestTries:
			if err := r.sleep(ctx, followInterval/4); err != nil {
				return err
			}
		case apierrors.IsForbidden(err):
			return fmt.Errorf("you may not patch mysqlclusters.porpoise.dev in namespace %s; ask for that right (see: kubectl auth can-i patch mysqlclusters.porpoise.dev -n %s): %w",
				r.key.Namespace, r.key.Namespace, err)
		default:
			return fmt.Errorf("annotate mysqlcluster %s: %w", r.key, err)
		}
	}
}

// errNotOurs: the annotation was changed by somebody else.
var errNotOurs = errors.New("the annotation is another one now")

// withdraw takes an annotation away if it still is the one that was written. It has a time of its own.
func (r *requester) withdraw(ctx context.Context, annotation, value string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	err := r.annotate(ctx, annotation, "", func(c *porpoisev1.MySQLCluster) error {
		if c.Annotations[annotation] != value {
			return errNotOurs
		}
		return nil
	})
	if errors.Is(err, errNotOurs) {
		return nil
	}
	return err
}

// follow reads the cluster again and again until done says so, or the time is over. The API server may be away for a moment,
// as in a failover of its own node: that is looked over.
func (r *requester) follow(ctx context.Context, done func(context.Context, *porpoisev1.MySQLCluster) (bool, error)) error {
	for {
		cluster := &porpoisev1.MySQLCluster{}
		err := r.conn.client.Get(ctx, r.key, cluster)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return r.explain(ctx, r.conn, r.key, err)
		case err == nil:
			if ended, err := done(ctx, cluster); ended || err != nil {
				return err
			}
		}
		if err := r.sleep(ctx, followInterval); err != nil {
			return err
		}
	}
}

// usable says why nothing can be asked of a cluster now; nil: it can.
func usable(cluster *porpoisev1.MySQLCluster) error {
	switch {
	case cluster.DeletionTimestamp != nil:
		return fmt.Errorf("MySQLCluster %s is being deleted", cluster.Name)
	case cluster.Spec.Suspend:
		return fmt.Errorf("MySQLCluster %s is suspended: the operator does nothing while spec.suspend is true", cluster.Name)
	case cluster.Status.Topology.Primary == "":
		return fmt.Errorf("MySQLCluster %s has no primary yet; see: kubectl porpoise status %s", cluster.Name, cluster.Name)
	}
	return nil
}

// whyOutOfTime explains the end of waiting.
func (r *requester) whyOutOfTime(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("not within --timeout %s", r.timeout)
	}
	return "interrupted"
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (t *tool) print(text string) error {
	_, err := io.WriteString(t.streams.Out, text)
	return err
}
