package chaos

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/porpoise-dev/porpoise/internal/agent/agenttest"
)

// MysqldPID finds the mysqld that serves an instance, whatever its agent knows; 0: none.
func MysqldPID(i *agenttest.Instance) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		// It may run under a loader, so any argument counts. Servers that only make a data directory have no such one.
		wanted := []byte("--defaults-file=" + i.Config.Paths.Run + "/")
		for _, argument := range bytes.Split(text, []byte{0}) {
			if bytes.HasPrefix(argument, wanted) {
				return pid
			}
		}
	}
	return 0
}

// signal sends a signal; a process that is not there needs none.
func signal(pid int, sig syscall.Signal) {
	if pid > 0 {
		_ = syscall.Kill(pid, sig)
	}
}

// KillMysqld kills an instance's mysqld and says whether there was one.
func KillMysqld(i *agenttest.Instance) bool {
	pid := MysqldPID(i)
	signal(pid, syscall.SIGKILL)
	return pid != 0
}

// thaw lets an instance's processes go on.
func (w *World) thaw(i *agenttest.Instance) {
	if w.pod(i.Config.Instance).Running {
		signal(i.AgentPID(), syscall.SIGCONT)
	}
	signal(MysqldPID(i), syscall.SIGCONT)
}
