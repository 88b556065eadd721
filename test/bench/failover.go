package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/bench/internal/figure"
	"github.com/porpoise-dev/porpoise/test/env"
)

// failoverOptions of `bench failover`.
type failoverOptions struct {
	runs, writers int
}

func (o *failoverOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.runs, "runs", 50, "failovers, and then as many switchovers, to measure")
	f.IntVar(&o.writers, "writers", 4, "connections that write through the read-write Service")
}

func (*failoverOptions) quick() map[string]string { return map[string]string{"runs": "2"} }

func (o *failoverOptions) check() error {
	return errors.Join(between("runs", o.runs, 1, 1000), between("writers", o.writers, 1, 64))
}

// killNow kills mysqld and prints when, in microseconds since 1970. kill is bash's own.
const killNow = `for d in /proc/[0-9]*; do
  read -r comm < "$d/comm" || continue
  if [[ $comm == mysqld ]]; then echo "${EPOCHREALTIME/[.,]/}"; kill -9 "${d#/proc/}"; fi
done`

// settleTimeout bounds the wait for all instances to be back.
const settleTimeout = 3 * time.Minute

// gapStages are what one failover is made of, in their order.
var gapStages = []string{
	"detect, and record the fence", "fence, elect, and record the new primary", "apply, promote, and record that it is open",
	"endpoint of the Service changes", "first acknowledged write through the Service",
}

// measure kills the primary's mysqld again and again, then switches over as often.
func (o *failoverOptions) measure(ctx context.Context, k *kubernetes) error {
	if k.env.Local == nil {
		return errors.New("failover: it writes from within a node's network, which only the local Kubernetes lets it enter; unset KUBECONFIG")
	}
	crash := k.figure("failover", "kill -9 of the primary's mysqld to the first acknowledged write through the read-write Service")
	crash.Target = "median at most 0.5 s, 99th percentile at most 1 s"
	planned := k.figure("switchover", "Longest time without an acknowledged write during a switchover")
	planned.Target = "99th percentile at most 300 ms"
	w, err := o.prepare(ctx, k)
	if err != nil {
		return err
	}
	defer w.stop()
	errCrash := o.repeat(ctx, k, w, crash, "failover", gapStages, k.crash)
	errPlanned := error(nil)
	if errCrash == nil {
		errPlanned = o.repeat(ctx, k, w, planned, "switchover", nil, k.switchOver)
	}
	lost, err := w.lost(ctx, k)
	if err == nil {
		crash.Add("Acknowledged writes lost", "", float64(lost))
	}
	for _, f := range []*figure.Figure{crash, planned} {
		f.Note("%d writers with a row each, on connections of their own, from within a node's network through the Service's address; what is begun after the kill counts", o.writers)
	}
	return errors.Join(errCrash, errPlanned, err, k.keepFigure(crash), k.keepFigure(planned))
}

// repeat measures one kind of change of primary.
func (o *failoverOptions) repeat(ctx context.Context, k *kubernetes, w *writerProcess, f *figure.Figure, name string, stages []string,
	change func(context.Context, *writerProcess) ([]float64, error),
) error {
	totals, parts := []float64{}, make([][]float64, len(stages))
	for run := range o.runs {
		if err := k.settled(ctx); err != nil {
			return err
		}
		values, err := change(ctx, w)
		if err != nil {
			return fmt.Errorf("%s %d of %d: %w", name, run+1, o.runs, err)
		}
		totals = append(totals, values[0])
		for i := range stages {
			parts[i] = append(parts[i], values[1+i])
		}
		fmt.Fprintf(os.Stderr, "%s %d of %d: %.0f ms\n", name, run+1, o.runs, values[0])
	}
	f.Add("Without an acknowledged write", "ms", totals...)
	f.Add("… 99th percentile", "ms", figure.Percentile(totals, 99))
	for i, stage := range stages {
		f.Add("… "+stage, "ms", parts[i]...)
	}
	return nil
}

