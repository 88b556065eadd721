package naming

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxClusterNameLength keeps every derived name within 63 characters; the longest is the StatefulSet's
// controller-revision-hash label, NAME-ORDINAL-HASH.
const MaxClusterNameLength = 40

// Labels and annotations of porpoise.dev. Labels select; annotations carry.
const (
	LabelCluster  = "porpoise.dev/cluster"
	LabelInstance = "porpoise.dev/instance"
	LabelRole     = "porpoise.dev/role"
	// LabelReadOnly is "true" on the pods that the read-only Service leads to: replicas that serve, else the primary.
	LabelReadOnly = "porpoise.dev/read-only"
	// LabelScraper is "true" on pods of any namespace that may reach the agents' port, to scrape metrics.
	LabelScraper   = "porpoise.dev/scraper"
	LabelComponent = "app.kubernetes.io/component"
	LabelName      = "app.kubernetes.io/name"
	LabelAppInst   = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// AnnotationRevision on a pod template: the revision it was built from.
	AnnotationRevision = "porpoise.dev/revision"
	// AnnotationClusterID on a volume claim: the cluster id that its data belongs to.
	AnnotationClusterID = "porpoise.dev/cluster-id"
	// AnnotationBlank on a volume claim: "true" until something may be written to its volume. A blank volume goes with its
	// cluster whatever the reclaim policy says.
	AnnotationBlank = "porpoise.dev/blank"
	// AnnotationAdopt on a MySQLCluster: the cluster id of kept volumes that it may take over.
	AnnotationAdopt = "porpoise.dev/adopt-volumes-of"
	// AnnotationSwitchover on a MySQLCluster asks for another primary: TO or TO@ANYTHING, where TO is an instance or
	// SwitchoverToAny. A changed value is a new request.
	AnnotationSwitchover = "porpoise.dev/switchover"
	// AnnotationAcceptDataLoss on a MySQLCluster says who accepts that a failover loses acknowledged commits, and when:
	// WHO@RFC3339. Each value counts for one failover.
	AnnotationAcceptDataLoss = "porpoise.dev/accept-data-loss"
)

// Values of LabelRole.
const (
	RolePrimary = "primary"
	RoleReplica = "replica"
)

// SwitchoverToAny in AnnotationSwitchover leaves the choice to the operator.
const SwitchoverToAny = "any"

// ManagedBy is the value of LabelManagedBy and the name of the product in labels.
const ManagedBy = "porpoise"

// Field owners of server-side apply; they never own the same field.
const (
	OwnerClusterLane  = "porpoise-cluster"
	OwnerTopologyLane = "porpoise-topology"
	// OwnerPlugin writes annotations that people ask for by kubectl porpoise.
	OwnerPlugin = "kubectl-porpoise"
)

// Ports of an instance's pod.
const (
	PortMySQL = 3306
	PortAgent = 8443
	// PortMySQLAdmin listens on 127.0.0.1 of the pod only.
	PortMySQLAdmin = 33062
)

// Paths in an instance's pod. The volume holds two directories, so that what the agent must never forget (INV-3) is not
// inside what a rebuild wipes.
const (
	PathVolume   = "/var/lib/porpoise"
	PathData     = PathVolume + "/mysql"
	PathState    = PathVolume + "/agent"
	PathRun      = "/run/porpoise"
	PathBin      = "/opt/porpoise"
	PathAgent    = PathBin + "/agent"
	PathTLS      = "/etc/porpoise/tls"
	PathConfig   = "/etc/porpoise/config"
	PathAccounts = "/etc/porpoise/accounts"
)

// Files below the paths above.
const (
	FileCA              = "ca.crt"
	FileTLSCert         = "tls.crt"
	FileTLSKey          = "tls.key"
	FileReplicationCert = "replication.crt"
	FileReplicationKey  = "replication.key"
	FileUserConfig      = "user.cnf"
)

// Subjects of certificates, all issued by the cluster's own CA. MySQL prints them as /O=porpoise/CN=NAME.
const (
	CertOrganization  = "porpoise"
	CertCNManager     = "porpoise-manager"
	CertCNViewer      = "porpoise-viewer"
	CertCNInstance    = "porpoise-instance"
	CertCNReplication = "porpoise-replication"
)

