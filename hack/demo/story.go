package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/env"
)

// Rows that are written before the replica is lost, and while it is.
const (
	rowsBefore = 500
	rowsDuring = 200
)

const readyTimeout = 5 * time.Minute

// story is the demo's plot.
type story struct {
	namespace, cluster string

	env    *env.Env
	client *env.ClientPod
	// created is how long creation took, rejoined how long the replica was away.
	created, rejoined time.Duration
}

// chapter is one part of the story.
type chapter struct {
	title string
	tell  func(context.Context) error
}

// tell runs the whole story. A failure leaves everything standing, and says where its diagnostics are.
func (s *story) tell(ctx context.Context, options env.Options) error {
	fmt.Println("Porpoise demo: a replicated MySQL out of one small object.")
	fmt.Println("Times are since the start; in brackets how long a step took.")
	e, err := env.Up(ctx, options)
	if err != nil {
		return err
	}
	s.env = e
	for _, c := range []chapter{
		{"Start clean", s.clean},
		{"Create MySQLCluster " + s.cluster + " with three instances of MySQL 9.7", s.create},
		{"Use it as an application does", s.use},
		{"Lose a replica", s.loseReplica},
	} {
		e.Timeline.Section("%s", c.title)
		if err := c.tell(ctx); err != nil {
			return s.explain(ctx, c.title, err)
		}
	}
	s.hints()
	return nil
}

// explain adds where everything about a failure was written.
func (s *story) explain(ctx context.Context, title string, err error) error {
	err = fmt.Errorf("%s: %w", strings.ToLower(title[:1])+title[1:], err)
	if ctx.Err() != nil {
		return err
	}
	dir, dumpErr := s.env.DumpDiagnostics(ctx, err.Error(), s.namespace)
	if dumpErr != nil {
		return errors.Join(err, dumpErr)
	}
	return fmt.Errorf("%w\n  objects, events and logs: %s\n  everything is left as it is; look around with:\n    export KUBECONFIG=%s\n    kubectl -n %s get mysql,pods",
		err, dir, s.env.Kubeconfig, s.namespace)
}

func (s *story) clean(ctx context.Context) error {
	existed, err := s.env.DeleteNamespace(ctx, s.namespace)
	if err != nil {
		return err
	}
	if !existed {
		s.env.Timeline.Note("There is no earlier demo")
	}
	return s.env.CreateNamespace(ctx, s.namespace)
}

func (s *story) object() *porpoisev1.MySQLCluster {
	return &porpoisev1.MySQLCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.cluster},
		Spec: porpoisev1.MySQLClusterSpec{
			Version: "9.7", Replicas: 3,
			Storage: porpoisev1.StorageSpec{Size: resource.MustParse("1Gi"), ReclaimPolicy: porpoisev1.ReclaimDelete},
			Resources: porpoisev1.ResourcesSpec{
				Requests: porpoisev1.ComputeResources{CPU: new(resource.MustParse("250m")), Memory: new(resource.MustParse("512Mi"))},
				Limits:   porpoisev1.ComputeResources{Memory: new(resource.MustParse("1Gi"))},
			},
		},
	}
}

func (s *story) create(ctx context.Context) error {
	start := time.Now()
	if err := s.env.Client.Create(ctx, s.object()); err != nil {
		return fmt.Errorf("create mysqlcluster %s: %w", s.cluster, err)
	}
	if err := s.env.WaitReady(ctx, s.namespace, s.cluster, readyTimeout); err != nil {
		return err
	}
	s.created = time.Since(start)
	var err error
	s.client, err = s.env.StartClient(ctx, s.namespace, s.cluster)
	return err
}

