package toolchain

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/images"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
	"github.com/porpoise-dev/porpoise/test/cluster/internal/render"
)

// Applets are the names under which the multi-call program is linked.
var applets = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"}

// compilerFlags leave out debug information, which the linker would drop anyway; see README.md for what this saves.
const compilerFlags = "all=-dwarf=false"

// imageFormat stands for how package images makes archives: change it with the code, or old archives stay in the cache.
const imageFormat = "docker archive, uncompressed layer"

// keepUnused is how long programs of other versions stay in the cache. A cluster that has run as long without `up` loses its programs'
// files and cannot be repaired any more, only made anew.
const keepUnused = 30 * 24 * time.Hour

// Binaries is a complete directory of the cache.
type Binaries struct{ Dir string }

// BinDir holds the programs: etcd, kube-apiserver, kubectl, node, provisioner, ….
func (b Binaries) BinDir() string { return filepath.Join(b.Dir, "bin") }

// Program is the path of one program.
func (b Binaries) Program(name string) string { return filepath.Join(b.BinDir(), name) }

// Images lists the archives to import into every node.
func (b Binaries) Images() []string {
	return []string{filepath.Join(b.Dir, "pause.tar"), filepath.Join(b.Dir, "coredns.tar")}
}

// Ensure returns the cached programs, or builds them: about a quarter of an hour of processor time the first time.
func Ensure(ctx context.Context, report *progress.Reporter) (Binaries, error) {
	source, err := SourceDir()
	if err != nil {
		return Binaries{}, err
	}
	compiler, err := compilerVersion(ctx, source)
	if err != nil {
		return Binaries{}, err
	}
	name, err := key(source, compiler, compilerFlags, linkerFlags(), render.CoreDNSVersion, imageFormat)
	if err != nil {
		return Binaries{}, err
	}
	root, err := CacheRoot()
	if err != nil {
		return Binaries{}, err
	}
	parent := filepath.Join(root, "cluster")
	binaries := Binaries{Dir: filepath.Join(parent, name)}
	if isDir(binaries.Dir) {
		_ = os.Chtimes(binaries.Dir, time.Time{}, time.Now()) // in use; a read-only cache of another user is fine too
		return binaries, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Binaries{}, fmt.Errorf("make cache directory: %w", err)
	}
	unlock, err := lock(filepath.Join(parent, ".lock"), report)
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if isDir(binaries.Dir) { // another process built it while this one waited
		return binaries, nil
	}
	if err := build(ctx, source, binaries.Dir, report); err != nil {
		return Binaries{}, err
	}
	return binaries, removeUnused(parent, time.Now().Add(-keepUnused))
}

func build(ctx context.Context, source, target string, report *progress.Reporter) error {
	work := target + ".building"
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("clear build directory: %w", err)
	}
	bin := filepath.Join(work, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("make build directory: %w", err)
	}
	logFile := target + ".log"
	report.Printf("building Kubernetes %s, etcd and CoreDNS %s from their modules; cold, this takes about 15 minutes of processor time (log: %s)",
		KubernetesVersion, render.CoreDNSVersion, logFile)
	if err := compile(ctx, source, bin, logFile, report); err != nil {
		return err
	}
	for _, applet := range applets {
		if err := os.Symlink("kube", filepath.Join(bin, applet)); err != nil {
			return fmt.Errorf("link %s: %w", applet, err)
		}
	}
	for archive, image := range map[string]string{"pause": render.PauseImage, "coredns": render.CoreDNSImage} {
		if err := images.Write(filepath.Join(work, archive+".tar"), image, filepath.Join(bin, archive)); err != nil {
			return err
		}
	}
	if err := os.Rename(work, target); err != nil {
		return fmt.Errorf("put build in place: %w", err)
	}
	report.Printf("built into %s", target)
	return nil
}

func compile(ctx context.Context, source, bin, logFile string, report *progress.Reporter) error {
	log, err := os.Create(logFile)
	if err != nil {
		return fmt.Errorf("create build log: %w", err)
	}
	defer log.Close()
	total := countPackages(ctx, source)
	cmd := exec.CommandContext(ctx, "nice", "-n", "5", "go", "build", "-v", "-trimpath", "-buildvcs=false",
		"-gcflags", compilerFlags, "-ldflags", linkerFlags(), "-o", bin+"/", "./cmd/...")
	cmd.Dir = source
	cmd.Env = buildEnvironment()
	cmd.Stdout = log
	output, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	follow(output, log, total, report)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("build of %s failed: %w\n%s\nwhole log: %s", source, err, Tail(logFile, 20), logFile)
	}
	return nil
}

// follow copies the names of compiled packages to the log and prints how far the build is.
func follow(output io.Reader, log io.Writer, total int, report *progress.Reporter) {
	lines := bufio.NewScanner(output)
	compiled, last := 0, time.Now()
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		compiled++
		if time.Since(last) > 15*time.Second {
			last = time.Now()
			report.Printf("compiled %d of at most %d packages, now %s", compiled, total, lines.Text())
		}
	}
}

func countPackages(ctx context.Context, source string) int {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "./cmd/...")
	cmd.Dir, cmd.Env = source, buildEnvironment()
	output, err := cmd.Output()
	if err != nil {
		return 0 // only a figure for the eye; the build itself will tell what is wrong
	}
	return strings.Count(string(output), "\n")
}

// buildEnvironment: without cgo the result is static, and the compiler may use memory instead of collecting it.
func buildEnvironment() []string {
	env := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if os.Getenv("GOGC") == "" {
		env = append(env, "GOGC=400")
	}
	return env
}

func linkerFlags() string {
	const pkg = "k8s.io/component-base/version."
	number := strings.SplitN(strings.TrimPrefix(KubernetesVersion, "v"), ".", 3)
	return strings.Join([]string{"-s -w",
		"-X " + pkg + "gitVersion=" + KubernetesVersion,
		"-X " + pkg + "gitMajor=" + number[0],
		"-X " + pkg + "gitMinor=" + number[1],
	}, " ")
}

func compilerVersion(ctx context.Context, source string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH")
	cmd.Dir = source
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask go for its version (is it on PATH?): %w", err)
	}
	return string(output), nil
}

// removeUnused removes builds, whole or interrupted, and logs that nothing has touched since the given time.
func removeUnused(parent string, since time.Time) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("look for unused builds: %w", err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !strings.HasPrefix(entry.Name(), "v") || !info.ModTime().Before(since) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(parent, entry.Name())); err != nil {
			return fmt.Errorf("remove unused build: %w", err)
		}
	}
	return nil
}

func lock(path string, report *progress.Reporter) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		report.Printf("waiting for another build of the same programs")
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
	return func() { f.Close() }, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Tail returns the last lines of a log, indented.
func Tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "    (" + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "    " + strings.Join(all, "\n    ")
}
