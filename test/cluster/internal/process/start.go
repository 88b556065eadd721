package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/cgroup"
)

// Spec says how to start a program that outlives the command.
type Spec struct {
	Args    []string // Args[0] is the path of the program
	Env     []string // in addition to PATH, HOME and the like of the caller
	LogFile string   // receives stdout and stderr, appended
	PIDFile string   // where the Record goes
	Cgroup  string   // joined before the program can start children
	// Namespaces are CLONE_NEW… flags; 0 means the caller's.
	Namespaces uintptr
}

// Running is a process just started. Release it by closing Go.
type Running struct {
	Record Record
	// Go is the program's stdin. A program that waits for its surroundings reads from it before it begins.
	Go io.WriteCloser
}

// Start runs the program in a session of its own, so that it survives the terminal.
func Start(spec Spec) (Running, error) {
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return Running{}, fmt.Errorf("open log of %s: %w", spec.Args[0], err)
	}
	defer log.Close()
	cmd := exec.Command(spec.Args[0], spec.Args[1:]...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: spec.Namespaces}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return Running{}, fmt.Errorf("make stdin of %s: %w", spec.Args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return Running{}, fmt.Errorf("start %s: %w", spec.Args[0], err)
	}
	go func() { _ = cmd.Wait() }() // or it stays a zombie for as long as this command runs
	running := Running{Go: stdin}
	if running.Record, err = adopt(cmd.Process.Pid, spec); err != nil {
		_ = cmd.Process.Kill()
		return Running{}, fmt.Errorf("start %s: %w", spec.Args[0], err)
	}
	return running, nil
}

func adopt(pid int, spec Spec) (Record, error) {
	if err := cgroup.Join(spec.Cgroup, pid); err != nil {
		return Record{}, err
	}
	record, err := Identify(pid)
	if err != nil {
		return Record{}, fmt.Errorf("it ended at once (log: %s): %w", spec.LogFile, err)
	}
	return record, record.Save(spec.PIDFile)
}