// MySQL accounts. The local one exists on each instance apart (never in the binary log); the others are replicated.
const (
	AccountLocal       = "porpoise"
	AccountReplication = "porpoise_replication"
	AccountAdmin       = "admin"
	AccountApp         = "app"
	DatabaseApp        = "app"
)

// Instance returns the name of a cluster's instance by ordinal.
func Instance(cluster string, ordinal int) string { return cluster + "-" + strconv.Itoa(ordinal) }

// Ordinal returns the ordinal of an instance of a cluster, or an error when the name is not one of its instances.
func Ordinal(cluster, instance string) (int, error) {
	rest, ok := strings.CutPrefix(instance, cluster+"-")
	if !ok {
		return 0, fmt.Errorf("instance %q: not of cluster %q", instance, cluster)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 || strconv.Itoa(n) != rest {
		return 0, fmt.Errorf("instance %q: %q is not an ordinal", instance, rest)
	}
	return n, nil
}

// Pod returns the name of an instance's pod.
func Pod(instance string) string { return instance + "-0" }

// DataClaim returns the name of an instance's PersistentVolumeClaim.
func DataClaim(instance string) string { return instance }

// ServiceReadWrite returns the name of the Service that leads to the primary.
func ServiceReadWrite(cluster string) string { return cluster + "-rw" }

// ServiceReadOnly returns the name of the Service that leads to the replicas.
func ServiceReadOnly(cluster string) string { return cluster + "-ro" }

// ServiceInstances returns the name of the headless Service of all instances.
func ServiceInstances(cluster string) string { return cluster + "-instances" }

// Host returns the stable host name of an instance within the Kubernetes cluster. It has no cluster domain, since that
// may differ; resolvers complete it.
func Host(cluster, namespace, instance string) string {
	return Pod(instance) + "." + ServiceInstances(cluster) + "." + namespace + ".svc"
}

// SecretCA returns the name of the Secret that holds the cluster's certificate authority. Only the operator reads it.
func SecretCA(cluster string) string { return cluster + "-ca" }

// SecretManagerTLS returns the name of the Secret with the client certificate by which the manager talks to agents.
func SecretManagerTLS(cluster string) string { return cluster + "-manager-tls" }

// SecretViewerTLS returns the name of the Secret with the client certificate by which people read what agents report. It
// commands nothing.
func SecretViewerTLS(cluster string) string { return cluster + "-viewer-tls" }

// SecretInstanceTLS returns the name of the Secret with an instance's certificates.
func SecretInstanceTLS(instance string) string { return instance + "-tls" }

// SecretApp returns the name of the Secret with the application's account.
func SecretApp(cluster string) string { return cluster + "-app" }

// SecretAdmin returns the name of the Secret with the administrator's account.
func SecretAdmin(cluster string) string { return cluster + "-admin" }

// ConfigMap returns the name of the ConfigMap with the rendered configuration of a given content hash.
func ConfigMap(cluster, hash string) string { return cluster + "-config-" + hash }

// Revision returns the name of the ControllerRevision that keeps the shape of a given revision.
func Revision(cluster, hash string) string { return cluster + "-revision-" + hash }

// ConfigCheckPod returns the name of the pod in which the target image checks a configuration.
func ConfigCheckPod(cluster, hash string) string { return cluster + "-check-" + hash }

// ServiceAccount returns the name of the instances' ServiceAccount, which has no rights.
func ServiceAccount(cluster string) string { return cluster + "-instance" }

// PodDisruptionBudget returns the name of the cluster's PodDisruptionBudget.
func PodDisruptionBudget(cluster string) string { return cluster }

// NetworkPolicy returns the name of the cluster's NetworkPolicy.
func NetworkPolicy(cluster string) string { return cluster + "-instances" }

// ClusterLabels are the labels of every object of a cluster.
func ClusterLabels(cluster string) map[string]string {
	return map[string]string{
		LabelName:      "mysql",
		LabelAppInst:   cluster,
		LabelManagedBy: ManagedBy,
		LabelCluster:   cluster,
	}
}

// ClusterSelector selects the instances' pods of a cluster.
func ClusterSelector(cluster string) map[string]string {
	return map[string]string{LabelCluster: cluster, LabelComponent: "instance"}
}

// InstanceLabels are the labels of an instance's objects.
func InstanceLabels(cluster, instance string) map[string]string {
	labels := ClusterLabels(cluster)
	labels[LabelComponent] = "instance"
	labels[LabelInstance] = instance
	return labels
}
