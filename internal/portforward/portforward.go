package portforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go still speaks in its types
	"k8s.io/client-go/rest"
	clientportforward "k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	streaming "k8s.io/streaming/pkg/httpstream"
)

// Dial opens a connection to a port of a pod. The context bounds the opening only. A refusal by the API server keeps
// its type (apierrors.IsForbidden and others see it); what the pod's node says is found by the first Read.
func Dial(ctx context.Context, config *rest.Config, namespace, pod string, port int) (net.Conn, error) {
	type dialed struct {
		conn net.Conn
		err  error
	}
	// The library's dialers take no context: a dial that comes too late is closed by the goroutine that waited for it.
	result := make(chan dialed, 1)
	go func() {
		conn, err := open(config, namespace, pod, port)
		result <- dialed{conn, err}
	}()
	select {
	case r := <-result:
		if r.err != nil {
			return nil, fmt.Errorf("open a connection to port %d of pod %s/%s: %w", port, namespace, pod, r.err)
		}
		return r.conn, nil
	case <-ctx.Done():
		go func() {
			if r := <-result; r.err == nil {
				_ = r.conn.Close()
			}
		}()
		return nil, fmt.Errorf("open a connection to port %d of pod %s/%s: %w", port, namespace, pod, context.Cause(ctx))
	}
}

func open(config *rest.Config, namespace, pod string, port int) (net.Conn, error) {
	session, protocol, err := dial(config, namespace, pod)
	if err != nil {
		return nil, err
	}
	if protocol != clientportforward.PortForwardProtocolV1Name {
		_ = session.Close()
		return nil, fmt.Errorf("the API server speaks port-forward protocol %q, want %q", protocol, clientportforward.PortForwardProtocolV1Name)
	}
	conn, err := newConn(session, pod, port)
	if err != nil {
		_ = session.Close()
		return nil, err
	}
	return conn, nil
}

// dial tries WebSocket first and then SPDY, which API servers before 1.31 and some proxies need. It does by hand what the
// library's fallback dialer does, since SPDY tells a refusal as text alone: the one of the first try has its type.
func dial(config *rest.Config, namespace, pod string) (httpstream.Connection, string, error) {
	target, err := forwardURL(config, namespace, pod)
	if err != nil {
		return nil, "", err
	}
	viaWebSocket, err := clientportforward.NewSPDYOverWebsocketDialer(target, config)
	if err != nil {
		return nil, "", fmt.Errorf("prepare the connection to the API server: %w", err)
	}
	session, protocol, first := viaWebSocket.Dial(clientportforward.PortForwardProtocolV1Name)
	// These errors are of the streaming module, whose types are not those of apimachinery's package of that name.
	if first == nil || !streaming.IsUpgradeFailure(first) && !streaming.IsHTTPSProxyError(first) {
		return session, protocol, first
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, "", fmt.Errorf("prepare the connection to the API server: %w", err)
	}
	viaSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	session, protocol, err = viaSPDY.Dial(clientportforward.PortForwardProtocolV1Name)
	if err == nil {
		return session, protocol, nil
	}
	var failure *streaming.UpgradeFailureError
	var refusal *apierrors.StatusError
	if errors.As(first, &failure) && errors.As(failure.Cause, &refusal) {
		return nil, "", refusal
	}
	return nil, "", err
}

func forwardURL(config *rest.Config, namespace, pod string) (*url.URL, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API server: %w", err)
	}
	return base.JoinPath("api", "v1", "namespaces", namespace, "pods", pod, "portforward"), nil
}

// conn is one forwarded connection with an API session of its own.
type conn struct {
	session httpstream.Connection
	data    httpstream.Stream
	remote  address
	// told is closed once the node said something about the connection, which is refusal then, or will say nothing any more.
	told    chan struct{}
	refusal string
	once    sync.Once
}

func newConn(session httpstream.Connection, pod string, port int) (*conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	errorStream, err := session.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("create the stream for errors: %w", err)
	}
	// Nothing is written to it.
	_ = errorStream.Close()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := session.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("create the stream for data: %w", err)
	}
	c := &conn{session: session, data: data, remote: address{pod: pod, port: port}, told: make(chan struct{})}
	go func() {
		text, err := io.ReadAll(io.LimitReader(errorStream, 4096))
		if err == nil {
			c.refusal = strings.TrimSpace(string(text))
		}
		close(c.told)
		if c.refusal != "" {
			_ = data.Reset()
		}
	}()
	return c, nil
}

// refusalGrace is how long the end of the data waits for the reason, which comes on another stream. A node ends both, so a
// connection that ended well does not wait for it, and one that was refused waits only as long as its reason is on its way.
const refusalGrace = 10 * time.Second

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	if err == nil || n > 0 {
		return n, err
	}
	return 0, c.reasonFor(err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.data.Write(p)
	if err == nil {
		return n, nil
	}
	return n, c.reasonFor(err)
}

// reasonFor returns what the node said about a connection that ended with err; err itself if it said nothing.
func (c *conn) reasonFor(err error) error {
	timer := time.NewTimer(refusalGrace)
	defer timer.Stop()
	select {
	case <-c.told:
	case <-timer.C:
		return err
	}
	if c.refusal == "" {
		return err
	}
	return fmt.Errorf("port %d of pod %s: %s", c.remote.port, c.remote.pod, c.refusal)
}

func (c *conn) Close() error {
	var err error
	c.once.Do(func() {
		// Reset, not only Close: data that nobody reads must not keep the session.
		_ = c.data.Reset()
		err = c.session.Close()
	})
	return err
}

func (c *conn) LocalAddr() net.Addr  { return address{pod: "local"} }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// The streams know no deadlines: callers bound their work by a context and Close.
func (c *conn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *conn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// address of a pod's port.
type address struct {
	pod  string
	port int
}

func (address) Network() string  { return "portforward" }
func (a address) String() string { return a.pod + ":" + strconv.Itoa(a.port) }