// prepare makes the cluster, its table, and the process that writes.
func (o *failoverOptions) prepare(ctx context.Context, k *kubernetes) (*writerProcess, error) {
	if err := k.remove(ctx); err != nil {
		return nil, err
	}
	object := clusterOf(benchNamespace, benchCluster, 3)
	object.Spec.Failover.MaxFailovers = 1000
	if err := k.env.Client.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("create MySQLCluster %s: %w", benchCluster, err)
	}
	if err := k.env.WaitReady(ctx, benchNamespace, benchCluster, readyTimeout); err != nil {
		return nil, err
	}
	db, err := k.env.OpenDB(ctx, serviceTarget())
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE "+writerTable+" (n BIGINT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(64) NOT NULL, KEY (id))"); err != nil {
		return nil, fmt.Errorf("make a table to write to: %w", err)
	}
	return startWriter(ctx, k, o.writers)
}

func serviceTarget() env.Target {
	return env.Target{Namespace: benchNamespace, Cluster: benchCluster, Service: naming.ServiceReadWrite(benchCluster), Account: env.AccountApp}
}

func (k *kubernetes) topology(ctx context.Context) (*porpoisev1.MySQLTopology, error) {
	t := &porpoisev1.MySQLTopology{}
	if err := k.env.Client.Get(ctx, types.NamespacedName{Namespace: benchNamespace, Name: benchCluster}, t); err != nil {
		return nil, fmt.Errorf("get MySQLTopology %s: %w", benchCluster, err)
	}
	return t, nil
}

// settled waits until every instance follows as a member, so that the next change finds what the last one found.
func (k *kubernetes) settled(ctx context.Context) error {
	return k.env.WaitFor(ctx, "MySQLTopology "+benchCluster+": wait until all instances are back", settleTimeout, func(ctx context.Context) (bool, string, error) {
		t, err := k.topology(ctx)
		if err != nil {
			return false, "", err
		}
		s := t.Status
		whole := s.Reason == porpoisev1.TopologyHealthy && s.Quorum != nil && len(s.Quorum.Members) == 2
		return whole, fmt.Sprintf("%s/%s: %s", s.Phase, s.Reason, s.Message), nil
	})
}

// crash kills the primary's mysqld and returns the whole time and its stages, in milliseconds.
func (k *kubernetes) crash(ctx context.Context, w *writerProcess) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	before, err := k.topology(ctx)
	if err != nil {
		return nil, err
	}
	former := before.Status.Primary
	seen, err := k.watchGap(ctx, former)
	if err != nil {
		return nil, err
	}
	out, err := k.env.Exec(ctx, env.ExecOptions{
		Namespace: benchNamespace, Pod: naming.Pod(former), Container: "mysqld", Command: []string{"bash", "-c", killNow},
	})
	if err != nil {
		return nil, err
	}
	micros, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("kill mysqld of %s: it printed %q", former, out)
	}
	killed := time.UnixMicro(micros)
	first, err := w.firstAfter(ctx, killed)
	if err != nil {
		return nil, err
	}
	stages, err := seen.wait(ctx)
	if err != nil {
		return nil, err
	}
	values := []float64{milliseconds(first.Sub(killed))}
	last := killed
	for _, at := range append(stages, first) {
		values = append(values, milliseconds(at.Sub(last)))
		last = at
	}
	return values, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// switchOver asks for another primary and returns the longest time without an acknowledgement around it.
