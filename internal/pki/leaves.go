package pki

import (
	"net"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// clusterDomain is the usual domain of a Kubernetes cluster. Names with it are added for clients that spell it out;
// where another is used, the shorter names are valid all the same.
const clusterDomain = ".cluster.local"

// InstanceLeaf is the certificate of an instance: of mysqld towards clients, and of the agent on both sides.
func InstanceLeaf(cluster, namespace, instance string) Leaf {
	host := naming.Host(cluster, namespace, instance)
	short := naming.Pod(instance) + "." + naming.ServiceInstances(cluster)
	names := []string{host, host + clusterDomain, short + "." + namespace, short}
	for _, service := range []string{naming.ServiceReadWrite(cluster), naming.ServiceReadOnly(cluster)} {
		full := service + "." + namespace + ".svc"
		names = append(names, service, service+"."+namespace, full, full+clusterDomain)
	}
	return Leaf{
		CommonName: naming.CertCNInstance,
		DNSNames:   append(names, "localhost"),
		IPs:        []net.IP{net.IPv4(127, 0, 0, 1)},
		Server:     true,
		Client:     true,
	}
}

// ReplicationLeaf is the certificate by which a replica logs in at its primary.
func ReplicationLeaf() Leaf { return Leaf{CommonName: naming.CertCNReplication, Client: true} }

// ManagerLeaf is the certificate by which the manager talks to agents.
func ManagerLeaf() Leaf { return Leaf{CommonName: naming.CertCNManager, Client: true} }

// ViewerLeaf is the certificate by which people read what agents report; it commands nothing.
func ViewerLeaf() Leaf { return Leaf{CommonName: naming.CertCNViewer, Client: true} }
