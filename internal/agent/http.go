package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

const (
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	// answerTimeout bounds writing an answer; a stream has it for each document.
	answerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxConnections bounds memory; kubelet, Prometheus and a few managers need a dozen.
	maxConnections = 128
	maxHeader      = 16 << 10
	// serverShutdown is how long running requests may go on when the agent ends.
	serverShutdown = 2 * time.Second
)

// handler routes the API.
func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.PathHealth, a.serveHealth)
	mux.HandleFunc("GET "+agentapi.PathReady, a.serveReady)
	mux.Handle("GET "+agentapi.PathMetrics, promhttp.HandlerFor(a.metrics(), promhttp.HandlerOpts{}))
	mux.Handle("GET "+agentapi.PathStatus, a.only(readers, a.serveStatus))
	mux.Handle("GET "+agentapi.PathStream, a.only(readers, a.serveStream))
	mux.Handle("POST "+agentapi.PathCommand, a.only(commanders, a.serveCommand))
	return mux
}

// listen opens the API's port.
func (a *Agent) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", a.cfg.APIAddress)
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	return netutil.LimitListener(l, maxConnections), nil
}

// serve answers until ctx ends.
func (a *Agent) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: a.handler(), TLSConfig: a.certs.server(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(a.garbage, "", 0),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	// Streams do not end by themselves.
	stop, cancel := context.WithTimeout(context.Background(), serverShutdown)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		_ = server.Close()
	}
	return nil
}

// Who may read, and who may command, by common name.
var (
	readers    = []string{naming.CertCNManager, naming.CertCNViewer}
	commanders = []string{naming.CertCNManager}
)

// only lets those in whose client certificate carries one of the names.
func (a *Agent) only(names []string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(names, callerOf(r.TLS)) {
			a.garbage.log("unauthorized "+r.URL.Path, "Refused a request without a client certificate that allows it", errors.New(r.RemoteAddr))
			a.answerError(w, refuse(agentapi.ErrUnauthorized, "a client certificate of %s is needed", strings.Join(names, " or ")))
			return
		}
		next(w, r)
	})
}

func (a *Agent) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok")
}

// serveReady says whether clients may be sent here: it never causes a restart.
func (a *Agent) serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if reason := unready(a.hub.peek()); reason != "" {
		http.Error(w, reason, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// unready returns why an instance does not serve in its role; empty: it does.
func unready(d agentapi.Status) string {
	switch {
	case !d.Confirmed:
		return "no manager has confirmed the role since the agent's start"
	case d.Process.State != agentapi.ProcessRunning:
		return "mysqld is " + string(d.Process.State)
	case d.Server == nil:
		return "mysqld does not answer"
	case d.Server.OfflineMode:
		return "mysqld is offline"
	case d.Role == agentapi.RolePrimary && d.Server.ReadOnly:
		return "the primary is read-only"
	case d.Role == agentapi.RolePrimary:
		return ""
	case d.Server.Replication == nil:
		return "replication is not configured"
	case d.Server.Replication.Applier != "ON":
		return "the applier is stopped"
	case d.Server.Replication.Receiver == "OFF":
		return "the receiver is stopped"
	}
	return ""
}

func (a *Agent) serveStatus(w http.ResponseWriter, r *http.Request) {
	if s := a.current(); s != nil {
		a.refresh(r.Context(), s)
	}
	doc, _ := a.hub.next()
	a.answer(w, http.StatusOK, doc)
}

// serveStream sends the document at once, at each change, and at least every HeartbeatInterval, one per line.
func (a *Agent) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	heartbeat := time.NewTimer(0)
	defer heartbeat.Stop()
	for {
		doc, changed := a.hub.next()
		if err := control.SetWriteDeadline(time.Now().Add(answerTimeout)); err != nil {
			return
		}
		if encoder.Encode(doc) != nil || control.Flush() != nil {
			return
		}
		heartbeat.Reset(agentapi.HeartbeatInterval)
		select {
		case <-r.Context().Done():
			return
		case <-a.gone:
			return
		case <-changed:
		case <-heartbeat.C:
		}
	}
}

// serveCommand answers with the status after the command, or with an agentapi.Error.
func (a *Agent) serveCommand(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	cmd, err := decodeCommand(http.MaxBytesReader(w, r.Body, agentapi.MaxCommandBytes+1))
	if err != nil {
		a.garbage.log("invalid command", "Refused a malformed command", err)
		a.answerError(w, refuse(agentapi.ErrInvalid, "%v", err))
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	if err := a.Do(r.Context(), cmd); err != nil {
		a.answerError(w, err)
		return
	}
	doc, _ := a.hub.next()
	a.answer(w, http.StatusOK, doc)
}

var httpStatus = map[agentapi.ErrorCode]int{
	agentapi.ErrInvalid: http.StatusBadRequest, agentapi.ErrUnauthorized: http.StatusForbidden, agentapi.ErrWrongCluster: http.StatusConflict,
	agentapi.ErrStaleEpoch: http.StatusConflict, agentapi.ErrBusy: http.StatusConflict, agentapi.ErrPrecondition: http.StatusPreconditionFailed,
	agentapi.ErrInternal: http.StatusInternalServerError,
}

func (a *Agent) answerError(w http.ResponseWriter, err error) {
	var refusal *agentapi.Error
	if !errors.As(err, &refusal) {
		refusal = refuse(agentapi.ErrInternal, "%v", err)
	}
	a.answer(w, httpStatus[refusal.Code], refusal)
}

func (a *Agent) answer(w http.ResponseWriter, status int, body any) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		return // The client has gone; there is nobody left to tell.
	}
}
