package portforward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream"      //nolint:staticcheck // client-go still speaks in its types
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // as above
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientportforward "k8s.io/client-go/tools/portforward"
)

// serve is an API server that forwards: it knows SPDY only, as older ones do, so the fallback is tried too. Each pair of
// streams goes to handle.
func serve(t *testing.T, handle func(data, errs httpstream.Stream)) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prefix/api/v1/namespaces/shop/pods/orders-0-0/portforward" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{clientportforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			return
		}
		defer func() { _ = conn.Close() }()
		byType := map[string]httpstream.Stream{}
		for range 2 {
			s := <-streams
			byType[s.Headers().Get(corev1.StreamType)] = s
			if port := s.Headers().Get(corev1.PortHeader); port != "8443" {
				t.Errorf("port %s, want 8443", port)
			}
		}
		handle(byType[corev1.StreamTypeData], byType[corev1.StreamTypeError])
		<-conn.CloseChan()
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL + "/prefix"}
}

func TestBytesGoBothWays(t *testing.T) {
	config := serve(t, func(data, errs httpstream.Stream) {
		line, _ := bufio.NewReader(data).ReadString('\n')
		_, _ = io.WriteString(data, strings.ToUpper(line))
		_ = data.Close()
		_ = errs.Close()
	})
	conn, err := Dial(t.Context(), config, "shop", "orders-0-0", 8443)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "HELLO\n" {
		t.Errorf("answer %q, error %v; want HELLO and the end", answer, err)
	}
	if got := conn.RemoteAddr().String(); got != "orders-0-0:8443" {
		t.Errorf("remote address %s", got)
	}
}

func TestWhatTheNodeSaysIsTheErrorOfTheConnection(t *testing.T) {
	for name, order := range map[string]func(say func(), end func()){
		"the reason comes first": func(say, end func()) { say(); end() },
		// The streams are read by different goroutines, so nothing says which of them a busy machine lets run first.
		"the end of the data comes first": func(say, end func()) { end(); <-time.After(500 * time.Millisecond); say() },
	} {
		t.Run(name, func(t *testing.T) {
			config := serve(t, func(data, errs httpstream.Stream) {
				order(func() {
					_, _ = io.WriteString(errs, "connect: connection refused\n")
					_ = errs.Close()
				}, func() { _ = data.Close() })
			})
			conn, err := Dial(t.Context(), config, "shop", "orders-0-0", 8443)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			const want = "port 8443 of pod orders-0-0: connect: connection refused"
			if _, err = io.ReadAll(conn); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error of reading %v, want what the node said", err)
			}
			if _, err = io.ReadAll(conn); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error of reading again %v, want what the node said", err)
			}
		})
	}
}

// resetStream is a stream that the reason for a refusal has ended.
type resetStream struct{ httpstream.Stream }

func (resetStream) Write([]byte) (int, error) { return 0, errors.New("stream reset") }

// TestWhoWritesFirstLearnsTheReason: TLS writes before it reads.
func TestWhoWritesFirstLearnsTheReason(t *testing.T) {
	c := &conn{data: resetStream{}, remote: address{pod: "orders-0-0", port: 8443}, told: make(chan struct{}), refusal: "connection refused"}
	close(c.told)
	if _, err := c.Write([]byte("hello")); err == nil || !strings.Contains(err.Error(), "port 8443 of pod orders-0-0: connection refused") {
		t.Errorf("error %v, want what the node said", err)
	}
}

func TestARefusalKeepsItsType(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "orders-0-0", errors.New("no right to create pods/portforward"))
		refusal.ErrStatus.Kind, refusal.ErrStatus.APIVersion = "Status", "v1"
		text, _ := runtime.Encode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), &refusal.ErrStatus)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write(text)
	}))
	defer server.Close()
	_, err := Dial(t.Context(), &rest.Config{Host: server.URL}, "shop", "orders-0-0", 8443)
	if !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want one that is Forbidden", err)
	}
}

func TestASilentServerIsLeftAtTheDeadline(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Dial(ctx, &rest.Config{Host: server.URL}, "shop", "orders-0-0", 8443)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
}
