package agentclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/agentclient"
	"github.com/porpoise-dev/porpoise/internal/leadership"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/pki"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
)

var key = types.NamespacedName{Namespace: "shop", Name: "orders"}

// serve runs an HTTPS server that shows orders-0's certificate, and returns a pool with a stream to it.
func serve(t *testing.T, handler http.HandlerFunc) *agentclient.Pool {
	t.Helper()
	return serveAs(t, "orders-0", handler)
}

// serveAs is serve with another instance's certificate at the address that is thought to be orders-0's.
func serveAs(t *testing.T, instance string, handler http.HandlerFunc) *agentclient.Pool {
	t.Helper()
	authority, err := pki.NewAuthority("orders", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := authority.Encode()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(leaf pki.Leaf) pki.KeyPair {
		pair, err := authority.Issue(leaf, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	leaf, manager := issue(pki.InstanceLeaf("orders", "shop", instance)), issue(pki.ManagerLeaf())
	pair, err := tls.X509KeyPair(leaf.Certificate, leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca.Certificate)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	credentials, err := agentclient.ParseCredentials("1", map[string][]byte{
		naming.FileTLSCert: manager.Certificate, naming.FileTLSKey: manager.Key, naming.FileCA: ca.Certificate,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); server.CloseClientConnections(); server.Close() })
	pool := agentclient.NewPool(ctx, func(types.NamespacedName, agentclient.Kind) {})
	pool.Ensure(key, credentials, []agentclient.Target{{
		Instance: "orders-0", Address: server.Listener.Addr().String(), ServerName: naming.Host("orders", "shop", "orders-0"),
	}})
	return pool
}

func eventually(t *testing.T, what string, claim func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !claim() {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestHostileStreams: whatever an agent sends, the instance is unknown, the reason is told, and nothing grows.
func TestHostileStreams(t *testing.T) {
	for name, test := range map[string]struct {
		body, want string
	}{
		"garbage":        {"{]\n", "invalid character"},
		"other instance": {`{"instance":"orders-1"}` + "\n", "is of instance"},
		"oversized":      {`{"instance":"` + strings.Repeat("x", 2<<20) + `"}` + "\n", "token too long"},
		"bad gtid":       {`{"instance":"orders-0","server":{"gtidExecuted":"nonsense"}}` + "\n", "orders-0"},
		"ends":           {"", "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := serve(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(rw, test.body) })
			eventually(t, test.want, func() bool {
				obs := pool.Observe(key)["orders-0"]
				if obs.Status != nil {
					t.Fatalf("believed %+v", obs.Status)
				}
				return obs.Err != nil && strings.Contains(obs.Err.Error(), test.want)
			})
		})
	}
}

// TestSilenceIsUnknown: a stream that stays open and says nothing makes the instance unknown again.
func TestSilenceIsUnknown(t *testing.T) {
	pool := serve(t, func(rw http.ResponseWriter, req *http.Request) {
		_, _ = fmt.Fprintln(rw, `{"instance":"orders-0","sequence":1}`)
		_ = http.NewResponseController(rw).Flush()
		<-req.Context().Done()
	})
	eventually(t, "heard", func() bool { return pool.Observe(key)["orders-0"].Status != nil })
	eventually(t, "unknown", func() bool {
		obs := pool.Observe(key)["orders-0"]
		return obs.Status == nil && obs.Err != nil && strings.Contains(obs.Err.Error(), "silent")
	})
}

// TestSampleExpires: an answer to a request makes an instance known while its stream is down, and no longer than silence may
// last.
func TestSampleExpires(t *testing.T) {
	pool := serve(t, func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == agentapi.PathStream {
			<-req.Context().Done() // Accepted, and never answered.
			return
		}
		_, _ = fmt.Fprintln(rw, `{"instance":"orders-0","sequence":1}`)
	})
	eventually(t, "a sample", func() bool { return pool.Sample(t.Context(), key, "orders-0") == nil })
	known := time.Now()
	if pool.Observe(key)["orders-0"].Status == nil {
		t.Fatal("the sample was not taken in")
	}
	eventually(t, "unknown", func() bool { return pool.Observe(key)["orders-0"].Status == nil })
	if took := time.Since(known); took < agentclient.StaleAfter-100*time.Millisecond {
		t.Errorf("unknown after %s already", took)
	}
}

// TestEarlierLifeIsNotBelieved: a late answer of an agent that has ended does not replace what its successor told.
func TestEarlierLifeIsNotBelieved(t *testing.T) {
	now := time.Now()
	later := &agentapi.Status{Instance: "orders-0", AgentStart: now, Sequence: 1}
	earlier := &agentapi.Status{Instance: "orders-0", AgentStart: now.Add(-time.Minute), Sequence: 900}
	first, _, _ := agentclient.Observation{}.With(later, time.Time{}, now)
	if got, _, newer := first.With(earlier, now, now); newer || got.Status != later {
		t.Errorf("believed %+v", got.Status)
	}
	if _, _, newer := (agentclient.Observation{Status: earlier}).With(later, time.Time{}, now); !newer {
		t.Error("the successor is not believed")
	}
}

func TestRefusalIsTyped(t *testing.T) {
	pool := serve(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprint(rw, `{"code":"StaleEpoch","message":"7 is known"}`)
	})
	// On a busy machine even connecting may take longer than the client waits.
	eventually(t, "refused with its code", func() bool {
		err := pool.Command(t.Context(), key, "orders-0", agentapi.Command{Type: agentapi.CommandPromote})
		if err == nil {
			t.Fatal("no refusal")
		}
		var refusal *agentapi.Error
		return errors.As(err, &refusal) && strings.Contains(err.Error(), "Promote on orders-0: StaleEpoch: 7 is known")
	})
}

// TestWrongCertificate: an address that now belongs to another instance's pod is not believed.
func TestWrongCertificate(t *testing.T) {
	pool := serveAs(t, "orders-1", func(http.ResponseWriter, *http.Request) {
		t.Error("a request was sent to another instance's agent")
	})
	eventually(t, "refused", func() bool {
		obs := pool.Observe(key)["orders-0"]
		return obs.Status == nil && obs.Err != nil && strings.Contains(obs.Err.Error(), "certificate")
	})
}

// TestProgressIsNoEvent: sets of transactions, lag and numbering alone are Progress; anything else is an Event.
func TestProgressIsNoEvent(t *testing.T) {
	world := fakeagent.NewWorld("shop", "orders")
	world.Add("orders-0")
	cmd := agentapi.Command{ClusterID: "c", Epoch: 1, OperationID: "x", Type: agentapi.CommandInitialize}
	document := func() *agentapi.Status {
		st, err := world.Status("orders-0")
		if err != nil {
			t.Fatal(err)
		}
		return &st
	}
	if err := world.Do("orders-0", cmd); err != nil {
		t.Fatal(err)
	}
	cmd.Type, cmd.Quorum = agentapi.CommandPromote, &agentapi.Quorum{Generation: 1}
	if err := world.Do("orders-0", cmd); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	first, kind, _ := agentclient.Observation{}.With(document(), time.Time{}, now)
	if kind != agentclient.Event {
		t.Errorf("the first document is %v, want Event", kind)
	}
	held, kind, _ := first.With(document(), now, now.Add(time.Second))
	if kind != agentclient.Progress || !held.ExecutedSince.Equal(now) || !held.SampledAfter.Equal(now) {
		t.Errorf("second document: %v %+v", kind, held)
	}
	world.Write("orders-0")
	moved, kind, newer := held.With(document(), time.Time{}, now.Add(2*time.Second))
	if kind != agentclient.Progress || !newer || !moved.SampledAfter.Equal(now) || moved.ExecutedSince.Equal(now) || !moved.ProcessSince.Equal(now) {
		t.Errorf("after a commit: %v %+v", kind, moved)
	}
	if _, _, newer := moved.With(first.Status, time.Time{}, now.Add(3*time.Second)); newer {
		t.Error("an older document replaced a newer one")
	}
	world.Crash("orders-0")
	crashed := document()
	crashed.Process.State = agentapi.ProcessHeld
	held, kind, _ = moved.With(crashed, time.Time{}, now.Add(4*time.Second))
	if kind != agentclient.Event || !held.ProcessSince.Equal(now.Add(4*time.Second)) {
		t.Errorf("after a crash: %v, its process is in this state since %s", kind, held.ProcessSince)
	}
}

// A command that was decided in a term of leading is not sent once the term has ended.
func TestACommandOfAnEndedTerm(t *testing.T) {
	var commands atomic.Int32
	pool := serve(t, func(rw http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			commands.Add(1)
		}
		_ = json.NewEncoder(rw).Encode(agentapi.Status{Instance: "orders-0"})
	})
	gate := leadership.NewGate()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gate.Lead(ctx, time.Minute) }()
	var term context.Context
	guarded := gate.Guard(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		term = ctx
		return reconcile.Result{}, nil
	}))
	eventually(t, "the term begins", func() bool {
		_, err := guarded.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		return err == nil && term != nil
	})
	promote := agentapi.Command{Type: agentapi.CommandPromote}
	if err := pool.Command(term, key, "orders-0", promote); err != nil || commands.Load() != 1 {
		t.Fatalf("in the term: %v, %d commands arrived", err, commands.Load())
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := pool.Command(term, key, "orders-0", promote); !errors.Is(err, leadership.ErrNotLeading) {
		t.Errorf("after the term: %v", err)
	}
	if got := commands.Load(); got != 1 {
		t.Errorf("%d commands arrived, want 1", got)
	}
}
