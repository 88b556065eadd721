package env

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runner runs programs of the work tree and keeps what they print in a log.
type runner struct {
	root   string
	logDir string
}

// run executes a program in the root of the work tree and returns its standard output. What it prints, on both
// channels, goes to LOGDIR/NAME.log and, line by line, to the step. A failure names the log and quotes its end.
func (r runner) run(ctx context.Context, step *Step, name string, program ...string) (string, error) {
	if err := os.MkdirAll(r.logDir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for logs: %w", err)
	}
	path := filepath.Join(r.logDir, name+".log")
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("make the log of %s: %w", name, err)
	}
	defer func() { _ = file.Close() }()
	log := &progressLog{file: file, step: step}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.Dir = r.root
	cmd.Stdout = writers{&stdout, log}
	cmd.Stderr = log
	// An interrupt lets the program clean up before it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n  its last lines:\n%s\n  log: %s", strings.Join(program, " "), err, log.tail(), path)
	}
	return strings.TrimSpace(stdout.String()), nil
}

type writers []interface{ Write([]byte) (int, error) }

func (w writers) Write(p []byte) (int, error) {
	for _, one := range w {
		if n, err := one.Write(p); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// tailLines is how much of a failed program's log is quoted.
const tailLines = 8

// progressLog writes to a file and shows the last line as the state of a step.
type progressLog struct {
	mu   sync.Mutex
	file *os.File
	step *Step
	rest []byte
	last []string
}

func (l *progressLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		advance, line, _ := bufio.ScanLines(l.rest, false)
		if advance == 0 {
			break
		}
		if text := strings.TrimSpace(string(line)); text != "" {
			l.last = append(l.last, text)
			l.last = l.last[max(0, len(l.last)-tailLines):]
			if l.step != nil {
				l.step.Update(text)
			}
		}
		l.rest = l.rest[advance:]
	}
	return l.file.Write(p)
}

func (l *progressLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "    " + strings.Join(l.last, "\n    ")
}
