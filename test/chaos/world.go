package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/topology"
)

// healthyWithin bounds every wait for the cluster: generous, since machines are busy.
const healthyWithin = 5 * time.Minute

// Options of a world.
type Options struct {
	// Instances of the cluster.
	Instances int
	// WriteDelay of the record.
	WriteDelay time.Duration
	// Logs is the folder that gets the logs of agents and lanes; empty: none are kept.
	Logs string
}

// World is a cluster with its record, its lanes, and what Kubernetes would tell of its pods.
type World struct {
	T       testing.TB
	Cluster *agenttest.Cluster
	Store   *Store
	Spec    v1.MySQLTopologySpec

	credentials *agentclient.Credentials
	log         io.Writer

	mu       sync.Mutex
	pods     map[string]topology.Pod
	podWatch map[int]func()
	next     int
	lanes    []*Lane
	made     int
	see      func(Step)
}

// appPassword is that of the account that writers use.
const appPassword = "chaos-Secret_1"

// New starts the agents, each a process of its own: the main function, or TestMain, must call agenttest.RunChild. There is no
// lane yet, so nothing more happens.
func New(t testing.TB, o Options) (*World, error) {
	w := &World{T: t, Store: NewStore(o.WriteDelay), log: io.Discard, pods: map[string]topology.Pod{}, podWatch: map[int]func(){}}
	if o.Logs != "" {
		f, err := os.Create(filepath.Join(o.Logs, "lanes.log"))
		if err != nil {
			return nil, fmt.Errorf("make the log of the lanes: %w", err)
		}
		t.Cleanup(func() { _ = f.Close() })
		w.log = f
	}
	c := agenttest.New(t, o.Instances, agenttest.Options{Processes: true, Logs: o.Logs, Extra: map[string]string{"max_connections": "200"}})
	w.Cluster = c
	w.Spec = v1.MySQLTopologySpec{ClusterID: c.ID, Acks: 1, Failover: v1.TopologyFailover{MaxFailovers: 1000}}
	cert, private := c.CA.Leaf(naming.CertCNManager)
	credentials, err := agentclient.ParseCredentials("1", map[string][]byte{naming.FileCA: c.CA.PEM, naming.FileTLSCert: cert, naming.FileTLSKey: private})
	if err != nil {
		return nil, err
	}
	w.credentials = credentials
	for _, i := range c.Instances {
		if CanCut() {
			if err := dropRules(i.Host); err != nil {
				return nil, err
			}
		}
		i.WriteAccount("app", map[string]string{"username": "app", "password": appPassword, "database": "app"})
		w.Spec.Instances = append(w.Spec.Instances, i.Config.Instance)
		i.Start()
		w.setPod(i, true, false)
	}
	t.Cleanup(w.stop)
	return w, nil
}

// stop ends the lanes before the agents end.
func (w *World) stop() {
	for _, l := range w.Lanes() {
		w.KillLane(l)
	}
	for _, i := range w.Cluster.Instances {
		w.thaw(i)
	}
}

// Watch calls see with each step of a lane.
func (w *World) Watch(see func(Step)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.see = see
}

func (w *World) note(s Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintln(w.log, s)
	if w.see != nil {
		w.see(s)
	}
}

// Say writes a line to the log of the lanes, between their steps.
func (w *World) Say(format string, args ...any) {
	w.note(Step{At: time.Now(), Lane: "harness", Kind: "===", Text: fmt.Sprintf(format, args...)})
}

// StartLane starts another lane.
func (w *World) StartLane() *Lane {
	w.mu.Lock()
	w.made++
	name := "lane-" + strconv.Itoa(w.made)
	w.mu.Unlock()
	l := startLane(w, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes = append(w.lanes, l)
	return l
}

// KillLane kills one.
func (w *World) KillLane(l *Lane) {
	l.Kill()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes = slices.DeleteFunc(w.lanes, func(o *Lane) bool { return o == l })
}

// Lanes lists those that live, oldest first.
func (w *World) Lanes() []*Lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lanes)
}

// targets are where the agents are.
func (w *World) targets() []agentclient.Target {
	var out []agentclient.Target
	for _, i := range w.Cluster.Instances {
		out = append(out, agentclient.Target{Instance: i.Config.Instance, Address: i.Config.APIAddress, ServerName: i.Host})
	}
	return out
}

