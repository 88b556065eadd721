package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// resizer lets claims grow: it watches claims and volumes and applies what planGrowth says, one write at a time.
type resizer struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newResizer(client kubernetes.Interface, factory informers.SharedInformerFactory) (*resizer, error) {
	r := &resizer{
		client:  client,
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: factory.Core().V1().PersistentVolumes().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](50*time.Millisecond, retryAfter)),
	}
	handlers := cache.ResourceEventHandlerFuncs{
		AddFunc:    r.enqueue,
		UpdateFunc: func(_, now any) { r.enqueue(now) },
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().PersistentVolumeClaims().Informer(),
		factory.Core().V1().PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return nil, fmt.Errorf("watch claims and volumes: %w", err)
		}
	}
	return r, nil
}

func (r *resizer) enqueue(object any) {
	switch o := object.(type) {
	case *corev1.PersistentVolumeClaim:
		r.queue.Add(cache.MetaObjectToName(o))
	case *corev1.PersistentVolume:
		if o.Spec.ClaimRef != nil {
			r.queue.Add(cache.NewObjectName(o.Spec.ClaimRef.Namespace, o.Spec.ClaimRef.Name))
		}
	}
}

func (r *resizer) run(ctx context.Context) {
	context.AfterFunc(ctx, r.queue.ShutDown)
	for {
		name, stopped := r.queue.Get()
		if stopped {
			return
		}
		if err := r.grow(ctx, name); err != nil {
			klog.ErrorS(err, "Claim does not grow", "claim", name)
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

// grow does the claim's next step, if it has one. Its own write brings the claim back into the queue for the step after.
func (r *resizer) grow(ctx context.Context, name cache.ObjectName) error {
	claim, err := r.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get claim %s: %w", name, err)
	}
	volume, err := r.volumes.Get(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return nil // not bound yet, or its informer is behind and will bring it
	}
	if err != nil {
		return fmt.Errorf("get volume %s of claim %s: %w", claim.Spec.VolumeName, name, err)
	}
	if !isOurs(claim, volume) {
		return nil
	}
	switch step := planGrowth(claim, volume, metav1.Now()); {
	case step.capacity != nil:
		changed := volume.DeepCopy()
		changed.Spec.Capacity[corev1.ResourceStorage] = *step.capacity
		if _, err := r.client.CoreV1().PersistentVolumes().Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("grow volume %s of claim %s: %w", volume.Name, name, err)
		}
		klog.InfoS("Volume has grown", "claim", name, "volume", volume.Name, "size", step.capacity)
	case step.claimStatus != nil:
		changed := claim.DeepCopy()
		changed.Status = *step.claimStatus
		if _, err := r.client.CoreV1().PersistentVolumeClaims(name.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("write status of growing claim %s: %w", name, err)
		}
	}
	return nil
}
