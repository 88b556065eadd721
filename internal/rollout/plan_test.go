package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at returns a healthy replica at a revision.
func at(name, revision string) Instance {
	return Instance{Name: name, HasPod: true, Revision: revision, Template: revision, TemplateObserved: true, Running: true, Member: true}
}

func with(i Instance, change func(*Instance)) Instance {
	change(&i)
	return i
}

func primary(i *Instance) { i.Primary = true }
func down(i *Instance)    { i.Running = false }
func broken(i *Instance)  { i.Running, i.Broken = false, true }

func TestPlan(t *testing.T) {
	p0, r1, r2 := with(at("m-0", "a"), primary), at("m-1", "a"), at("m-2", "a")
	for name, tc := range map[string]struct {
		in   Input
		want Decision
	}{
		"nothing to do": {
			Input{Target: "a", Instances: []Instance{p0, r1, r2}},
			Decision{Done: true},
		},
		"no instance yet": {Input{Target: "a"}, Decision{Done: true}},
		"a replica is first, not the primary": {
			Input{Target: "b", Instances: []Instance{p0, r1, r2}},
			Decision{Restarting: "m-1", Message: "asking the topology to release m-1 for its restart with revision b"},
		},
		"waits for the release": {
			Input{Target: "b", Restarting: "m-1", Instances: []Instance{p0, r1, r2}},
			Decision{Restarting: "m-1", Message: "waiting for the topology to release m-1 for its restart"},
		},
		"released: the template first": {
			Input{Target: "b", Restarting: "m-1", RestartReady: "m-1", Instances: []Instance{p0, r1, r2}},
			Decision{Restarting: "m-1", Update: []string{"m-1"}, Message: "restarting m-1 with revision b"},
		},
		"the pod waits until the template was seen": {
			Input{Target: "b", Restarting: "m-1", RestartReady: "m-1", Instances: []Instance{p0, with(r1, func(i *Instance) { i.Template, i.TemplateObserved = "b", false }), r2}},
			Decision{Restarting: "m-1", Message: "restarting m-1 with revision b"},
		},
		"then the pod": {
			Input{Target: "b", Restarting: "m-1", RestartReady: "m-1", Instances: []Instance{p0, with(r1, func(i *Instance) { i.Template = "b" }), r2}},
			Decision{Restarting: "m-1", Delete: []string{"m-1"}, Message: "restarting m-1 with revision b"},
		},
		"another's release is none": {
			Input{Target: "b", Restarting: "m-1", RestartReady: "m-2", Instances: []Instance{p0, r1, r2}},
			Decision{Restarting: "m-1", Message: "waiting for the topology to release m-1 for its restart"},
		},
		"back, and not serving yet": {
			Input{Target: "b", Restarting: "m-1", RestartReady: "m-1", Instances: []Instance{p0, with(at("m-1", "b"), down), r2}},
			Decision{Restarting: "m-1", Message: "waiting for m-1 to serve with revision b"},
		},
		"back and serving: it may become a member": {
			Input{Target: "b", Restarting: "m-1", RestartReady: "m-1", Instances: []Instance{p0, with(at("m-1", "b"), func(i *Instance) { i.Member = false }), r2}},
			Decision{Message: "m-1 runs revision b"},
		},
		"the next waits until it is a member": {
			Input{Target: "b", Instances: []Instance{p0, with(at("m-1", "b"), func(i *Instance) { i.Member = false }), r2}},
			Decision{Message: "waiting for m-1 to serve with revision b"},
		},
		"the primary is last": {
			Input{Target: "b", Instances: []Instance{p0, at("m-1", "b"), at("m-2", "b")}},
			Decision{Restarting: "m-0", Message: "asking the topology to release m-0 for its restart with revision b"},
		},
		"a stuck one stops the rest": {
			Input{Target: "b", Restarting: "m-1", RestartReady: "m-1", Instances: []Instance{p0, with(at("m-1", "b"), func(i *Instance) { i.Running, i.PodAge = false, ProgressDeadline+time.Second }), r2}},
			Decision{Restarting: "m-1", Stuck: true, Message: "m-1 does not serve with revision b for more than 10m0s; nothing more is restarted"},
		},
		"a broken one is replaced by a newer revision at once": {
			Input{Target: "c", Restarting: "m-1", Instances: []Instance{p0, with(at("m-1", "b"), broken), r2}},
			Decision{Restarting: "m-1", Update: []string{"m-1"}, Message: "replacing m-1, which is broken, with revision c"},
		},
		"a broken one needs no release": {
			Input{Target: "b", Instances: []Instance{p0, with(r1, func(i *Instance) { broken(i); i.Template = "b" }), with(at("m-2", "b"), down)}},
			Decision{Delete: []string{"m-1"}, Message: "waiting for m-2 to serve with revision b"},
		},
		"one that is down goes before one that works": {
			Input{Target: "b", Instances: []Instance{p0, r1, with(r2, down)}},
			Decision{Restarting: "m-2", Message: "asking the topology to release m-2 for its restart with revision b"},
		},
		"removed while restarting": {
			Input{Target: "b", Restarting: "m-2", Instances: []Instance{p0, r1}},
			Decision{},
		},
		"a new instance has no pod yet": {
			Input{Target: "a", Instances: []Instance{p0, r1, {Name: "m-2", Template: "a"}}},
			Decision{Done: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan(tc.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// world plays everybody else: the topology lane, the StatefulSet controller and the kubelet, in any order.
type world struct {
	in  Input
	rng *rand.Rand
}

// step lets one thing happen.
func (w *world) step() {
	i := &w.in.Instances[w.rng.IntN(len(w.in.Instances))]
	switch w.rng.IntN(5) {
	case 0:
		if w.in.Restarting != "" {
			w.in.RestartReady = w.in.Restarting
			for j := range w.in.Instances {
				if x := &w.in.Instances[j]; x.Name == w.in.Restarting && !x.Primary {
					x.Member = false
				}
			}
		} else {
			w.in.RestartReady = ""
		}
	case 1:
		i.TemplateObserved = true
	case 2:
		if !i.HasPod && i.TemplateObserved {
			i.HasPod, i.Revision = true, i.Template
		}
	case 3:
		i.Running = i.HasPod
	case 4:
		if i.Running && w.in.Restarting != i.Name {
			i.Member = true
		}
	}
}

// obey carries out a decision.
func (w *world) obey(d Decision) error {
	for j := range w.in.Instances {
		x := &w.in.Instances[j]
		if slices.Contains(d.Update, x.Name) {
			x.Template, x.TemplateObserved = w.in.Target, false
		}
		if slices.Contains(d.Delete, x.Name) {
			if w.in.RestartReady != x.Name {
				return fmt.Errorf("the pod of %s is deleted without a release", x.Name)
			}
			x.HasPod, x.Running, x.Revision = false, false, ""
		}
	}
	w.in.Restarting = d.Restarting
	downNow := 0
	for _, x := range w.in.Instances {
		if !x.Running {
			downNow++
		}
	}
	if downNow > 1 {
		return fmt.Errorf("%d instances are down at once", downNow)
	}
	return nil
}

// TestRolloutConverges: whatever the order of events, every instance gets the target, one at a time, the primary last.
func TestRolloutConverges(t *testing.T) {
	for seed := range uint64(300) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 1))}
		w.in.Target = "b"
		n := 1 + w.rng.IntN(5)
		leader := w.rng.IntN(n)
		for j := range n {
			i := at(fmt.Sprintf("m-%d", j), "a")
			i.Primary = j == leader
			w.in.Instances = append(w.in.Instances, i)
		}
		done := false
		for range 5000 {
			d := Plan(w.in)
			if d.Restarting == w.in.Instances[leader].Name {
				for j, x := range w.in.Instances {
					if j != leader && x.Template != "b" {
						t.Fatalf("seed %d: the primary is restarted before %s", seed, x.Name)
					}
				}
			}
			if err := w.obey(d); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if d.Done {
				done = true
				break
			}
			w.step()
		}
		if !done {
			t.Fatalf("seed %d: not done: %+v", seed, w.in)
		}
	}
}
