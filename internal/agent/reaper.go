package agent

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// reaper collects orphans, which the kernel gives to PID 1 (children of `kubectl exec` that outlive it), and leaves the
// agent's own children to those who wait for them.
type reaper struct {
	mu  sync.Mutex
	own map[int]bool
}

func newReaper() *reaper { return &reaper{own: map[int]bool{}} }

// start starts a command whose Wait the caller calls; forget is to be called after Wait.
func (r *reaper) start(cmd *exec.Cmd) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.own[cmd.Process.Pid] = true
	return nil
}

func (r *reaper) forget(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, pid)
}

// run reaps until ctx ends; only PID 1 has orphans to reap.
func (r *reaper) run(ctx context.Context) {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			r.reap()
		}
	}
}

// reap collects every dead child that is not the agent's own.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return
	}
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || r.own[pid] || !isDeadChild(path) {
			continue
		}
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	}
}

// isDeadChild reads state and parent, which follow the name in parentheses (proc_pid_stat(5)).
func isDeadChild(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return false
	}
	fields := bytes.Fields(text[end+1:])
	return len(fields) > 1 && string(fields[0]) == "Z" && string(fields[1]) == strconv.Itoa(os.Getpid())
}
