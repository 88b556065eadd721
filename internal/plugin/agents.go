package plugin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/portforward"
)

// maxStatusBytes bounds an agent's answer: whoever holds the pod must not fill this machine's memory.
const maxStatusBytes = 16 << 20

// ForwardingAsker asks agents through port-forwards, with the viewers' client certificate.
type ForwardingAsker struct {
	Client client.Client
	// Dial opens a connection to a port of a pod.
	Dial func(ctx context.Context, namespace, pod string, port int) (net.Conn, error)
	// Timeout bounds the question to one agent; all are asked at once.
	Timeout time.Duration
}

// NewForwardingAsker asks through the API server that config names.
func NewForwardingAsker(c client.Client, config *rest.Config, timeout time.Duration) ForwardingAsker {
	return ForwardingAsker{
		Client: c,
		Dial: func(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
			return portforward.Dial(ctx, config, namespace, pod, port)
		},
		Timeout: timeout,
	}
}

const liveColumns = "lag, GTID sets and replication state"

// Ask reads the certificate and asks the agents of all running pods.
func (a ForwardingAsker) Ask(ctx context.Context, cluster, namespace string, pods []corev1.Pod) (map[string]AgentAnswer, []string) {
	identity, note := a.identity(ctx, cluster, namespace)
	if note != "" {
		return nil, []string{note}
	}
	var (
		mu      sync.Mutex
		group   sync.WaitGroup
		answers = map[string]AgentAnswer{}
		refused atomic.Bool
	)
	answer := func(instance string, got AgentAnswer) {
		mu.Lock()
		defer mu.Unlock()
		answers[instance] = got
	}
	for i := range pods {
		pod := &pods[i]
		instance := pod.Labels[naming.LabelInstance]
		if instance == "" {
			continue
		}
		if pod.Status.Phase != corev1.PodRunning {
			answer(instance, AgentAnswer{Reason: "pod is " + string(pod.Status.Phase)})
			continue
		}
		host := naming.Host(cluster, namespace, instance)
		group.Go(func() {
			status, err := a.askOne(ctx, identity.For(host), namespace, pod.Name, host)
			switch {
			case err == nil:
				answer(instance, AgentAnswer{Status: status})
			case apierrors.IsForbidden(err):
				refused.Store(true)
			default:
				answer(instance, AgentAnswer{Reason: reasonOf(err, a.Timeout)})
			}
		})
	}
	group.Wait()
	if refused.Load() {
		return answers, []string{missingRight(liveColumns, "create", "pods/portforward", namespace)}
	}
	return answers, nil
}

// identity is the viewers' client certificate and the authority that agents' certificates come from.
type identity struct {
	certificate tls.Certificate
	authorities *x509.CertPool
}

// For returns the TLS configuration to talk to one agent.
func (i identity) For(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host,
		Certificates: []tls.Certificate{i.certificate}, RootCAs: i.authorities,
	}
}

// identity returns a note instead when the certificate cannot be had.
func (a ForwardingAsker) identity(ctx context.Context, cluster, namespace string) (identity, string) {
	name := naming.SecretViewerTLS(cluster)
	secret := &corev1.Secret{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsForbidden(err):
		return identity{}, missingRight(liveColumns, "get", "secrets/"+name, namespace)
	case apierrors.IsNotFound(err):
		return identity{}, fmt.Sprintf("%s left out: Secret %s with the client certificate does not exist (yet)", liveColumns, name)
	case err != nil:
		return identity{}, fmt.Sprintf("%s left out: get Secret %s: %v", liveColumns, name, err)
	}
	out := identity{authorities: x509.NewCertPool()}
	// Errors of parsing are not shown in full: they must not quote what a Secret holds.
	out.certificate, err = tls.X509KeyPair(secret.Data[naming.FileTLSCert], secret.Data[naming.FileTLSKey])
	if err != nil || !out.authorities.AppendCertsFromPEM(secret.Data[naming.FileCA]) {
		return identity{}, fmt.Sprintf("%s left out: Secret %s does not hold a client certificate with key and authority (%s, %s, %s)",
			liveColumns, name, naming.FileTLSCert, naming.FileTLSKey, naming.FileCA)
	}
	return out, ""
}

func (a ForwardingAsker) askOne(ctx context.Context, tlsConfig *tls.Config, namespace, pod, host string) (*agentapi.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	transport := &http.Transport{
		TLSClientConfig:   tlsConfig,
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return a.Dial(ctx, namespace, pod, naming.PortAgent)
		},
	}
	defer transport.CloseIdleConnections()
	url := "https://" + net.JoinHostPort(host, strconv.Itoa(naming.PortAgent)) + agentapi.PathStatus
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the agent of pod %s: %w", pod, err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxStatusBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the agent's answer: %w", err)
	}
	return parseStatus(response.StatusCode, body)
}

func parseStatus(code int, body []byte) (*agentapi.Status, error) {
	if len(body) > maxStatusBytes {
		return nil, fmt.Errorf("the agent's answer is larger than %d MiB", maxStatusBytes>>20)
	}
	if code != http.StatusOK {
		refusal := &agentapi.Error{}
		if json.Unmarshal(body, refusal) == nil && refusal.Code != "" {
			return nil, refusal
		}
		return nil, fmt.Errorf("the agent answered %d %s", code, http.StatusText(code))
	}
	status := &agentapi.Status{}
	if err := json.Unmarshal(body, status); err != nil {
		return nil, fmt.Errorf("the agent's answer is not a status: %w", err)
	}
	return status, nil
}

// reasonOf makes one short line of an error: the innermost cause is what helps.
func reasonOf(err error, timeout time.Duration) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("agent did not answer within %s", timeout)
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
