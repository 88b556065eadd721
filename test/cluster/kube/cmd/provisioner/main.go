package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	provisionerName = "porpoise.dev/local"
	// retryAfter bounds how soon a failed provisioning or deletion is tried again.
	retryAfter = 5 * time.Second
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	hostPattern := flag.String("host-dir", "", "directory of a node's volumes as this program sees it; * stands for the node's name")
	nodeDir := flag.String("node-dir", "", "the same directory as the node sees it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, directories{hostPattern: *hostPattern, nodeDir: *nodeDir}); err != nil {
		klog.ErrorS(err, "Provisioner ended")
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, dirs directories) error {
	if !filepath.IsAbs(dirs.hostPattern) || !filepath.IsAbs(dirs.nodeDir) {
		return errors.New("--host-dir and --node-dir must be absolute paths")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("load kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	resizer, err := newResizer(client, factory)
	if err != nil {
		return err
	}
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	classes := factory.Storage().V1().StorageClasses().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go resizer.run(ctx)
	controller.NewProvisionController(ctx, client, provisionerName, provisioner{dirs: dirs},
		controller.LeaderElection(false),
		controller.ClaimsInformer(claims),
		controller.VolumesInformer(volumes),
		controller.ClassesInformer(classes),
		controller.RetryIntervalMax(retryAfter),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
	).Run(ctx)
	return nil
}
