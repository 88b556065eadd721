package image

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// ensureMmdebstrap installs Debian's bootstrapping tool where it is missing and that is possible.
func ensureMmdebstrap(ctx context.Context, progress *Progress) error {
	if _, err := exec.LookPath("mmdebstrap"); err == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("mmdebstrap is not installed; install it with: sudo apt-get install mmdebstrap")
	}
	progress.Printf("installing mmdebstrap")
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "mmdebstrap"}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install mmdebstrap: apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// mmdebstrapCommand prepares a run that writes the root file system as tar to its standard output and
// its messages to the returned log.
func mmdebstrapCommand(ctx context.Context, spec MySQLSpec, mirror AptSource, logPath string, progress *Progress) (*exec.Cmd, *stepLog, error) {
	log, err := newStepLog(logPath, progress)
	if err != nil {
		return nil, nil, err
	}
	args := []string{
		"--variant=minbase", "--format=tar", "--architectures=" + spec.Arch,
		"--include=" + strings.Join(spec.Packages, ","),
		// A mirror's index of sid may be older than its validity, and the clock of a build machine wrong.
		`--aptopt=Acquire::Check-Valid-Until "false"`, `--aptopt=Acquire::Check-Date "false"`,
		// A root file system that is thrown away after a crash needs no fsync for each file.
		"--dpkgopt=force-unsafe-io",
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
	}
	if proxy := aptProxy(ctx); proxy != "" {
		args = append(args, fmt.Sprintf("--aptopt=Acquire::http::Proxy %q", proxy))
	}
	args = append(args, spec.Suite, "-", fmt.Sprintf("deb [signed-by=%s] %s %s main", mirror.SignedBy, mirror.URI, spec.Suite))
	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1", "LC_ALL=C")
	cmd.Stderr = log
	return cmd, log, nil
}

// aptProxy is the proxy which the machine's apt uses: mmdebstrap reads only the new root's settings.
func aptProxy(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "apt-config", "shell", "PROXY", "Acquire::http::Proxy").Output()
	if err != nil {
		return "" // A machine without apt-config has no such setting either.
	}
	value, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "PROXY=")
	if !ok {
		return ""
	}
	return strings.Trim(value, `'"`)
}

// stepLog writes a command's messages to a file, reports its steps, and keeps the last line for
// error messages.
type stepLog struct {
	file *os.File
	pipe *io.PipeWriter
	done sync.WaitGroup

	mu   sync.Mutex
	last string
}

func newStepLog(path string, progress *Progress) (*stepLog, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	reader, writer := io.Pipe()
	log := &stepLog{file: file, pipe: writer}
	log.done.Go(func() {
		lines := bufio.NewScanner(reader)
		for lines.Scan() {
			log.add(lines.Text(), progress)
		}
		_, _ = io.Copy(io.Discard, reader) // A line too long to scan must not block the command.
	})
	return log, nil
}

func (l *stepLog) add(line string, progress *Progress) {
	_, _ = fmt.Fprintln(l.file, line)
	if strings.TrimSpace(line) == "" {
		return
	}
	l.mu.Lock()
	l.last = line
	l.mu.Unlock()
	if step, ok := strings.CutPrefix(line, "I: "); ok {
		progress.Printf("mmdebstrap: %s", step)
	}
}

func (l *stepLog) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Write takes what the command prints.
func (l *stepLog) Write(p []byte) (int, error) { return l.pipe.Write(p) }

// Close waits until everything is in the file.
func (l *stepLog) Close() error {
	_ = l.pipe.Close()
	l.done.Wait()
	return l.file.Close()
}
