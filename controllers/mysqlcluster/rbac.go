package mysqlcluster

// What the cluster lane may do. Names of children are not known before a MySQLCluster exists, in any namespace, so that
// resourceNames cannot narrow this; verbs do. Secrets: it makes and heals those of its clusters (certificates, accounts)
// and deletes those of removed instances; its cache holds only Secrets that carry its label. Server-side apply needs
// create and patch, never update. Pods are created only to check a configuration (and by dry run), and deleted one at a
// time to restart an instance. Volumes are deleted only where spec.storage.reclaimPolicy says so.
//
// +kubebuilder:rbac:groups=porpoise.dev,resources=mysqlclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=porpoise.dev,resources=mysqlclusters/status,verbs=patch
// +kubebuilder:rbac:groups=porpoise.dev,resources=mysqlclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=porpoise.dev,resources=mysqltopologies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets;controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps;secrets;persistentvolumeclaims;pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