// use writes through one Service and reads through the other, over TLS with the servers' names verified.
func (s *story) use(ctx context.Context) error {
	rw, ro := naming.ServiceReadWrite(s.cluster), naming.ServiceReadOnly(s.cluster)
	step := s.env.Timeline.Begin("Write %d rows through %s", rowsBefore, rw)
	out, err := s.sql(ctx, step, rw, "CREATE TABLE story (id INT PRIMARY KEY AUTO_INCREMENT, said VARCHAR(80) NOT NULL);\n"+
		inserts(rowsBefore)+"SELECT @@hostname, COUNT(*) FROM story;")
	if err != nil {
		return step.Fail(err)
	}
	step.Done("each commit acknowledged by a replica first; %s", answered(out))
	return s.env.WaitFor(ctx, fmt.Sprintf("Read %d rows through %s", rowsBefore, ro), time.Minute, func(ctx context.Context) (bool, string, error) {
		out, err := s.client.SQL(ctx, ro, "SELECT @@hostname, COUNT(*) FROM story;")
		return hasRows(out, rowsBefore), answered(out), err
	})
}

// connectTimeout is how long the demo goes on trying to connect, as an application's connection pool does.
const connectTimeout = 30 * time.Second

// sql runs statements, and tries again as long as the server was not even reached.
func (s *story) sql(ctx context.Context, step *env.Step, host, statements string) (string, error) {
	deadline := time.Now().Add(connectTimeout)
	for {
		out, err := s.client.SQL(ctx, host, statements)
		if !errors.Is(err, env.ErrNotConnected) || time.Now().After(deadline) {
			return out, err
		}
		step.Update("trying to connect: " + err.Error())
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// loseReplica deletes a replica's pod, goes on writing, and waits until it follows again with every row.
func (s *story) loseReplica(ctx context.Context) error {
	replica, err := s.pickReplica(ctx)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{}
	if err := s.env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: naming.Pod(replica)}, pod); err != nil {
		return fmt.Errorf("get pod of %s: %w", replica, err)
	}
	lost, start := pod.UID, time.Now()
	if err := s.env.Client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	s.env.Timeline.Note("Pod %s of replica %s is deleted", pod.Name, replica)

	// The writes go on while the replica is away: the other one acknowledges them.
	written := make(chan error, 1)
	go func() { written <- s.writeMeanwhile(ctx) }()
	what := fmt.Sprintf("Replica %s: wait until it follows again", replica)
	if err := errors.Join(s.env.WaitFor(ctx, what, readyTimeout, s.rejoinedCheck(replica, string(lost))), <-written); err != nil {
		return err
	}
	host := naming.Host(s.cluster, s.namespace, replica)
	err = s.env.WaitFor(ctx, fmt.Sprintf("Read %d rows from %s itself", rowsBefore+rowsDuring, replica), time.Minute,
		func(ctx context.Context) (bool, string, error) {
			out, err := s.client.SQL(ctx, host, "SELECT @@hostname, COUNT(*) FROM story;")
			return hasRows(out, rowsBefore+rowsDuring), answered(out), err
		})
	s.rejoined = time.Since(start)
	return err
}

func (s *story) writeMeanwhile(ctx context.Context) error {
	step := s.env.Timeline.Begin("Write %d more rows meanwhile", rowsDuring)
	out, err := s.sql(ctx, step, naming.ServiceReadWrite(s.cluster), inserts(rowsDuring)+"SELECT @@hostname, COUNT(*) FROM story;")
	if err != nil {
		return step.Fail(err)
	}
	step.Done("%s", answered(out))
	return nil
}

// pickReplica chooses the last instance that is not the primary.
func (s *story) pickReplica(ctx context.Context) (string, error) {
	cluster := &porpoisev1.MySQLCluster{}
	if err := s.env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.cluster}, cluster); err != nil {
		return "", fmt.Errorf("get mysqlcluster %s: %w", s.cluster, err)
	}
	replica := ""
	for _, i := range cluster.Status.Instances {
		if i.Role == porpoisev1.RoleReplica {
			replica = i.Name
		}
	}
	if replica == "" {
		return "", fmt.Errorf("mysqlcluster %s: status lists no replica: %s", s.cluster, env.Describe(cluster))
	}
	return replica, nil
}

