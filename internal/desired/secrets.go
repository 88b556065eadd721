package desired

import (
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Account is what the Secret of an account that people or applications use holds.
type Account struct {
	Username, Password string
	// Database may be empty.
	Database string
	// CA is the bundle of certificates by which a client verifies the server, in PEM.
	CA []byte
}

// AccountSecret is the Secret of an account. It is created once; its password is the user's afterwards, and is never
// overwritten.
func AccountSecret(in Input, name string, account Account) *corev1ac.SecretApplyConfiguration {
	cluster := in.Cluster
	host := naming.ServiceReadWrite(cluster.Name) + "." + cluster.Namespace + ".svc"
	port := strconv.Itoa(naming.PortMySQL)
	uri := url.URL{Scheme: "mysql", User: url.UserPassword(account.Username, account.Password), Host: host + ":" + port, Path: "/" + account.Database}
	data := map[string]string{
		corev1.BasicAuthUsernameKey: account.Username,
		corev1.BasicAuthPasswordKey: account.Password,
		"host":                      host,
		"port":                      port,
		"uri":                       uri.String(),
		naming.FileCA:               string(account.CA),
	}
	if account.Database != "" {
		data["database"] = account.Database
	}
	return secret(in, name, corev1.SecretTypeBasicAuth, naming.ClusterLabels(cluster.Name)).WithData(toBytes(data))
}

// CertificateSecret is a Secret with certificates and keys. instance names the one that it belongs to; empty: the cluster.
func CertificateSecret(in Input, name, instance string, data map[string][]byte) *corev1ac.SecretApplyConfiguration {
	labels := naming.ClusterLabels(in.Cluster.Name)
	if instance != "" {
		labels = naming.InstanceLabels(in.Cluster.Name, instance)
	}
	return secret(in, name, corev1.SecretTypeTLS, labels).WithData(data)
}

func secret(in Input, name string, kind corev1.SecretType, labels map[string]string) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(name, in.Cluster.Namespace).
		WithLabels(labels).
		WithOwnerReferences(OwnerReference(in.Cluster)).
		WithType(kind)
}

func toBytes(in map[string]string) map[string][]byte {
	out := make(map[string][]byte, len(in))
	for k, v := range in {
		out[k] = []byte(v)
	}
	return out
}
