// Package kubeapi asks the API server the few questions that `up` and `status` need, without the weight of client-go, which would
// make the command line tool itself take a minute to compile.
package kubeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/pki"
)

// Client talks to one API server as its administrator.
type Client struct {
	url  string
	http *http.Client
}

// New returns a client that uses the named certificate and authority of the store.
func New(url string, store pki.Store, authority, user string) (*Client, error) {
	ca, err := os.ReadFile(store.Certificate(authority))
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New(store.Certificate(authority) + " holds no certificate")
	}
	certificate, err := tls.LoadX509KeyPair(store.Certificate(user), store.Key(user))
	if err != nil {
		return nil, fmt.Errorf("load certificate of %s: %w", user, err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}}
	return &Client{url: url, http: &http.Client{Transport: transport, Timeout: 5 * time.Second}}, nil
}

// Ready tells whether the API server serves. The error says what is not ready yet.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.get(ctx, "/readyz")
	return err
}

// Version is the version the API server reports.
func (c *Client) Version(ctx context.Context) (string, error) {
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	err := c.decode(ctx, "/version", &answer)
	return answer.GitVersion, err
}

// Exists tells whether the object at the path exists.
func (c *Client) Exists(ctx context.Context, path string) (bool, error) {
	_, err := c.get(ctx, path)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// Node is what matters of a Kubernetes node.
type Node struct {
	Name   string
	Ready  bool
	Reason string // of the Ready condition
	// Heartbeat is when the node last wrote its Ready condition; to the second.
	Heartbeat time.Time
}

// Nodes lists all nodes.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Conditions []condition }
		}
	}
	if err := c.decode(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	nodes := make([]Node, 0, len(list.Items))
	for _, item := range list.Items {
		ready, c := find(item.Status.Conditions, "Ready")
		nodes = append(nodes, Node{Name: item.Metadata.Name, Ready: ready, Reason: c.Reason + ": " + c.Message, Heartbeat: c.LastHeartbeatTime})
	}
	return nodes, nil
}

// ReadyPods lists, by node, whether every pod with the label on it is ready.
func (c *Client) ReadyPods(ctx context.Context, namespace, label string) (map[string]bool, error) {
	var list struct {
		Items []struct {
			Metadata struct{ DeletionTimestamp string }
			Spec     struct{ NodeName string }
			Status   struct{ Conditions []condition }
		}
	}
	if err := c.decode(ctx, "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+label, &list); err != nil {
		return nil, err
	}
	ready := map[string]bool{}
	for _, item := range list.Items {
		isReady, _ := find(item.Status.Conditions, "Ready")
		was, seen := ready[item.Spec.NodeName]
		ready[item.Spec.NodeName] = isReady && item.Metadata.DeletionTimestamp == "" && (was || !seen)
	}
	return ready, nil
}

type condition struct {
	Type, Status, Reason, Message string
	LastHeartbeatTime             time.Time
}

// find returns whether the condition is True, and the condition.
func find(conditions []condition, kind string) (bool, condition) {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == "True", c
		}
	}
	return false, condition{Reason: "Unknown", Message: "no condition " + kind + " yet"}
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code int
	Path string
	Body string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("GET %s: %d %s: %.300s", e.Path, e.Code, http.StatusText(e.Code), e.Body)
}

func (c *Client) decode(ctx context.Context, path string, into any) error {
	body, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("parse answer to GET %s: %w", path, err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, &StatusError{Code: response.StatusCode, Path: path, Body: string(body)}
	}
	return body, nil
}
