package toolchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/progress"
)

// packages maps each Debian package to a file it provides. The file is what counts: it may come from elsewhere.
var packages = []struct{ name, file string }{
	{"containerd", "/usr/bin/containerd"},
	{"containerd", "/usr/bin/ctr"},
	{"runc", "/usr/sbin/runc"},
	{"containernetworking-plugins", "/usr/lib/cni/ptp"},
	{"iptables", "/usr/sbin/iptables"},
	{"conntrack", "/usr/sbin/conntrack"},
	{"util-linux", "/usr/bin/nsenter"},
}

// EnsurePackages installs what is missing.
func EnsurePackages(ctx context.Context, report *progress.Reporter) error {
	missing := missingPackages(exists)
	if len(missing) == 0 {
		return nil
	}
	if !exists("/usr/bin/apt-get") {
		return fmt.Errorf("missing programs; install the equivalent of these Debian packages: %s", strings.Join(missing, " "))
	}
	report.Printf("installing %s", strings.Join(missing, " "))
	err := install(ctx, missing)
	if err != nil {
		report.Printf("the package lists seem to be old; updating them")
		if err := apt(ctx, "update", "-q"); err != nil {
			return err
		}
		err = install(ctx, missing)
	}
	if err != nil {
		return err
	}
	if err := stopService(ctx, missing); err != nil {
		return err
	}
	if still := missingPackages(exists); len(still) > 0 {
		return fmt.Errorf("apt-get installed %s, but their programs are not where Debian puts them", strings.Join(still, " "))
	}
	return nil
}

func missingPackages(exists func(string) bool) []string {
	var missing []string
	for _, p := range packages {
		if !exists(p.file) && !slices.Contains(missing, p.name) {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// stopService ends the containerd that Debian starts where systemd runs, if it came with the packages just installed: every node
// runs its own.
func stopService(ctx context.Context, installed []string) error {
	if !slices.Contains(installed, "containerd") || !exists("/run/systemd/system") {
		return nil
	}
	if output, err := exec.CommandContext(ctx, "systemctl", "disable", "--now", "containerd").CombinedOutput(); err != nil {
		return fmt.Errorf("switch off the containerd service: %w\n%s", err, output)
	}
	return nil
}

func install(ctx context.Context, names []string) error {
	// RUNLEVEL=1 keeps Debian's scripts from starting services where there is no systemd.
	return apt(ctx, append([]string{"install", "-y", "-q", "--no-install-recommends"}, names...)...)
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(output.String()))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// RequireRoot refuses to begin what only root can finish.
func RequireRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("a local cluster needs root: it makes namespaces, network links, mounts and cgroups")
	}
	return nil
}
