package agentclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
)

// MaxDocumentBytes bounds a status document and an answer; a longer one ends the connection.
const MaxDocumentBytes = 1 << 20

// dialTimeout bounds connecting and the TLS handshake, each.
const dialTimeout = 2 * time.Second

// Target is where an instance's agent is.
type Target struct {
	// Instance name; documents must carry it.
	Instance string
	// Address is IP:port.
	Address string
	// ServerName that the agent's certificate must carry.
	ServerName string
}

// client talks to one agent at one address with one set of credentials.
type client struct {
	target    Target
	transport *http.Transport
	http      *http.Client
}

func newClient(target Target, credentials *Credentials) *client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	config := credentials.config.Clone()
	config.ServerName = target.ServerName
	transport := &http.Transport{
		// No proxy: an agent is a pod of this Kubernetes cluster. No HTTP/2: a stalled stream must not hold commands.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", target.Address)
		},
		TLSClientConfig:     config,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConns:        2,
		IdleConnTimeout:     5 * time.Minute,
		DisableCompression:  true,
	}
	return &client{target: target, transport: transport, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("an agent does not redirect") },
	}}
}

// close ends idle connections; streams end with their context.
func (c *client) close() { c.transport.CloseIdleConnections() }

func (c *client) url(path string) string { return "https://" + c.target.ServerName + path }

// status asks for a document that is sampled after the request arrived.
func (c *client) status(ctx context.Context) (*agentapi.Status, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(agentapi.PathStatus), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	return c.readStatus(res)
}

// readStatus takes the document out of an answer.
func (c *client) readStatus(res *http.Response) (*agentapi.Status, error) {
	defer drain(res.Body)
	if res.StatusCode != http.StatusOK {
		return nil, refusal(res)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, MaxDocumentBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read status of %s: %w", c.target.Instance, err)
	}
	return parseStatus(data, c.target.Instance)
}

// command sends a command and returns the document that answers it, sampled after it was carried out. A refusal is an
// *agentapi.Error.
func (c *client) command(ctx context.Context, cmd agentapi.Command) (*agentapi.Status, error) {
	body, err := json.Marshal(cmd)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", cmd.Type, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(agentapi.PathCommand), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	return c.readStatus(res)
}

// parseStatus decodes one document and checks that it is the instance's own.
func parseStatus(data []byte, instance string) (*agentapi.Status, error) {
	if len(data) > MaxDocumentBytes {
		return nil, fmt.Errorf("status of %s: longer than %d bytes", instance, MaxDocumentBytes)
	}
	var st agentapi.Status
	if err := json.Unmarshal(data, &st); err != nil {
		return nil, fmt.Errorf("status of %s: %w", instance, err)
	}
	if st.Instance != instance {
		return nil, fmt.Errorf("status of %s: the document is of instance %.64q", instance, st.Instance)
	}
	return &st, nil
}

// refusal reads the body of an answer that is not 2xx.
func refusal(res *http.Response) error {
	var e agentapi.Error
	data, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil || json.Unmarshal(data, &e) != nil || e.Code == "" {
		return fmt.Errorf("agent answered %s", res.Status)
	}
	return &e
}

// drain lets a connection be used again when little is left to read.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 16<<10)
	_ = body.Close()
}
