package failover_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/failover"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
	"github.com/porpoise-dev/porpoise/test/sim"
)

// story drives one manager against a model cluster, step by step, and writes down what is decided.
type story struct {
	t       *testing.T
	world   *fakeagent.World
	manager *sim.Manager
	spec    v1.MySQLTopologySpec
	record  v1.MySQLTopologyStatus
	up      map[string]bool
	deleted map[string]bool
	clock   time.Time
	later   []func()
	out     strings.Builder
	rows    map[string]bool
}

func newStory(t *testing.T, acks int32, instances ...string) *story {
	s := &story{
		t: t, manager: sim.NewManager("shop", "orders"), up: map[string]bool{}, deleted: map[string]bool{}, rows: map[string]bool{},
		spec:  v1.MySQLTopologySpec{ClusterID: "c1", Acks: acks, Instances: instances},
		clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	s.world = fakeagent.NewWorld("shop", "orders",
		fakeagent.WithDurations(fakeagent.Durations{Initialize: time.Second, Clone: time.Second, Boot: time.Second}),
		fakeagent.WithTime(func() time.Time { return s.clock }, func(_ time.Duration, f func()) { s.later = append(s.later, f) }))
	for _, name := range instances {
		s.add(name)
	}
	return s
}

func (s *story) add(name string) {
	s.world.Add(name)
	s.up[name] = true
}

// tell notes what happens to the cluster.
func (s *story) tell(format string, args ...any) { fmt.Fprintf(&s.out, "* "+format+"\n", args...) }

// pass hears everybody, decides, records and acts, once. It says whether anything was done.
func (s *story) pass() bool {
	s.clock = s.clock.Add(10 * time.Millisecond)
	for _, name := range slices.Sorted(maps.Keys(s.up)) {
		up := s.up[name]
		s.manager.SeePod(name, up)
		if !up {
			s.manager.Lose(name, s.clock)
			delete(s.deleted, name)
			continue
		}
		if s.deleted[name] {
			s.manager.SeeDeletion(name)
		}
		asked := s.clock
		s.clock = s.clock.Add(time.Microsecond)
		if st, err := s.world.Status(name); err == nil {
			s.manager.Hear(st, asked, s.clock)
		}
	}
	// The primary last, so that the others were sampled before it.
	if p := s.record.Primary; s.up[p] {
		s.clock = s.clock.Add(time.Microsecond)
		if st, err := s.world.Status(p); err == nil {
			s.manager.Hear(st, s.clock, s.clock)
		}
	}
	d := s.manager.Plan(s.spec, s.record, s.clock)
	s.rows[d.Row] = true
	recorded := !equality.Semantic.DeepEqual(d.Record, s.record)
	fmt.Fprintf(&s.out, "%s\n", d.Row)
	if recorded {
		fmt.Fprintf(&s.out, "    record %s/%s epoch %d primary %q routed %t %s restartReady %q\n           %s\n", d.Record.Phase, d.Record.Reason, d.Record.Epoch,
			d.Record.Primary, d.Record.Routed, quorumLine(d.Record.Quorum), d.Record.RestartReady, d.Record.Message)
		for _, e := range failover.Transitions(s.record, d.Record) {
			fmt.Fprintf(&s.out, "    event  %s: %s\n", e.Reason, e.Message)
		}
	}
	s.record = d.Record
	for _, a := range d.Actions {
		result := "ok"
		if err := s.world.Do(a.Instance, a.Command); err != nil {
			result = err.Error()
		}
		fmt.Fprintf(&s.out, "    %s %s %s: %s\n", a.Command.Type, a.Instance, quorumLineOf(a.Command.Quorum), result)
	}
	return recorded || len(d.Actions) > 0
}

// settle passes until nothing is done any more, letting what takes time end in between.
func (s *story) settle() {
	s.t.Helper()
	for range 200 {
		if s.pass() {
			continue
		}
		if len(s.later) == 0 {
			s.finish()
			return
		}
		s.endOfWaits()
	}
	s.t.Fatalf("does not settle:\n%s", s.out.String())
}

// endOfWaits ends everything that takes time.
func (s *story) endOfWaits() {
	due := s.later
	s.later = nil
	s.clock = s.clock.Add(time.Second)
	s.tell("a second passes")
	for _, f := range due {
		f()
	}
}

func (s *story) finish() {
	fmt.Fprintf(&s.out, "= %s/%s: %s\n", s.record.Phase, s.record.Reason, s.record.Message)
	for _, i := range s.record.Instances {
		fmt.Fprintf(&s.out, "=   %s %s %s %s\n", i.Name, i.Role, i.State, i.Message)
	}
}

func quorumLine(q *v1.Quorum) string {
	if q == nil {
		return "no quorum"
	}
	var names []string
	for _, m := range q.Members {
		names = append(names, m.Name)
	}
	return fmt.Sprintf("quorum{g%d acks %d %v}", q.Generation, q.RequiredAcks, names)
}

func quorumLineOf(q *agentapi.Quorum) string {
	if q == nil {
		return ""
	}
	out := v1.Quorum{Generation: q.Generation, RequiredAcks: q.RequiredAcks}
	for _, m := range q.Members {
		out.Members = append(out.Members, v1.QuorumMember(m))
	}
	return quorumLine(&out)
}

// stories are the golden traces.
var stories = map[string]func(*testing.T) *story{
	"bootstrap": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		return s
	},
	"single": func(t *testing.T) *story {
		s := newStory(t, 0, "orders-0")
		s.settle()
		s.tell("mysqld of orders-0 is killed")
		s.world.Crash("orders-0")
		s.settle()
		return s
	},
	"scale-out-clone": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1")
		s.settle()
		s.tell("orders-0 has purged binary logs; orders-2 is added, acks stay 1")
		s.world.Purge("orders-0")
		s.add("orders-2")
		s.spec.Instances = append(s.spec.Instances, "orders-2")
		s.settle()
		s.tell("acks are raised to 2")
		s.spec.Acks = 2
		s.settle()
		return s
	},
	"scale-in": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("orders-2 is no longer wanted")
		s.spec.Instances = []string{"orders-0", "orders-1"}
		s.settle()
		return s
	},
	"restart-replica": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("orders-1 is to be restarted")
		s.spec.Restarting = "orders-1"
		s.settle()
		s.tell("its pod is deleted and ends in order: replication stops, the agent takes no commands")
		s.deleted["orders-1"] = true
		s.world.BeginStop("orders-1")
		s.settle()
		s.tell("its pod is replaced")
		s.world.StopPod("orders-1")
		s.up["orders-1"] = false
		s.settle()
		s.world.StartPod("orders-1")
		s.up["orders-1"] = true
		s.settle()
		s.tell("it is back")
		s.spec.Restarting = ""
		s.settle()
		return s
	},
	"restart-in-two": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1")
		s.settle()
		s.tell("orders-1 is to be restarted, and nobody can take its seat")
		s.spec.Restarting = "orders-1"
		s.settle()
		return s
	},
	"resume": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("orders-1 and orders-2 are cut off, a commit waits, mysqld of orders-0 is killed")
		s.world.CutOff("orders-1", true)
		s.world.CutOff("orders-2", true)
		s.world.Write("orders-0")
		s.settle()
		s.world.Crash("orders-0")
		s.settle()
		s.tell("orders-2 is connected again")
		s.world.CutOff("orders-2", false)
		s.settle()
		return s
	},
	"pod-gone": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("the pod of orders-0 is deleted")
		s.world.StopPod("orders-0")
		s.up["orders-0"] = false
		s.settle()
		s.tell("a new pod on its volume")
		s.world.StartPod("orders-0")
		s.up["orders-0"] = true
		s.settle()
		return s
	},
	"all-gone": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		for name := range s.up {
			s.world.StopPod(name)
			s.up[name] = false
		}
		s.tell("power is lost")
		s.settle()
		for name := range s.up {
			s.world.StartPod(name)
			s.up[name] = true
		}
		s.tell("power is back")
		s.settle()
		return s
	},
	"record-lost": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("the record is lost, orders-2 does not answer")
		s.record = v1.MySQLTopologyStatus{}
		s.world.StopPod("orders-2")
		s.up["orders-2"] = false
		s.settle()
		s.tell("orders-2 answers")
		s.world.StartPod("orders-2")
		s.up["orders-2"] = true
		s.settle()
		return s
	},
	"record-old": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		old := s.record
		s.record = v1.MySQLTopologyStatus{}
		s.settle()
		s.tell("an older record is restored while orders-1 is away")
		s.record = old
		s.world.StopPod("orders-1")
		s.up["orders-1"] = false
		s.settle()
		s.tell("orders-1 answers")
		s.world.StartPod("orders-1")
		s.up["orders-1"] = true
		s.settle()
		return s
	},
	"broken-replicas": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2", "orders-3")
		s.settle()
		s.tell("orders-1 gets an errant transaction and restarts; orders-2 was away while orders-0 purged")
		s.world.WriteErrant("orders-1")
		s.world.Crash("orders-1")
		s.world.StopPod("orders-2")
		s.up["orders-2"] = false
		s.world.Write("orders-0")
		s.world.Purge("orders-0")
		s.world.StartPod("orders-2")
		s.up["orders-2"] = true
		s.settle()
		return s
	},
	"rebuilt-member": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1")
		s.settle()
		s.tell("orders-1 loses its volume")
		s.world.StopPod("orders-1")
		s.world.LoseVolume("orders-1")
		s.world.StartPod("orders-1")
		s.settle()
		return s
	},
	"primary-data-lost": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1")
		s.settle()
		s.tell("orders-0 loses its volume")
		s.world.StopPod("orders-0")
		s.world.LoseVolume("orders-0")
		s.world.StartPod("orders-0")
		s.settle()
		return s
	},
	"switchover": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		for i, to := range []string{"orders-7", "orders-0", "orders-2", ""} {
			s.tell("a switchover to %q is asked for", to)
			s.spec.Switchover = &v1.SwitchoverRequest{ID: fmt.Sprint(i), To: to}
			s.settle()
			fmt.Fprintf(&s.out, "= switchover %s: %s\n", s.record.Switchover.State, s.record.Switchover.Message)
		}
		return s
	},
	"primary-scaled-in": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("orders-2 is made primary, and is then no longer wanted")
		s.spec.Switchover = &v1.SwitchoverRequest{ID: "1", To: "orders-2"}
		s.settle()
		s.spec.Instances = []string{"orders-0", "orders-1"}
		s.settle()
		return s
	},
	"too-few-to-fence": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("the pods of orders-0 and orders-1 are lost: orders-2 alone may lack what orders-1 acknowledged")
		for _, name := range []string{"orders-0", "orders-1"} {
			s.world.StopPod(name)
			s.up[name] = false
		}
		s.settle()
		s.tell("orders-1 is back")
		s.world.StartPod("orders-1")
		s.up["orders-1"] = true
		s.settle()
		return s
	},
	"loss-accepted": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("orders-0 and orders-1 lose their volumes: what only they held is lost")
		for _, name := range []string{"orders-0", "orders-1"} {
			s.world.StopPod(name)
			s.world.LoseVolume(name)
			s.world.StartPod(name)
		}
		s.settle()
		s.tell("a person accepts that")
		s.spec.AcceptDataLoss = &v1.DataLossAcceptance{ID: "1", By: "jo", At: metav1.NewTime(s.clock.Truncate(time.Second))}
		s.settle()
		return s
	},
	"errant-candidate": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("orders-1 gets a transaction of its own while orders-0 dies: it confirms, and is not chosen")
		s.spec.Failover.HoldErrant = true
		s.world.WriteErrant("orders-1")
		s.world.Crash("orders-0")
		s.settle()
		return s
	},
	"primary-hangs": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("mysqld of orders-0 answers nobody any more")
		s.world.Hang("orders-0", true)
		s.settle()
		return s
	},
	"failovers-capped": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("one failover is allowed, and two primaries crash")
		s.spec.Failover.MaxFailovers = 1
		s.world.Crash("orders-0")
		s.settle()
		s.world.Crash(s.record.Primary)
		s.settle()
		return s
	},
	"hangs-while-capped": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1", "orders-2")
		s.settle()
		s.tell("one failover is allowed; a primary crashes, and mysqld of the next answers nobody any more")
		s.spec.Failover.MaxFailovers = 1
		s.world.Crash("orders-0")
		s.settle()
		s.world.Hang(s.record.Primary, true)
		s.settle()
		return s
	},
	"silent-primary": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1")
		s.settle()
		s.tell("orders-0 is not heard, its pod exists")
		s.manager.Lose("orders-0", s.clock)
		d := s.manager.Plan(s.spec, s.record, s.clock)
		fmt.Fprintf(&s.out, "%s, %d actions: %s\n", d.Row, len(d.Actions), d.Record.Message)
		s.rows[d.Row] = true
		return s
	},
	"suspended": func(t *testing.T) *story {
		s := newStory(t, 1, "orders-0", "orders-1")
		s.settle()
		s.tell("suspended; mysqld of orders-0 is killed")
		s.spec.Suspend = true
		s.world.Crash("orders-0")
		s.settle()
		s.tell("no longer suspended")
		s.spec.Suspend = false
		s.settle()
		return s
	},
}

var updateTraces = flag.Lookup("update")

func TestTraces(t *testing.T) {
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) {
			got := tell(t).out.String()
			path := filepath.Join("testdata", name+".trace")
			if updateTraces.Value.String() == "true" {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v; go test ./internal/failover -update writes it", err)
			}
			if got != string(want) {
				t.Errorf("the trace differs from %s:\n%s", path, got)
			}
		})
	}
}
