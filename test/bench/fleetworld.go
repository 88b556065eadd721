package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/test/fakeagent"
)

// fleetWorld plays everybody whom an API server alone lacks: the StatefulSet controller, scheduler, kubelet and the
// provisioner of volumes. An instance's pod "runs" with an address of 127.0.0.0/8, at which its fake agent listens.
type fleetWorld struct {
	client, cached client.Client
	writeRate      float64
	stop           func() error
	// block is where the agents' addresses begin: 127.BLOCK.
	block int

	mu       sync.Mutex
	clusters map[string]*fakeagent.World
	servers  map[string]*fakeagent.Server
	// failed is why the world does not go on.
	failed error
}

// blocks may each hold the addresses of 10000 clusters. Two fleets on one machine take different ones.
var blocks = []int{208, 168, 128}

// claimBlock takes a block for as long as the listener is open, at an address that no instance gets.
func claimBlock() (block int, claim net.Listener, err error) {
	for _, block = range blocks {
		if claim, err = net.Listen("tcp", fmt.Sprintf("127.%d.0.1:%d", block, naming.PortAgent)); err == nil {
			return block, claim, nil
		}
	}
	return 0, nil, fmt.Errorf("find addresses for agents: is somebody listening at port %d of all addresses? %w", naming.PortAgent, err)
}

func startFleetWorld(ctx context.Context, api *controlPlane, o *fleetOptions) (*fleetWorld, error) {
	mgr, err := ctrl.NewManager(api.config, ctrl.Options{
		Scheme: api.scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("play the nodes: %w", err)
	}
	block, claim, err := claimBlock()
	if err != nil {
		return nil, err
	}
	w, err := runFleetWorld(ctx, api, o, mgr, block)
	if err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	stop := w.stop
	w.stop = func() error { return errors.Join(stop(), claim.Close()) }
	return w, nil
}

func runFleetWorld(ctx context.Context, api *controlPlane, o *fleetOptions, mgr ctrl.Manager, block int) (*fleetWorld, error) {
	w := &fleetWorld{
		client: api.client, cached: mgr.GetClient(), writeRate: o.writeRate, block: block,
		clusters: map[string]*fakeagent.World{}, servers: map[string]*fakeagent.Server{},
	}
	workers := controller.Options{MaxConcurrentReconciles: 8}
	for _, c := range []struct {
		name  string
		build error
	}{
		{"instances", ctrl.NewControllerManagedBy(mgr).Named("instances").For(&appsv1.StatefulSet{}).Owns(&corev1.Pod{}).WithOptions(workers).Complete(reconcile.Func(w.runInstance))},
		{"checks", ctrl.NewControllerManagedBy(mgr).Named("checks").For(&corev1.Pod{}).WithOptions(workers).Complete(reconcile.Func(w.runCheck))},
		{"claims", ctrl.NewControllerManagedBy(mgr).Named("claims").For(&corev1.PersistentVolumeClaim{}).WithOptions(workers).Complete(reconcile.Func(w.bindClaim))},
	} {
		if c.build != nil {
			return nil, fmt.Errorf("play the nodes: %s: %w", c.name, c.build)
		}
	}
	if _, err := mgr.GetCache().GetInformer(ctx, &porpoisev1.MySQLCluster{}); err != nil {
		return nil, fmt.Errorf("play the nodes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
			w.fail(fmt.Errorf("play the nodes: %w", err))
		}
	}()
	w.stop = func() error {
		cancel()
		<-ended
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range w.servers {
			s.Close()
		}
		return nil
	}
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return nil, errors.Join(errors.New("play the nodes: the cache did not fill"), w.stop())
	}
	return w, nil
}

func (w *fleetWorld) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
}

func (w *fleetWorld) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// sent counts the documents that all agents gave away.
func (w *fleetWorld) sent() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var n uint64
	for instance := range w.servers {
		n += w.clusters[clusterOfInstance(instance)].Sent(instance)
	}
	return n
}