// atItsPort gives the peers in a command the port that they have here.
func (w *World) atItsPort(cmd agentapi.Command) agentapi.Command {
	at := func(p *agentapi.Peer) *agentapi.Peer {
		i := w.instanceAt(p)
		if i == nil {
			return p
		}
		moved := *p
		moved.Port = i.Config.Port
		return &moved
	}
	cmd.Primary, cmd.Donor = at(cmd.Primary), at(cmd.Donor)
	return cmd
}

func (w *World) instanceAt(p *agentapi.Peer) *agenttest.Instance {
	if p == nil {
		return nil
	}
	return w.Instance(p.Instance)
}

// Instance of a name; nil: none.
func (w *World) Instance(name string) *agenttest.Instance {
	for _, i := range w.Cluster.Instances {
		if i.Config.Instance == name {
			return i
		}
	}
	return nil
}

// pod is what Kubernetes would tell.
func (w *World) pod(name string) topology.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[name]
}

func (w *World) setPod(i *agenttest.Instance, running, terminating bool) {
	w.mu.Lock()
	w.pods[i.Config.Instance] = topology.Pod{Exists: true, Bound: true, Running: running, Terminating: terminating, UID: "pod-" + i.Config.Instance}
	var tell []func()
	for _, f := range w.podWatch {
		tell = append(tell, f)
	}
	w.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

func (w *World) watchPods(f func()) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := w.next
	w.next++
	w.podWatch[id] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.podWatch, id)
	}
}

// KillAgent kills an agent, and with it mysqld. Kubernetes tells once nothing of the container runs any more.
func (w *World) KillAgent(i *agenttest.Instance) error {
	if !w.pod(i.Config.Instance).Running {
		return nil
	}
	i.KillAgent()
	err := await(context.Background(), time.Minute, func() (bool, string) {
		return MysqldPID(i) == 0, "mysqld of " + i.Config.Instance + " lives on after its agent"
	})
	w.setPod(i, false, false)
	return err
}

// TerminateAgent ends an agent as the kubelet does, and waits until it has ended.
func (w *World) TerminateAgent(i *agenttest.Instance) {
	if !w.pod(i.Config.Instance).Running {
		return
	}
	signal(i.AgentPID(), syscall.SIGCONT) // A frozen one would never end; the kubelet would kill it.
	w.setPod(i, true, true)
	i.Terminate()
	w.setPod(i, false, false)
}

// StartAgent starts an agent that was killed or terminated.
func (w *World) StartAgent(i *agenttest.Instance) {
	if w.pod(i.Config.Instance).Running {
		return
	}
	i.Start()
	w.setPod(i, true, false)
}

// AwaitHealthy waits until the record says Healthy and every agent shows it.
func (w *World) AwaitHealthy(ctx context.Context) error {
	return await(ctx, healthyWithin, func() (bool, string) {
		rec, _ := w.Store.Load()
		if rec.Phase != v1.TopologyStable || rec.Reason != v1.TopologyHealthy || !rec.Routed || rec.Quorum == nil ||
			rec.Quorum.RequiredAcks != w.Spec.Acks || len(rec.Quorum.Members) != len(w.Spec.Instances)-1 {
			return false, fmt.Sprintf("the record: %s/%s %s", rec.Phase, rec.Reason, rec.Message)
		}
		for _, i := range w.Cluster.Instances {
			s, err := i.TryStatus()
			switch {
			case err == nil && MysqldPID(i) != s.Process.PID:
				// Faults go by that: one that hits nothing would prove nothing.
				return false, fmt.Sprintf("%s: mysqld has process id %d, found was %d", i.Config.Instance, s.Process.PID, MysqldPID(i))
			case err != nil:
				return false, fmt.Sprintf("%s: %v", i.Config.Instance, err)
			case !s.Confirmed || s.Server == nil || s.Epoch != rec.Epoch || s.Server.OfflineMode:
				return false, i.Config.Instance + " does not serve in epoch " + strconv.FormatInt(rec.Epoch, 10)
			case i.Config.Instance == rec.Primary && s.Server.ReadOnly:
				return false, i.Config.Instance + " is read-only"
			case i.Config.Instance != rec.Primary && (s.Server.Replication == nil || s.Server.Replication.Receiver != "ON" || s.Server.Replication.Applier != "ON"):
				return false, i.Config.Instance + " does not follow"
			}
		}
		return true, ""
	})
}

// await polls a condition until it holds; it says what is missing otherwise.
func await(ctx context.Context, within time.Duration, condition func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		ok, missing := condition()
		if ok {
			return nil
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("waited in vain: %w", errors.New(missing))
		}
	}
}
