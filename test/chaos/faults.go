package chaos

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
)

// faultScope is what a fault works on. Heal functions run in the reverse order; those of the network, unblock, come first, since
// the harness itself must reach an agent that it starts.
type faultScope struct {
	ctx     context.Context
	world   *World
	writers *Writers
	rng     *rand.Rand
	heal    []func() error
	unblock []func() error
}

func (f *faultScope) later(heal func() error) { f.heal = append(f.heal, heal) }

// primary and replicas by the record.
func (f *faultScope) primary() *agenttest.Instance {
	rec, _ := f.world.Store.Load()
	return f.world.Instance(rec.Primary)
}

func (f *faultScope) replicas() []*agenttest.Instance {
	p := f.primary()
	return slices.DeleteFunc(slices.Clone(f.world.Cluster.Instances), func(i *agenttest.Instance) bool { return i == p })
}

func (f *faultScope) replica() *agenttest.Instance {
	r := f.replicas()
	return r[f.rng.IntN(len(r))]
}

func (f *faultScope) any() *agenttest.Instance {
	return f.world.Cluster.Instances[f.rng.IntN(len(f.world.Cluster.Instances))]
}

// up to a time, at least a millisecond.
func (f *faultScope) wait(most time.Duration) error {
	return pause(f.ctx, time.Millisecond+time.Duration(f.rng.Int64N(int64(most))))
}

// fault is one way in which things break.
type fault struct {
	kind string
	do   func(*faultScope) error
}

// faults in a fixed order, since seeds choose by number.
func faults(network bool) []fault {
	list := []fault{
		{"kill-primary", func(f *faultScope) error { KillMysqld(f.primary()); return nil }},
		{"kill-replica", func(f *faultScope) error { KillMysqld(f.replica()); return nil }},
		{"kill-all", func(f *faultScope) error { return f.each(f.world.Cluster.Instances, f.killMysqld) }},
		{"agent-kill-primary", func(f *faultScope) error { return f.killAgent(f.primary()) }},
		{"agent-kill-replica", func(f *faultScope) error { return f.killAgent(f.replica()) }},
		{"power-loss", func(f *faultScope) error { return f.each(f.world.Cluster.Instances, f.killAgent) }},
		{"term-primary", func(f *faultScope) error { return f.terminate(f.primary()) }},
		{"term-starved", (*faultScope).terminateStarved},
		{"stop-primary", func(f *faultScope) error { return f.freeze(f.primary(), false, true) }},
		{"stop-replica", func(f *faultScope) error { return f.freeze(f.replica(), false, true) }},
		{"stop-replicas", func(f *faultScope) error {
			return f.each(f.replicas(), func(i *agenttest.Instance) error { return f.freeze(i, false, true) })
		}},
		{"stop-agent-primary", func(f *faultScope) error { return f.freeze(f.primary(), true, false) }},
		{"stop-node-primary", func(f *faultScope) error { return f.freeze(f.primary(), true, true) }},
		{"stop-node-replica", func(f *faultScope) error { return f.freeze(f.replica(), true, true) }},
		{"lane-kill", (*faultScope).killLane},
		{"two-lanes", (*faultScope).twoLanes},
		{"storm", (*faultScope).storm},
	}
	if network {
		list = append(list,
			fault{"cut-mysql", func(f *faultScope) error { return f.cutMysqld(f.any(), false) }},
			fault{"cut-mysql-answers", func(f *faultScope) error { return f.cutMysqld(f.primary(), true) }},
			fault{"cut-agent", func(f *faultScope) error { return f.cutAll(f.any(), false) }},
			fault{"cut-node-primary", func(f *faultScope) error { return f.cutAll(f.primary(), true) }},
		)
	}
	return list
}

