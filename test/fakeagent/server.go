package fakeagent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/porpoise-dev/porpoise/internal/agentapi"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/pki"
)

// Certificates are a cluster's: what Secret naming.SecretManagerTLS holds, and a leaf per instance.
type Certificates struct {
	authority *pki.Authority
	ca        []byte
	// Manager is the data of the manager's Secret.
	Manager map[string][]byte
}

// NewCertificates makes a CA and the manager's certificate.
func NewCertificates(cluster string) (*Certificates, error) {
	now := time.Now()
	authority, err := pki.NewAuthority(cluster, now)
	if err != nil {
		return nil, err
	}
	pair, err := authority.Encode()
	if err != nil {
		return nil, err
	}
	manager, err := authority.Issue(pki.ManagerLeaf(), now)
	if err != nil {
		return nil, err
	}
	return &Certificates{authority: authority, ca: pair.Certificate, Manager: map[string][]byte{
		naming.FileTLSCert: manager.Certificate, naming.FileTLSKey: manager.Key, naming.FileCA: pair.Certificate,
	}}, nil
}

// Server serves one instance of a World over HTTPS.
type Server struct {
	world *World
	name  string
	http  *http.Server
	done  sync.WaitGroup
}

// Serve listens on ip, which may be any address of 127.0.0.0/8, at the agents' port.
func (w *World) Serve(name, ip string, certificates *Certificates) (*Server, error) {
	leaf, err := certificates.authority.Issue(pki.InstanceLeaf(w.cluster, w.namespace, name), time.Now())
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(leaf.Certificate, leaf.Key)
	if err != nil {
		return nil, err
	}
	return w.ServeTLS(name, ip, pair, certificates.ca)
}

// ServeTLS is Serve with certificates that somebody else issued: the instance's own, and the CA (PEM) of who may ask.
func (w *World) ServeTLS(name, ip string, pair tls.Certificate, ca []byte) (*Server, error) {
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca)
	s := &Server{world: w, name: name}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.PathStatus, s.status)
	mux.HandleFunc("GET "+agentapi.PathStream, s.stream)
	mux.HandleFunc("POST "+agentapi.PathCommand, s.command)
	s.http = &http.Server{
		Handler: mux, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert},
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(naming.PortAgent)))
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", name, err)
	}
	s.done.Go(func() { _ = s.http.ServeTLS(listener, "", "") })
	return s, nil
}

// Close ends the server and every connection at once, as the death of a pod does.
func (s *Server) Close() {
	_ = s.http.Close()
	s.done.Wait()
}

func (s *Server) status(rw http.ResponseWriter, req *http.Request) {
	if s.hang(req.Context()) {
		return
	}
	st, err := s.world.Status(s.name)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(rw).Encode(st)
}

// hang waits for the sender to give up while the agent is silent.
func (s *Server) hang(ctx context.Context) bool {
	silent, changed := s.world.watch(s.name)
	for silent {
		select {
		case <-ctx.Done():
			return true
		case <-changed:
			silent, changed = s.world.watch(s.name)
		}
	}
	return false
}

func (w *World) watch(name string) (silent bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[name].silent, w.changed[name]
}

func (s *Server) stream(rw http.ResponseWriter, req *http.Request) {
	ticker := time.NewTicker(agentapi.HeartbeatInterval)
	defer ticker.Stop()
	flush := http.NewResponseController(rw)
	for {
		if s.hang(req.Context()) {
			return
		}
		_, changed := s.world.watch(s.name)
		st, err := s.world.Status(s.name)
		if err != nil {
			return
		}
		if json.NewEncoder(rw).Encode(st) != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-req.Context().Done():
			return
		case <-ticker.C:
		case <-changed:
		}
	}
}

func (s *Server) command(rw http.ResponseWriter, req *http.Request) {
	if s.hang(req.Context()) {
		return
	}
	var cmd agentapi.Command
	err := json.NewDecoder(io.LimitReader(req.Body, agentapi.MaxCommandBytes)).Decode(&cmd)
	if err != nil {
		err = refuse(agentapi.ErrInvalid, "%v", err)
	} else {
		err = s.world.Do(s.name, cmd)
	}
	if err == nil {
		s.status(rw, req)
		return
	}
	var refusal *agentapi.Error
	if !errors.As(err, &refusal) {
		refusal = &agentapi.Error{Code: agentapi.ErrInternal, Message: err.Error()}
	}
	codes := map[agentapi.ErrorCode]int{
		agentapi.ErrInvalid: http.StatusBadRequest, agentapi.ErrUnauthorized: http.StatusForbidden,
		agentapi.ErrPrecondition: http.StatusPreconditionFailed, agentapi.ErrInternal: http.StatusInternalServerError,
	}
	code, ok := codes[refusal.Code]
	if !ok {
		code = http.StatusConflict
	}
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(refusal)
}
