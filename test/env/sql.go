package env

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/portforward"
)

// Account to connect with.
type Account string

// The accounts that a MySQL cluster has for people and applications.
const (
	AccountApp   Account = naming.AccountApp
	AccountAdmin Account = naming.AccountAdmin
)

func (a Account) secret(cluster string) string {
	if a == AccountAdmin {
		return naming.SecretAdmin(cluster)
	}
	return naming.SecretApp(cluster)
}

// Target is where to connect to: a Service, or one instance.
type Target struct {
	Namespace, Cluster string
	// Service name, such as naming.ServiceReadWrite(cluster); or else
	Service string
	// Instance name.
	Instance string
	Account  Account
}

// OpenDB gives a connection pool from this machine to a Service or instance, over port-forwards, with TLS verified by
// the MySQL cluster's own authority. Like kube-proxy it chooses one of the Service's ready pods for each connection; that
// the Service's address itself works is seen from inside: [Env.StartClient]. The caller closes it.
func (e *Env) OpenDB(ctx context.Context, target Target) (*sql.DB, error) {
	account, err := e.secret(ctx, target.Namespace, target.Account.secret(target.Cluster))
	if err != nil {
		return nil, err
	}
	tlsConfig, err := e.clientTLS(ctx, target)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.User, config.Passwd = string(account["username"]), string(account["password"])
	config.DBName = string(account["database"])
	config.Net, config.Addr = "tcp", net.JoinHostPort(tlsConfig.ServerName, strconv.Itoa(naming.PortMySQL))
	config.TLS = tlsConfig
	config.ParseTime = true
	config.InterpolateParams = true
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		pod, err := e.pickPod(ctx, target)
		if err != nil {
			return nil, err
		}
		return portforward.Dial(ctx, e.Config, target.Namespace, pod, naming.PortMySQL)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("configure the connection to %s: %w", config.Addr, err)
	}
	return sql.OpenDB(connector), nil
}

func (e *Env) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		return nil, fmt.Errorf("get secret %s/%s: %w", namespace, name, err)
	}
	return secret.Data, nil
}

func (e *Env) clientTLS(ctx context.Context, target Target) (*tls.Config, error) {
	name := naming.SecretManagerTLS(target.Cluster)
	data, err := e.secret(ctx, target.Namespace, name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data[naming.FileCA]) {
		return nil, fmt.Errorf("secret %s/%s: %s holds no certificate", target.Namespace, name, naming.FileCA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: target.host()}, nil
}

// host is the name that the server's certificate must carry.
func (t Target) host() string {
	if t.Instance != "" {
		return naming.Host(t.Cluster, t.Namespace, t.Instance)
	}
	return t.Service + "." + t.Namespace + ".svc"
}

// ErrNoEndpoint means: a Service leads nowhere now.
var ErrNoEndpoint = errors.New("the Service has no ready endpoint")

func (e *Env) pickPod(ctx context.Context, target Target) (string, error) {
	if target.Instance != "" {
		return naming.Pod(target.Instance), nil
	}
	pods, err := e.ReadyPods(ctx, target.Namespace, target.Service)
	if err != nil {
		return "", err
	}
	if len(pods) == 0 {
		return "", fmt.Errorf("connect to %s/%s: %w", target.Namespace, target.Service, ErrNoEndpoint)
	}
	return pods[rand.IntN(len(pods))], nil
}

// ReadyPods names the pods that a Service leads to now.
func (e *Env) ReadyPods(ctx context.Context, namespace, service string) ([]string, error) {
	slices := &discoveryv1.EndpointSliceList{}
	err := e.Client.List(ctx, slices, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service})
	if err != nil {
		return nil, fmt.Errorf("list endpoints of service %s/%s: %w", namespace, service, err)
	}
	var pods []string
	for _, s := range slices.Items {
		for _, endpoint := range s.Endpoints {
			// Absent means ready.
			ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
			if ready && endpoint.TargetRef != nil && endpoint.TargetRef.Kind == "Pod" {
				pods = append(pods, endpoint.TargetRef.Name)
			}
		}
	}
	return pods, nil
}