func (k *kubernetes) switchOver(ctx context.Context, w *writerProcess) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	object := &porpoisev1.MySQLCluster{}
	if err := k.env.Client.Get(ctx, types.NamespacedName{Namespace: benchNamespace, Name: benchCluster}, object); err != nil {
		return nil, fmt.Errorf("get MySQLCluster %s: %w", benchCluster, err)
	}
	began := time.Now()
	id := naming.SwitchoverToAny + "@" + began.UTC().Format(time.RFC3339Nano)
	old := object.DeepCopy()
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[naming.AnnotationSwitchover] = id
	if err := k.env.Client.Patch(ctx, object, client.MergeFrom(old)); err != nil {
		return nil, fmt.Errorf("ask for a switchover: %w", err)
	}
	err := k.env.WaitFor(ctx, "MySQLTopology "+benchCluster+": wait for the switchover", settleTimeout, func(ctx context.Context) (bool, string, error) {
		t, err := k.topology(ctx)
		if err != nil || t.Status.Switchover == nil || t.Status.Switchover.ID != id {
			return false, "not begun", err
		}
		s := t.Status.Switchover
		if s.State == porpoisev1.SwitchoverRefused || s.State == porpoisev1.SwitchoverRolledBack {
			return false, "", fmt.Errorf("switchover %s: %s", s.State, s.Message)
		}
		return s.State == porpoisev1.SwitchoverDone, s.Message, nil
	})
	if err != nil {
		return nil, err
	}
	if _, err := w.firstAfter(ctx, time.Now()); err != nil {
		return nil, err
	}
	return []float64{milliseconds(w.longestSince(began))}, nil
}

// gapWatch follows what the API server shows of a failover.
type gapWatch struct {
	mu     sync.Mutex
	at     [4]time.Time
	change chan struct{}
}

// watchGap begins to follow a failover away from the former primary.
func (k *kubernetes) watchGap(ctx context.Context, former string) (*gapWatch, error) {
	g := &gapWatch{change: make(chan struct{}, 1)}
	in := client.InNamespace(benchNamespace)
	topologies, err := k.watch.Watch(ctx, &porpoisev1.MySQLTopologyList{}, in)
	if err != nil {
		return nil, fmt.Errorf("watch the record: %w", err)
	}
	endpoints, err := k.watch.Watch(ctx, &discoveryv1.EndpointSliceList{}, in, client.MatchingLabels{discoveryv1.LabelServiceName: naming.ServiceReadWrite(benchCluster)})
	if err != nil {
		topologies.Stop()
		return nil, fmt.Errorf("watch the Service's endpoints: %w", err)
	}
	go func() {
		defer topologies.Stop()
		defer endpoints.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-topologies.ResultChan():
				if t, ok := e.Object.(*porpoisev1.MySQLTopology); ok {
					s := t.Status
					g.note(0, s.Phase == porpoisev1.TopologyFencing || s.Primary != former)
					g.note(1, s.Primary != former)
					g.note(2, s.Primary != former && s.Phase == porpoisev1.TopologyStable)
				}
			case e := <-endpoints.ResultChan():
				if s, ok := e.Object.(*discoveryv1.EndpointSlice); ok {
					g.note(3, leadsAway(s, former))
				}
			}
		}
	}()
	return g, nil
}

// leadsAway says whether a Service leads to another pod than the former primary's.
func leadsAway(s *discoveryv1.EndpointSlice, former string) bool {
	for _, e := range s.Endpoints {
		if ref := e.TargetRef; ref != nil && ref.Name != naming.Pod(former) && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			return true
		}
	}
	return false
}

func (g *gapWatch) note(stage int, reached bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if reached && g.at[stage].IsZero() {
		g.at[stage] = time.Now()
	}
	select {
	case g.change <- struct{}{}:
	default:
	}
}

// wait returns when each stage was seen.
func (g *gapWatch) wait(ctx context.Context) ([]time.Time, error) {
	for {
		g.mu.Lock()
		at := g.at
		g.mu.Unlock()
		if !at[0].IsZero() && !at[1].IsZero() && !at[2].IsZero() && !at[3].IsZero() {
			return at[:], nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("follow the failover: not every stage was seen: %v: %w", at, ctx.Err())
		case <-g.change:
		}
	}
}

// writerProcess is a writer in a node's network.
type writerProcess struct {
	stop func()

	mu    sync.Mutex
	acks  []ack
	wake  chan struct{}
	ended error
}

