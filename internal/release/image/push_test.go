package image

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
)

const registryUser, registryPassword = "porpoise", "not a secret"

// newRegistry starts a registry that needs a login for everything, and returns its host.
func newRegistry(t *testing.T) (host string, images http.Handler) {
	t.Helper()
	images = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != registryUser || password != registryPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), images
}

// logIn makes a docker configuration with a login, and makes it the user's.
func logIn(t *testing.T, host, password string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": registryUser, "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func builtImage(t *testing.T) Built {
	t.Helper()
	img, err := random.Image(512, 2)
	if err != nil {
		t.Fatal(err)
	}
	built, err := SaveOperator(t.TempDir(), img, "dev", "v1")
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestPushSendsEveryTagWithTheLoginOfTheDockerConfiguration(t *testing.T) {
	host, images := newRegistry(t)
	logIn(t, host, registryPassword)
	built := builtImage(t)
	for range 2 { // What is there already is no error.
		got, err := Push(t.Context(), built, PushOptions{Registry: host + "/team/"})
		if want := host + "/team/porpoise-operator@" + built.Digest; err != nil || got != want {
			t.Fatalf("pushed as %q, %v; want %s", got, err, want)
		}
	}
	for _, tag := range []string{"dev", built.Ref[strings.LastIndex(built.Ref, ":")+1:], built.Digest} {
		answer := httptest.NewRecorder()
		images.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v2/team/porpoise-operator/manifests/"+tag, nil))
		if digest := answer.Header().Get("Docker-Content-Digest"); answer.Code != http.StatusOK || digest != built.Digest {
			t.Errorf("tag %s: status %d, digest %q; want %s", tag, answer.Code, digest, built.Digest)
		}
	}
}

func TestPushFailuresNameTheRegistryAndNoPassword(t *testing.T) {
	host, _ := newRegistry(t)
	built := builtImage(t)
	for name, test := range map[string]struct{ registry, password, want string }{
		"wrong password": {host + "/team", "wrong password", "push " + host + "/team/porpoise-operator:dev"},
		"not a registry": {"https://" + host, registryPassword, "want host[:port][/path]"},
		"nobody listens": {"127.0.0.1:1/team", registryPassword, "push 127.0.0.1:1/team/porpoise-operator:dev"},
	} {
		t.Run(name, func(t *testing.T) {
			logIn(t, host, test.password)
			_, err := Push(t.Context(), built, PushOptions{Registry: test.registry})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), test.password) {
				t.Errorf("error %v; want one with %q and no password", err, test.want)
			}
		})
	}
}
