package desired

import (
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// AccountSecret is the Secret of an account that people or applications use. It is created once; its password is the
// user's afterwards, and is never overwritten. database may be empty.
func AccountSecret(in Input, name, username, password, database string) *corev1ac.SecretApplyConfiguration {
	cluster := in.Cluster
	host := naming.ServiceReadWrite(cluster.Name) + "." + cluster.Namespace + ".svc"
	port := strconv.Itoa(naming.PortMySQL)
	uri := url.URL{Scheme: "mysql", User: url.UserPassword(username, password), Host: host + ":" + port, Path: "/" + database}
	data := map[string]string{
		corev1.BasicAuthUsernameKey: username,
		corev1.BasicAuthPasswordKey: password,
		"host":                      host,
		"port":                      port,
		"uri":                       uri.String(),
	}
	if database != "" {
		data["database"] = database
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
