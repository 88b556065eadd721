package main

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// apiServer notes by which connections it is reached.
type apiServer struct {
	*httptest.Server
	mu sync.Mutex
	// by is the connections by user agent.
	by map[string]map[string]bool
	// silent: the next request is not answered.
	silent bool
	protos map[string]string
}

func newAPIServer(t *testing.T) (*apiServer, *rest.Config) {
	t.Helper()
	s := &apiServer{by: map[string]map[string]bool{}, protos: map[string]string{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return s, &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	who := req.URL.Query().Get("who")
	if who == "" {
		who = "lease"
	}
	if s.by[who] == nil {
		s.by[who] = map[string]bool{}
	}
	s.by[who][req.RemoteAddr] = true
	s.protos[who] = req.Proto
	silent := s.silent
	s.silent = false
	s.mu.Unlock()
	if silent {
		<-req.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"porpoise-topology"},"spec":{"holderIdentity":"x"}}`))
}

func (s *apiServer) connections(who string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for c := range s.by[who] {
		out[c] = true
	}
	return out
}

// A renewal has a connection of its own.
func TestTheLeasesConnection(t *testing.T) {
	server, config := newAPIServer(t)
	l := lane{name: "topology", lease: "porpoise-topology", deadline: time.Minute}
	lock, err := options{leaderNamespace: "porpoise-system"}.newLock(config, l)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(l.clientConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	work := func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/?who=work", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	for range 3 {
		work()
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := server.connections("lease")
	if len(first) != 1 {
		t.Errorf("three reads of the Lease took %d connections, want 1", len(first))
	}
	for c := range server.connections("work") {
		if first[c] {
			t.Error("the Lease shares a connection with the lane's work")
		}
	}
	if got := server.protos["lease"]; got != "HTTP/1.1" {
		t.Errorf("the Lease is renewed by %s", got)
	}
}

// After a request that was not answered in time another connection is dialled.
func TestTheLeaseLeavesASilentConnection(t *testing.T) {
	server, config := newAPIServer(t)
	l := lane{name: "topology", lease: "porpoise-topology", deadline: 2 * time.Second}
	lock, err := options{leaderNamespace: "porpoise-system"}.newLock(config, l)
	if err != nil {
		t.Fatal(err)
	}
	answered := func() {
		t.Helper()
		// On a busy machine an answer may take longer than a renewal waits.
		for limit := time.Now().Add(2 * time.Minute); ; {
			_, _, err := lock.Get(t.Context())
			if err == nil {
				return
			}
			if time.Now().After(limit) {
				t.Fatal(err)
			}
		}
	}
	answered()
	before := server.connections("lease")

	server.mu.Lock()
	server.silent = true
	server.mu.Unlock()
	began := time.Now()
	if _, _, err := lock.Get(t.Context()); err == nil {
		t.Fatal("no error without an answer")
	}
	if waited := time.Since(began); waited < l.deadline/2 {
		t.Errorf("gave up after %s, which a slow answer may take", waited)
	}
	answered()
	if now := server.connections("lease"); len(now) <= len(before) {
		t.Errorf("after a request without an answer the Lease used the connections %v, before it %v; want another one", now, before)
	}
}

// Two managers are two candidates, also on one host.
func TestCandidatesDiffer(t *testing.T) {
	o, config := options{leaderNamespace: "porpoise-system"}, &rest.Config{Host: net.JoinHostPort("127.0.0.1", "1")}
	l := lane{lease: "porpoise-topology", deadline: time.Second}
	a, errA := o.newLock(config, l)
	b, errB := o.newLock(config, l)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.Identity() == b.Identity() || a.Describe() != "porpoise-system/porpoise-topology" {
		t.Errorf("%s and %s on %s", a.Identity(), b.Identity(), a.Describe())
	}
}
