//go:build e2e

package registry

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/porpoise-dev/porpoise/internal/pki"
)

// Repositories below public are pulled without login. Pushing, and everything elsewhere, needs one.
const (
	public  = "public"
	private = "private"
)

// server is a registry with TLS that remembers what others than this machine have pulled.
type server struct {
	// host is ADDRESS:PORT.
	host string
	// authorityFile is the certificate to verify it by, dockerConfig a folder with the login for it.
	authorityFile, dockerConfig string

	password string
	images   http.Handler
	http     *httptest.Server

	mu sync.Mutex
	// resolved are repository and digest of manifests that a node asked for; pulled the digests of what it took.
	resolved, pulled map[string]bool
}

const user = "porpoise"

// serve starts a registry on an address of this machine and keeps its files in dir.
func serve(ctx context.Context, address, dir string) (*server, error) {
	blobs := filepath.Join(dir, "blobs")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for the registry: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the registry: %w", err)
	}
	s := &server{
		host: listener.Addr().String(), password: rand.Text(), resolved: map[string]bool{}, pulled: map[string]bool{},
		authorityFile: filepath.Join(dir, "ca.crt"), dockerConfig: filepath.Join(dir, "docker"),
		images: registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)), registry.Logger(log.New(io.Discard, "", 0))),
	}
	certificate, err := s.certify(net.ParseIP(address))
	if err == nil {
		err = s.writeDockerConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the registry: %w", joinClose(err, listener))
	}
	s.http = &httptest.Server{Listener: listener, TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
		Config: &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}}
	s.http.StartTLS()
	return s, nil
}

func (s *server) certify(address net.IP) (tls.Certificate, error) {
	authority, err := pki.NewAuthority("registry of a test", time.Now())
	if err != nil {
		return tls.Certificate{}, err
	}
	own, err := authority.Encode()
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := os.WriteFile(s.authorityFile, own.Certificate, 0o644); err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := authority.Issue(pki.Leaf{CommonName: "registry", IPs: []net.IP{address}, Server: true}, time.Now())
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(leaf.Certificate, leaf.Key)
}

// login is what docker login writes to config.json, and what a pull secret holds.
func (s *server) login() ([]byte, error) {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + s.password))
	return json.Marshal(map[string]any{"auths": map[string]any{s.host: map[string]string{"auth": auth}}})
}

func (s *server) writeDockerConfig() error {
	text, err := s.login()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dockerConfig, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dockerConfig, "config.json"), text, 0o600)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry of a test"`)
		http.Error(w, "log in first", http.StatusUnauthorized)
		return
	}
	s.remember(r)
	s.images.ServeHTTP(w, r)
}

func (s *server) allowed(r *http.Request) bool {
	if name, password, ok := r.BasicAuth(); ok {
		return name == user && password == s.password
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	return reads && strings.HasPrefix(r.URL.Path, "/v2/"+public+"/")
}

// remember notes what is asked for from another address than that of the registry, which this machine has too.
func (s *server) remember(r *http.Request) {
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	own, _, _ := net.SplitHostPort(s.host)
	if from == own {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	repository, digest, isManifest := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	if isManifest {
		s.resolved[repository+"@"+digest] = true
	}
	if r.Method == http.MethodGet {
		s.pulled[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]] = true
	}
}

// wasResolved says whether a node has asked for a reference by digest, HOST/REPOSITORY@DIGEST.
func (s *server) wasResolved(reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resolved[strings.TrimPrefix(reference, s.host+"/")]
}

// wasPulled says whether a node has taken the manifest or blob of a digest, from whichever repository.
func (s *server) wasPulled(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulled[digest]
}