// rejoinedCheck wants a new pod that is ready, and the cluster Ready with the replica's acknowledgement counting again.
func (s *story) rejoinedCheck(replica, lost string) env.Check {
	return func(ctx context.Context) (bool, string, error) {
		pod := &corev1.Pod{}
		if err := s.env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: naming.Pod(replica)}, pod); err != nil {
			return false, "", client.IgnoreNotFound(err)
		}
		if string(pod.UID) == lost {
			return false, "the old pod is ending", nil
		}
		topology := &porpoisev1.MySQLTopology{}
		cluster := &porpoisev1.MySQLCluster{}
		key := client.ObjectKey{Namespace: s.namespace, Name: s.cluster}
		if err := errors.Join(s.env.Client.Get(ctx, key, topology), s.env.Client.Get(ctx, key, cluster)); err != nil {
			return false, "", err
		}
		member := topology.Status.Quorum != nil && isMember(topology.Status.Quorum, replica)
		done := podReady(pod) && member && env.AllReady(cluster)
		return done, fmt.Sprintf("pod %s, its acknowledgement counts: %t; %s", pod.Status.Phase, member, env.Describe(cluster)), nil
	}
}

func isMember(q *porpoisev1.Quorum, instance string) bool {
	for _, m := range q.Members {
		if m.Name == instance {
			return true
		}
	}
	return false
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// otherClusters counts the MySQLClusters outside of the demo's namespace.
func (s *story) otherClusters(ctx context.Context, e *env.Env) (int, error) {
	list := &porpoisev1.MySQLClusterList{}
	err := e.Client.List(ctx, list)
	if meta.IsNoMatchError(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list mysqlclusters: %w", err)
	}
	others := 0
	for _, c := range list.Items {
		if c.Namespace != s.namespace {
			others++
		}
	}
	return others, nil
}

// inserts makes one commit per row, as applications do.
func inserts(n int) string {
	return strings.Repeat("INSERT INTO story (said) VALUES (CONCAT('row at ', NOW(6)));\n", n)
}

// answered reads "HOST\tROWS", the answer of the queries above.
func answered(out string) string {
	host, rows, ok := strings.Cut(lastLine(out), "\t")
	if !ok {
		return "no answer yet"
	}
	return fmt.Sprintf("%s answers: %s rows", host, rows)
}

func hasRows(out string, want int) bool {
	_, rows, _ := strings.Cut(lastLine(out), "\t")
	return rows == strconv.Itoa(want)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func (s *story) hints() {
	t := s.env.Timeline
	t.Section("Done in %.0f s: created in %.1f s, the lost replica was back after %.1f s with all %d rows",
		t.Elapsed().Seconds(), s.created.Seconds(), s.rejoined.Seconds(), rowsBefore+rowsDuring)
	assets, down := "hack/cluster-env", "make demo-down"
	if s.env.Local != nil {
		assets = "go -C test/cluster run . --name " + s.env.Local.Name() + " env"
		down += " CLUSTER=" + s.env.Local.Name()
	}
	fmt.Printf(`
Look around:
  eval "$(%[1]s)"; export PATH="$PWD/bin:$PATH"      # KUBECONFIG, kubectl and the plugin
  kubectl -n %[2]s get mysql,pods
  kubectl porpoise status %[3]s -n %[2]s
Connect as the application:
  kubectl -n %[2]s exec -it %[4]s -- bash -c 'MYSQL_PWD=$(cat /etc/mysql-account/password) mysql -h %[5]s -u app app'
Break something: kill the primary's mysqld, and see it come back:
  kubectl -n %[2]s exec $(kubectl -n %[2]s get mysql %[3]s -o jsonpath='{.status.topology.primary}')-0 -c mysqld -- bash -c 'kill -9 $(pidof mysqld)'
Remove everything:
  %[6]s
`, assets, s.namespace, s.cluster, s.client.Name, naming.ServiceReadWrite(s.cluster), down)
}