func (f *faultScope) each(list []*agenttest.Instance, do func(*agenttest.Instance) error) error {
	for _, i := range list {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

func (f *faultScope) killMysqld(i *agenttest.Instance) error {
	KillMysqld(i)
	return nil
}

func (f *faultScope) killAgent(i *agenttest.Instance) error {
	f.later(func() error { f.world.StartAgent(i); return nil })
	return f.world.KillAgent(i)
}

func (f *faultScope) terminate(i *agenttest.Instance) error {
	f.later(func() error { f.world.StartAgent(i); return nil })
	f.world.TerminateAgent(i)
	return nil
}

// terminateStarved ends the primary while its commits wait: its clients must not hear OK for what nobody else holds.
func (f *faultScope) terminateStarved() error {
	for _, i := range f.replicas() {
		if err := f.freeze(i, false, true); err != nil {
			return err
		}
	}
	primary := f.primary()
	// Everybody who writes waits once nothing was begun for a while.
	before, since := int64(-1), time.Now()
	err := await(f.ctx, time.Minute, func() (bool, string) {
		if now := f.writers.begun.Load(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond, "writers still begin new writes"
	})
	if err != nil {
		return err
	}
	return f.terminate(primary)
}

// freeze stops an instance's agent, its mysqld, or both as a node that hangs.
func (f *faultScope) freeze(i *agenttest.Instance, agent, mysqld bool) error {
	f.later(func() error { f.world.thaw(i); return nil })
	if agent && f.world.pod(i.Config.Instance).Running {
		signal(i.AgentPID(), syscall.SIGSTOP)
	}
	if mysqld {
		signal(MysqldPID(i), syscall.SIGSTOP)
	}
	return nil
}

// killLane kills the oldest lane; another one starts at once or when all heals.
func (f *faultScope) killLane() error {
	if lanes := f.world.Lanes(); len(lanes) > 0 {
		f.world.KillLane(lanes[0])
	}
	if f.rng.IntN(2) == 0 {
		f.world.StartLane()
		return nil
	}
	f.later(func() error {
		if len(f.world.Lanes()) == 0 {
			f.world.StartLane()
		}
		return nil
	})
	return nil
}

// twoLanes lets two act; when all heals the older or the newer one ends.
func (f *faultScope) twoLanes() error {
	f.world.StartLane()
	older := f.rng.IntN(2) == 0
	f.later(func() error {
		lanes := f.world.Lanes()
		if len(lanes) < 2 {
			return nil
		}
		if older {
			f.world.KillLane(lanes[0])
		} else {
			f.world.KillLane(lanes[len(lanes)-1])
		}
		return nil
	})
	return nil
}

// storm kills mysqlds again and again.
func (f *faultScope) storm() error {
	for range 4 + f.rng.IntN(8) {
		KillMysqld(f.any())
		if f.rng.IntN(3) == 0 {
			KillMysqld(f.primary())
		}
		if err := f.wait(700 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// cut drops what goes to a port of an instance, or what comes from it.
func (f *faultScope) cut(i *agenttest.Instance, port int, answers bool) error {
	direction, side := "-d", "--dport"
	if answers {
		direction, side = "-s", "--sport"
	}
	rule := []string{"OUTPUT", "-o", "lo", "-p", "tcp", direction, i.Host, side, strconv.Itoa(port), "-j", "DROP"}
	remove, err := f.world.addRule(rule)
	if err != nil {
		return err
	}
	f.unblock = append(f.unblock, remove)
	return nil
}

func (f *faultScope) cutMysqld(i *agenttest.Instance, answers bool) error {
	return f.cut(i, i.Config.Port, answers)
}

// cutAll cuts an instance's agent off, and with mysqld as a node without a network.
func (f *faultScope) cutAll(i *agenttest.Instance, mysqld bool) error {
	_, port, err := splitPort(i.Config.APIAddress)
	if err != nil {
		return err
	}
	ports := []int{port}
	if mysqld {
		ports = append(ports, i.Config.Port)
	}
	for _, p := range ports {
		if err := f.cut(i, p, false); err != nil {
			return err
		}
		if err := f.cut(i, p, true); err != nil {
			return err
		}
	}
	return nil
}

// CanCut says whether ports can be cut here: as root, with iptables.
func CanCut() bool {
	if os.Geteuid() != 0 {
		return false
	}
	return exec.Command("iptables", "-w", "-n", "-L", "OUTPUT").Run() == nil
}