func startWriter(ctx context.Context, k *kubernetes, writers int) (*writerProcess, error) {
	config, err := k.writerConfig(ctx, writers)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := k.env.Local.InNode(ctx, 1, self, "writer")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the writer: %w", err)
	}
	w := &writerProcess{wake: make(chan struct{}, 1)}
	w.stop = sync.OnceFunc(func() {
		_ = in.Close() // It ends by that.
		_ = cmd.Wait()
	})
	if err := json.NewEncoder(in).Encode(config); err != nil {
		w.stop()
		return nil, fmt.Errorf("tell the writer where to write: %w", err)
	}
	go w.read(out)
	_, err = w.firstAfter(ctx, time.Now())
	return w, err
}

// writerConfig says where the Service is and how to connect to it.
func (k *kubernetes) writerConfig(ctx context.Context, writers int) (*writerConfig, error) {
	name := naming.ServiceReadWrite(benchCluster)
	service := &corev1.Service{}
	if err := k.env.Client.Get(ctx, types.NamespacedName{Namespace: benchNamespace, Name: name}, service); err != nil {
		return nil, fmt.Errorf("get Service %s: %w", name, err)
	}
	c := &writerConfig{
		Address:    net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(naming.PortMySQL)),
		ServerName: name + "." + benchNamespace + ".svc", Writers: writers,
	}
	account, authority := &corev1.Secret{}, &corev1.Secret{}
	for secret, object := range map[string]*corev1.Secret{naming.SecretApp(benchCluster): account, naming.SecretManagerTLS(benchCluster): authority} {
		if err := k.env.Client.Get(ctx, types.NamespacedName{Namespace: benchNamespace, Name: secret}, object); err != nil {
			return nil, fmt.Errorf("get Secret %s: %w", secret, err)
		}
	}
	c.User, c.Password, c.Database = string(account.Data["username"]), string(account.Data["password"]), string(account.Data["database"])
	c.CA = string(authority.Data[naming.FileCA])
	return c, nil
}

func (w *writerProcess) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a ack
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue
		}
		w.mu.Lock()
		w.acks = append(w.acks, a)
		w.mu.Unlock()
		w.poke()
	}
	w.mu.Lock()
	w.ended = errors.New("the writer ended")
	w.mu.Unlock()
	w.poke()
}

func (w *writerProcess) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// firstAfter waits for the first acknowledgement of a write that was begun after a moment, and returns when it came.
func (w *writerProcess) firstAfter(ctx context.Context, moment time.Time) (time.Time, error) {
	for {
		w.mu.Lock()
		var first int64
		for i := len(w.acks) - 1; i >= 0 && w.acks[i].Acked >= moment.UnixNano(); i-- {
			if a := w.acks[i]; a.Begun >= moment.UnixNano() && (first == 0 || a.Acked < first) {
				first = a.Acked
			}
		}
		ended := w.ended
		w.mu.Unlock()
		if first != 0 {
			return time.Unix(0, first), nil
		}
		if ended != nil {
			return time.Time{}, ended
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("wait for an acknowledged write: %w", ctx.Err())
		case <-w.wake:
		}
	}
}

// longestSince is the longest time between two acknowledgements after a moment.
func (w *writerProcess) longestSince(moment time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var longest, last int64
	for _, a := range w.acks {
		if a.Acked >= moment.UnixNano() && last != 0 {
			longest = max(longest, a.Acked-last)
		}
		last = max(last, a.Acked)
	}
	return time.Duration(longest)
}

// lost reads all rows back and counts acknowledged ones that are not there.
func (w *writerProcess) lost(ctx context.Context, k *kubernetes) (int, error) {
	w.stop()
	if err := k.settled(ctx); err != nil {
		return 0, err
	}
	db, err := k.env.OpenDB(ctx, serviceTarget())
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, "SELECT id FROM "+writerTable)
	if err != nil {
		return 0, fmt.Errorf("read the rows back: %w", err)
	}
	defer func() { _ = rows.Close() }()
	there := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return 0, fmt.Errorf("read the rows back: %w", err)
		}
		there[id] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := 0
	for _, a := range w.acks {
		if !there[a.ID] {
			lost++
		}
	}
	return lost, rows.Err()
}
