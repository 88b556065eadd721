package desired

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Names of volumes.
const (
	volumeData     = "data"
	volumeRun      = "run"
	volumeTmp      = "tmp"
	volumeBin      = "bin"
	volumeTLS      = "tls"
	volumeConfig   = "config"
	volumeAccounts = "accounts"
)

// secretMode lets the containers' group, and nobody else, read keys and passwords.
const secretMode int32 = 0o440

// accountsDirApp and accountsDirAdmin are directories below naming.PathAccounts, one per account.
const (
	accountsDirApp   = "app"
	accountsDirAdmin = "admin"
)

func instanceVolumes(in Input, shape Shape, instance string) []*corev1ac.VolumeApplyConfiguration {
	cluster := in.Cluster.Name
	return append(scratchVolumes(in, shape),
		corev1ac.Volume().WithName(volumeData).WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(naming.DataClaim(instance))),
		corev1ac.Volume().WithName(volumeTLS).WithSecret(
			corev1ac.SecretVolumeSource().WithSecretName(naming.SecretInstanceTLS(instance)).WithDefaultMode(secretMode)),
		corev1ac.Volume().WithName(volumeAccounts).WithProjected(corev1ac.ProjectedVolumeSource().WithDefaultMode(secretMode).WithSources(
			account(naming.SecretApp(cluster), accountsDirApp,
				corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, "database"),
			account(naming.SecretAdmin(cluster), accountsDirAdmin,
				corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey))))
}

// scratchVolumes are those of instances and of checks.
func scratchVolumes(in Input, shape Shape) []*corev1ac.VolumeApplyConfiguration {
	return []*corev1ac.VolumeApplyConfiguration{
		corev1ac.Volume().WithName(volumeBin).WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
		corev1ac.Volume().WithName(volumeTmp).WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
		corev1ac.Volume().WithName(volumeRun).WithEmptyDir(
			corev1ac.EmptyDirVolumeSource().WithMedium(corev1.StorageMediumMemory).WithSizeLimit(memoryBackedLimit)),
		corev1ac.Volume().WithName(volumeConfig).WithConfigMap(
			corev1ac.ConfigMapVolumeSource().WithName(naming.ConfigMap(in.Cluster.Name, shape.ConfigHash()))),
	}
}

func account(secret, dir string, keys ...string) *corev1ac.VolumeProjectionApplyConfiguration {
	projection := corev1ac.SecretProjection().WithName(secret)
	for _, key := range keys {
		projection.WithItems(corev1ac.KeyToPath().WithKey(key).WithPath(dir + "/" + key))
	}
	return corev1ac.VolumeProjection().WithSecret(projection)
}

func mount(volume, path string, readOnly bool) *corev1ac.VolumeMountApplyConfiguration {
	m := corev1ac.VolumeMount().WithName(volume).WithMountPath(path)
	if readOnly {
		m.WithReadOnly(true)
	}
	return m
}
