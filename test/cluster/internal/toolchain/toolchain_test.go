package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVersionIsThatOfTheModule(t *testing.T) {
	source, err := SourceDir()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "k8s.io/kubernetes " + KubernetesVersion + "\n"; !strings.Contains(string(data), want) {
		t.Errorf("kube/go.mod lacks %q: the API server would report a version that it is not", want)
	}
	staging := "v0" + strings.TrimPrefix(KubernetesVersion, "v1")
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "=>") && !strings.HasSuffix(strings.TrimSpace(line), " "+staging) {
			t.Errorf("kube/go.mod: %q is not at %s", strings.TrimSpace(line), staging)
		}
	}
	if !strings.Contains(linkerFlags(), "gitVersion="+KubernetesVersion) {
		t.Errorf("linker flags %q", linkerFlags())
	}
}

func TestKeyFollowsEverySource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	get := func(extra ...string) string {
		t.Helper()
		k, err := key(dir, extra...)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write("main.go", "package main")
	first := get("go1.26.0")
	if first != get("go1.26.0") {
		t.Error("the key changes without a change")
	}
	if first == get("go1.26.1") {
		t.Error("the key does not depend on the compiler")
	}
	write("main_test.go", "package main")
	if first != get("go1.26.0") {
		t.Error("a test changes the key and would cost a link")
	}
	write("go.sum", "x")
	if first == get("go1.26.0") {
		t.Error("the key does not depend on go.sum")
	}
}

func TestMissingPackages(t *testing.T) {
	got := missingPackages(func(path string) bool { return path != "/usr/bin/ctr" && path != "/usr/bin/containerd" })
	if !slices.Equal(got, []string{"containerd"}) {
		t.Errorf("missing %q; want containerd once", got)
	}
	if got := missingPackages(func(string) bool { return true }); len(got) != 0 {
		t.Errorf("missing %q; want nothing", got)
	}
}

func TestCacheRoot(t *testing.T) {
	t.Setenv("PORPOISE_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	if got, err := CacheRoot(); got != "/xdg/porpoise" || err != nil {
		t.Errorf("CacheRoot = %q, %v", got, err)
	}
	t.Setenv("PORPOISE_CACHE", "/mine")
	if got, err := CacheRoot(); got != "/mine" || err != nil {
		t.Errorf("CacheRoot = %q, %v", got, err)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("1\n2\n3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := Tail(path, 2); got != "    2\n    3" {
		t.Errorf("Tail = %q", got)
	}
}

func TestRemoveUnusedKeepsWhatIsInUseAndWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{"v1.0-old": 48 * time.Hour, "v1.0-new": time.Hour, ".lock": 48 * time.Hour} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeUnused(dir, now.Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != ".lock" || filepath.Base(left[1]) != "v1.0-new" {
		t.Errorf("left: %v, %v; want .lock and v1.0-new", left, err)
	}
}
