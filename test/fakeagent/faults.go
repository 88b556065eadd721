package fakeagent

import (
	"fmt"
	"slices"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// Crash kills an instance's mysqld; its agent starts it again, read-only.
func (w *World) Crash(name string) {
	w.with(name, func(i *instance) {
		if i.process == agentapi.ProcessRunning {
			i.end(agentapi.ProcessCrashed, "signal: killed")
			i.exits++
			w.start(i)
		}
	})
}

// BeginStop is what a replica shows between the order to end and its end: replication stops first.
func (w *World) BeginStop(name string) {
	w.with(name, func(i *instance) {
		i.ending = true
		i.receiver, i.applier = "OFF", "OFF"
	})
}

// StopPod ends an instance's pod at once. Its volume stays.
func (w *World) StopPod(name string) {
	w.with(name, func(i *instance) {
		if w.flaw == ReleasesAtStop && i.up() {
			i.semiSource = false
			w.release(i)
		}
		i.end(agentapi.ProcessStopped, "")
		i.podUp, i.confirmed, i.ending = false, false, false
		if i.data == agentapi.DataInitializing || i.data == agentapi.DataCloning {
			i.data = agentapi.DataEmpty
		}
	})
}

// StartPod gives an instance a new pod on its volume.
func (w *World) StartPod(name string) {
	w.with(name, func(i *instance) {
		if i.podUp {
			return
		}
		w.made++
		i.podUp, i.agentStart, i.sequence, i.exits, i.lastExit, i.operation = true, w.now().Add(time.Duration(w.made)), 0, 0, "", nil
		if i.data == agentapi.DataReady {
			w.start(i)
		}
	})
}

// LoseVolume empties an instance's volume, whose pod must be stopped.
func (w *World) LoseVolume(name string) {
	w.with(name, func(i *instance) {
		*i = instance{name: i.name, data: agentapi.DataEmpty, process: agentapi.ProcessStopped, agentStart: i.agentStart}
	})
}

// Write commits one transaction on an instance if it is writable.
func (w *World) Write(name string) {
	w.with(name, func(i *instance) { w.write(i, 1) })
}

// WriteErrant commits a transaction of an instance's own on it, read-only or not.
func (w *World) WriteErrant(name string) {
	w.with(name, func(i *instance) {
		i.next++
		set := gtid.MustParse(fmt.Sprintf("%s:%d", i.uuid, i.next))
		i.executed, i.logged = i.executed.Union(set), i.logged.Union(set)
	})
}

// Purge drops an instance's binary logs.
func (w *World) Purge(name string) { w.with(name, func(i *instance) { i.purged = i.executed }) }

// CutOff stops or lets through an instance's replication connections, in both directions.
func (w *World) CutOff(name string, cut bool) { w.with(name, func(i *instance) { i.cutOff = cut }) }

// Silence stops or lets through the answers of an instance's agent.
func (w *World) Silence(name string, silent bool) {
	w.with(name, func(i *instance) { i.silent = silent })
}

// Freeze stops or lets go on an instance's receiving, its connection staying up.
func (w *World) Freeze(name string, frozen bool) {
	w.with(name, func(i *instance) { i.frozen = frozen })
}

// Hang makes an instance's mysqld answer nobody, or answer again.
func (w *World) Hang(name string, hung bool) {
	w.with(name, func(i *instance) {
		if i.hung = (time.Time{}); hung && i.process == agentapi.ProcessRunning {
			i.hung = w.now()
		}
	})
}

// Lag stops or lets go on an instance's applying; it receives and acknowledges all the same.
func (w *World) Lag(name string, lagging bool) {
	w.with(name, func(i *instance) { i.lagging = lagging })
}

// Lost tells of acknowledged commits that an instance lacked when it was opened (INV-1), and of commits that were
// acknowledged though they are not on the primary of the highest epoch (INV-2); none: nothing was lost.
func (w *World) Lost() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lost)
}

// Forgive takes back what was acknowledged: a person accepts that some of it may be lost.
func (w *World) Forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = nil
}

// opened checks INV-1 on an instance that is being opened for writes.
func (w *World) opened(i *instance) {
	for _, c := range w.acked {
		if !i.executed.Contains(c.GTID) {
			w.lost = append(w.lost, fmt.Sprintf("%s opens in epoch %d without %s, which was acknowledged (INV-1)", i.name, i.epoch, c.GTID.Subtract(i.executed)))
		}
	}
	if i.epoch > w.topEpoch {
		w.topEpoch, w.top = i.epoch, i
	}
}

// tell acknowledges a commit to its client and checks INV-2: the primary of the highest epoch has it.
func (w *World) tell(s *instance, c Commit) {
	w.acked = append(w.acked, c)
	if w.top != nil && w.top != s && !w.top.executed.Union(w.top.logged).Contains(c.GTID) {
		w.lost = append(w.lost, fmt.Sprintf("%s acknowledges %s in epoch %d, which %s, primary of epoch %d, lacks (INV-2)", s.name, c.GTID, s.epoch, w.top.name, w.topEpoch))
	}
}

// FailNext makes the next command of a type fail on an instance.
func (w *World) FailNext(name string, t agentapi.CommandType, why string) {
	w.with(name, func(i *instance) {
		if i.failNext == nil {
			i.failNext = map[agentapi.CommandType]string{}
		}
		i.failNext[t] = why
	})
}

// HalfDone makes the next SetQuorum on an instance fail once the quorum is stored and before it is carried out.
func (w *World) HalfDone(name string) { w.with(name, func(i *instance) { i.halfDone = true }) }

// Life tells lives of an instance's agent apart: a command that was sent to an earlier one does not reach a later one.
func (w *World) Life(name string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := w.instances[name]; i != nil && i.podUp {
		return i.agentStart
	}
	return time.Time{}
}

// SetWriteRate makes the primary take that many commits a second.
func (w *World) SetWriteRate(perSecond float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rate, w.loaded = perSecond, w.now()
}

// Holds returns what an instance's volume holds, executed or received, whether or not anything runs on it; exists is false
// when its data is of another incarnation.
func (w *World) Holds(name, incarnation string) (holds gtid.Set, exists bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instances[name]
	if i == nil || i.data != agentapi.DataReady || i.incarnation != incarnation {
		return gtid.Set{}, false
	}
	return i.executed.Union(i.received).Union(i.logged), true
}

// Sent returns how many documents an instance gave away in this life of its agent.
func (w *World) Sent(name string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[name].sequence
}

// Acknowledged returns all commits that clients were told of.
func (w *World) Acknowledged() []Commit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.acked)
}

func (w *World) with(name string, f func(*instance)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.instances[name]
	if i == nil {
		panic("fakeagent: no instance " + name)
	}
	f(i)
	w.settle()
	w.change(i)
}
