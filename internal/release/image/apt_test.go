package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeApt makes an apt folder of files given by their path.
func writeApt(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDebianMirror(t *testing.T) {
	const inlineKey = `Types: deb
URIs: http://mirror.example.org/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 /notapath
 -----END PGP PUBLIC KEY BLOCK-----
`
	tests := map[string]struct {
		files map[string]string
		want  AptSource
	}{
		"deb822 with comments, several suites, security first": {
			files: map[string]string{"sources.list.d/debian.sources": `# a comment
Types: deb deb-src
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: /keys/security.gpg

Types: deb
# snapshot
URIs: http://mirror.example.org/debian
Suites: bookworm-updates bookworm
Components: main contrib
Signed-By: /keys/debian.gpg
`},
			want: AptSource{URI: "http://mirror.example.org/debian", Suite: "bookworm", Components: []string{"main", "contrib"}, SignedBy: "/keys/debian.gpg"},
		},
		"one line with options": {
			files: map[string]string{"sources.list": `
# deb http://old.example.org/debian bookworm main
deb-src http://src.example.org/debian bookworm main
deb [arch=amd64 signed-by=/keys/a.gpg,/keys/b.gpg] https://deb.example.org/debian/ bookworm main # why
`},
			want: AptSource{URI: "https://deb.example.org/debian/", Suite: "bookworm", Components: []string{"main"}, SignedBy: "/keys/a.gpg"},
		},
		"no keyring named": {
			files: map[string]string{"sources.list": "deb http://debian.example.org/pub trixie main\n"},
			want:  AptSource{URI: "http://debian.example.org/pub", Suite: "trixie", Components: []string{"main"}, SignedBy: defaultKeyring},
		},
		"a key inside the file": {
			files: map[string]string{"sources.list.d/debian.sources": inlineKey},
			want:  AptSource{URI: "http://mirror.example.org/debian", Suite: "bookworm", Components: []string{"main"}, SignedBy: defaultKeyring},
		},
		"other vendors and disabled sources are passed over": {
			files: map[string]string{
				"sources.list.d/a.list":             "deb https://vendor.example.org/apt stable main\n",
				"sources.list.d/b.sources":          "Enabled: no\nTypes: deb\nURIs: http://off.example.org/debian\nSuites: bookworm\nComponents: main\n",
				"sources.list.d/c.sources":          "Types: deb\nURIs: http://on.example.org/debian\nSuites: bookworm\nComponents: main\n",
				"sources.list.d/d.sources.disabled": "Types: deb\nURIs: http://never.example.org/debian\nSuites: bookworm\nComponents: main\n",
			},
			want: AptSource{URI: "http://on.example.org/debian", Suite: "bookworm", Components: []string{"main"}, SignedBy: defaultKeyring},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DebianMirror(writeApt(t, tt.files))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("mirror (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDebianMirrorMissing(t *testing.T) {
	dir := writeApt(t, map[string]string{"sources.list": "deb https://vendor.example.org/apt stable main\n"})
	_, err := DebianMirror(dir)
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v: want one that names %s", err, dir)
	}
}