func clusterOfInstance(instance string) string { return instance[:strings.LastIndex(instance, "-")] }

// fleetIP gives each instance an address: 127.(BLOCK and up).CLUSTER.INSTANCE.
func fleetIP(block int, cluster, instance string) (string, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(cluster, "db-"))
	if err != nil {
		return "", fmt.Errorf("cluster %s: %w", cluster, err)
	}
	ordinal, err := naming.Ordinal(cluster, instance)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.%d.%d.%d", block+n/250, 1+n%250, 1+ordinal), nil
}

// runInstance gives a StatefulSet its pod, with an agent.
func (w *fleetWorld) runInstance(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := w.cached.Get(ctx, r.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if set.Status.ObservedGeneration != set.Generation {
		set.Status.ObservedGeneration = set.Generation
		if err := w.client.Status().Update(ctx, set); err != nil {
			return again(err)
		}
	}
	pod := &corev1.Pod{}
	err := w.cached.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: naming.Pod(set.Name)}, pod)
	if apierrors.IsNotFound(err) {
		return again(w.client.Create(ctx, podOf(set)))
	}
	if err != nil || pod.Status.Phase == corev1.PodRunning || !pod.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, err
	}
	ip, ready, err := w.serve(ctx, set.Labels[naming.LabelCluster], set.Name)
	if err != nil {
		w.fail(err)
		return reconcile.Result{}, err
	}
	if !ready {
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	pod.Status = runningStatus(ip)
	return again(w.client.Status().Update(ctx, pod))
}

func podOf(set *appsv1.StatefulSet) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.Namespace = naming.Pod(set.Name), set.Namespace
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) // Nobody would end it.
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	return pod
}

func runningStatus(ip string) corev1.PodStatus {
	now := metav1.Now()
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "mysqld", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return status
}

// serve makes the agent of an instance listen, once its certificate is there.
func (w *fleetWorld) serve(ctx context.Context, cluster, instance string) (ip string, ready bool, err error) {
	if ip, err = fleetIP(w.block, cluster, instance); err != nil {
		return "", false, err
	}
	w.mu.Lock()
	running := w.servers[instance] != nil
	w.mu.Unlock()
	if running {
		return ip, true, nil
	}
	secret := &corev1.Secret{}
	// Not cached: a model of nodes needs no copy of all Secrets.
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: naming.SecretInstanceTLS(instance)}, secret); err != nil {
		return "", false, client.IgnoreNotFound(err)
	}
	pair, err := tls.X509KeyPair(secret.Data[naming.FileTLSCert], secret.Data[naming.FileTLSKey])
	if err != nil {
		return "", false, fmt.Errorf("secret %s: %w", secret.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	world := w.clusters[cluster]
	if world == nil {
		world = fakeagent.NewWorld(fleetNamespace, cluster)
		world.SetWriteRate(w.writeRate)
		w.clusters[cluster] = world
	}
	world.Add(instance)
	server, err := world.ServeTLS(instance, ip, pair, secret.Data[naming.FileCA])
	if err != nil {
		return "", false, err
	}
	w.servers[instance] = server
	return ip, true, nil
}

// runCheck lets every configuration check succeed.
func (w *fleetWorld) runCheck(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := w.cached.Get(ctx, r.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Labels[naming.LabelComponent] != "config-check" || pod.Status.Phase == corev1.PodSucceeded {
		return reconcile.Result{}, nil
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  pod.Spec.Containers[0].Name,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: `{"ok":true,"version":"9.7.4"}`, FinishedAt: metav1.Now()}},
	}}
	return again(w.client.Status().Update(ctx, pod))
}

// bindClaim gives every claim its volume.
func (w *fleetWorld) bindClaim(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := w.cached.Get(ctx, r.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.Status.Phase == corev1.ClaimBound {
		return reconcile.Result{}, nil
	}
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = claim.Spec.Resources.Requests
	return again(w.client.Status().Update(ctx, claim))
}

// again drops errors that the cache being late explains: its next event triggers.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return reconcile.Result{}, err
}
