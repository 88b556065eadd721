package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porpoise-dev/porpoise/internal/release/image"
)

// run runs the command with a folder that lists two images.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out := t.TempDir()
	manifest := image.Manifest{}
	manifest.Put(image.Built{Name: image.NameOperator, Ref: "porpoise.dev/porpoise-operator:dev-1", Version: "v1", Dir: "/images/operator"})
	manifest.Put(image.Built{Name: image.NameMySQL, Ref: "porpoise.dev/mysql:9.7.4", Version: "9.7.4", Dir: "/images/mysql", Pushed: "registry/mysql@sha256:1"})
	if err := manifest.Write(filepath.Join(out, "images.json")); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	root := rootCommand()
	root.SetOut(&stdout)
	root.SetErr(&stdout)
	root.SetArgs(append(args, "--out", out))
	err := root.ExecuteContext(t.Context())
	return stdout.String(), err
}

func TestList(t *testing.T) {
	for args, want := range map[string]string{
		"list -o ref":                      "registry/mysql@sha256:1\nporpoise.dev/porpoise-operator:dev-1\n",
		"list -o archive":                  "/images/mysql/image.tar\n/images/operator/image.tar\n",
		"list --only mysql -o version":     "9.7.4\n",
		"list --only operator -o ref":      "porpoise.dev/porpoise-operator:dev-1\n",
		"list --only operator -o archive ": "/images/operator/image.tar\n",
	} {
		got, err := run(t, strings.Fields(args)...)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", args, got, err, want)
		}
	}
}

func TestManifestsNameTheBuiltImages(t *testing.T) {
	got, err := run(t, "manifests", "--root", "../..")
	if err != nil || !strings.Contains(got, "image: porpoise.dev/porpoise-operator:dev-1\n") || !strings.Contains(got, `"9.7": registry/mysql@sha256:1`) {
		t.Errorf("error %v, manifests\n%s", err, got)
	}
}

func TestBadArguments(t *testing.T) {
	for args, want := range map[string]string{
		"list -o yaml":             "want table, json, ref, archive or version",
		"list extra":               "unknown command",
		"push":                     `"registry" not set`,
		"operator --bin /nonesuch": "make build",
		"operator --arch sparc":    "make build",
		"push --registry UPPER!":   "want host[:port]",
	} {
		if _, err := run(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
	if _, err := run(t, "list", "--only", "other"); !errors.Is(err, image.ErrNotBuilt) {
		t.Errorf("list --only other: error %v, want ErrNotBuilt", err)
	}
}
