package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// MySQLSpec says what the MySQL image is made of.
type MySQLSpec struct {
	// Suite is Debian's release, e.g. sid: the only one with MySQL 9.7.
	Suite string
	// Packages are installed beside the essential ones. The first is the one whose version the image has.
	Packages []string
	// Arch is Go's name of the architecture.
	Arch string
	// AptDir is apt's configuration folder, from which the mirror is taken.
	AptDir string
}

// DefaultMySQL is the image which the tests use.
func DefaultMySQL() MySQLSpec {
	return MySQLSpec{
		Suite:    "sid",
		Packages: []string{"mysql-server-core", "mysql-client"},
		Arch:     runtime.GOARCH,
		AptDir:   "/etc/apt",
	}
}

const (
	rootfsName = "rootfs.tar"
	builtName  = "built.json"
)

// key changes with everything that should make a new image, but not with the mirror's state: a
// cached image stays as it is until it is removed.
func (s MySQLSpec) key() string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{slimRecipe, s.Suite, s.Arch}, s.Packages...), "\n")))
	return hex.EncodeToString(sum[:6])
}

func (s MySQLSpec) dir(cache string) string {
	return filepath.Join(cache, "mysql-image", s.Suite+"-"+s.key())
}

// MySQL returns the MySQL image from the cache folder, and builds it when it is not there.
// Building takes about a minute and a half, and needs root or subordinate user ids.
func MySQL(ctx context.Context, spec MySQLSpec, cache string, progress *Progress) (Built, error) {
	dir := spec.dir(cache)
	if built, err := readBuilt(dir); err == nil {
		return built, nil
	}
	unlock, err := lockFile(ctx, dir+".lock", progress)
	if err != nil {
		return Built{}, err
	}
	defer unlock()
	if built, err := readBuilt(dir); err == nil {
		return built, nil
	}
	if err := publishDir(dir, func(tmp string) error { return buildMySQL(ctx, spec, tmp, dir, progress) }); err != nil {
		return Built{}, fmt.Errorf("build the MySQL image: %w", err)
	}
	return readBuilt(dir)
}

func readBuilt(dir string) (Built, error) {
	var b Built
	text, err := os.ReadFile(filepath.Join(dir, builtName))
	if err != nil {
		return b, fmt.Errorf("read the cached image: %w", err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, fmt.Errorf("parse the cached image's description in %s: %w", dir, err)
	}
	b.Dir = dir
	return b, nil
}

// buildMySQL fills tmp, which will become dir.
func buildMySQL(ctx context.Context, spec MySQLSpec, tmp, dir string, progress *Progress) error {
	mirror, err := DebianMirror(spec.AptDir)
	if err != nil {
		return err
	}
	progress.Printf("MySQL image: Debian %s with %s, from this machine's mirror", spec.Suite, strings.Join(spec.Packages, ", "))
	rootfs := filepath.Join(tmp, rootfsName)
	found, err := debootstrap(ctx, spec, mirror, rootfs, dir+".log", progress)
	if err != nil {
		return err
	}
	version, err := found.version(spec.Packages[0])
	if err != nil {
		return err
	}
	progress.Printf("MySQL image: %s %s, %d MiB unpacked; writing the image", spec.Packages[0], version, found.size>>20)
	img, err := mysqlImage(spec, rootfs, version)
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return fmt.Errorf("compute the digest of the MySQL image: %w", err)
	}
	ref := repository + "/mysql:" + version
	if err := writeLayout(tmp, img, []string{ref}); err != nil {
		return err
	}
	progress.Printf("MySQL image: %s ready in %s", ref, dir)
	return writeJSON(filepath.Join(tmp, builtName), Built{
		Name: NameMySQL, Ref: ref, Tags: []string{ref}, Digest: digest.String(), Version: version, Dir: dir,
	})
}

func mysqlImage(spec MySQLSpec, rootfs, version string) (v1.Image, error) {
	layer, err := tarLayer(func() (io.ReadCloser, error) { return os.Open(rootfs) })
	if err != nil {
		return nil, err
	}
	return assemble(spec.Arch, v1.Config{
		User: fmt.Sprintf("%d:%d", runAs, runAs),
		Cmd:  []string{"mysqld"},
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "mysql",
			"org.opencontainers.image.description": "MySQL from Debian, for Porpoise's tests only",
			"org.opencontainers.image.version":     version,
		},
	}, []mutate.Addendum{addendum(layer, "Debian "+spec.Suite+" with "+strings.Join(spec.Packages, ", "))})
}

// debootstrap runs mmdebstrap and writes the slimmed root file system to the file target.
func debootstrap(ctx context.Context, spec MySQLSpec, mirror AptSource, target, logPath string, progress *Progress) (found rootfsFacts, err error) {
	if err := ensureMmdebstrap(ctx, progress); err != nil {
		return found, err
	}
	cmd, log, err := mmdebstrapCommand(ctx, spec, mirror, logPath, progress)
	if err != nil {
		return found, err
	}
	defer func() { _ = log.Close() }()
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return found, fmt.Errorf("connect to mmdebstrap: %w", err)
	}
	out, err := os.Create(target)
	if err != nil {
		return found, fmt.Errorf("create the root file system's archive: %w", err)
	}
	defer func() { _ = out.Close() }()
	progress.Printf("mmdebstrap: %s (log: %s)", "about a minute", logPath)
	if err := cmd.Start(); err != nil {
		return found, fmt.Errorf("start mmdebstrap: %w", err)
	}
	stop := progress.Heartbeat(10*time.Second, func() string { return "mmdebstrap: still running; " + log.lastLine() })
	found, filterErr := slim(stream, out)
	_, _ = io.Copy(io.Discard, stream)
	waitErr := cmd.Wait()
	stop()
	if waitErr != nil {
		return found, fmt.Errorf("run mmdebstrap (log: %s): %w; its last line: %s", logPath, waitErr, log.lastLine())
	}
	if filterErr != nil {
		return found, fmt.Errorf("slim the root file system: %w", filterErr)
	}
	return found, out.Close()
}
