package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/release/image"
)

// Env is a Kubernetes cluster to work with.
type Env struct {
	// Config and Client talk to its API server as administrator.
	Config *rest.Config
	Client client.Client
	// Kubeconfig is the path of the file that Config came from.
	Kubeconfig string
	// Local drives the local cluster; nil: it is another one.
	Local *Local
	// Images that were built. DeployRef gives what a pod can use.
	Images image.Manifest
	// Timeline gets progress.
	Timeline *Timeline
	// LogDir gets diagnostics.
	LogDir string

	options Options
	run     runner
}

// Up makes everything: cluster, images, operator.
func Up(ctx context.Context, o Options) (*Env, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	e, err := newEnv(o)
	if err != nil {
		return nil, err
	}
	// Waiting for Kubernetes and building images share the machine well. An error of one ends the other.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.connect(groupCtx) })
	group.Go(func() error { return e.buildImages(groupCtx) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := e.distributeImages(ctx); err != nil {
		return nil, err
	}
	if err := e.Deploy(ctx); err != nil {
		if dir, dumpErr := e.DumpDiagnostics(ctx, err.Error()); dumpErr == nil && ctx.Err() == nil {
			err = fmt.Errorf("%w\n  objects, events and logs: %s", err, dir)
		}
		return nil, err
	}
	return e, nil
}

// Attach connects to the cluster of KUBECONFIG, in which a Makefile target has installed the operator.
func Attach(ctx context.Context, o Options) (*Env, error) {
	if o.Kubeconfig == "" {
		return nil, errors.New("KUBECONFIG is not set: use a target of the Makefile, such as make test-e2e, which makes the cluster")
	}
	e, err := newEnv(o)
	if err != nil {
		return nil, err
	}
	if e.Images, err = image.ReadManifest(e.manifestPath()); err != nil {
		return nil, err
	}
	return e, e.connect(ctx)
}

func newEnv(o Options) (*Env, error) {
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	e := &Env{Timeline: NewTimeline(o.Out), LogDir: r.logDir, options: o, run: r}
	if o.LocalName != "" {
		e.Local = &Local{name: o.LocalName, run: r, timeline: e.Timeline}
	}
	return e, nil
}

func (e *Env) manifestPath() string {
	if path := os.Getenv("PORPOISE_IMAGES"); path != "" {
		return path
	}
	return filepath.Join(e.run.root, "bin", "images", "images.json")
}

// connect makes the clients, and the local cluster where no kubeconfig is given.
func (e *Env) connect(ctx context.Context) error {
	e.Kubeconfig = e.options.Kubeconfig
	if e.Kubeconfig == "" {
		path, err := e.Local.Up(ctx, e.options.Nodes)
		if err != nil {
			return err
		}
		e.Kubeconfig = path
	}
	var err error
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(e.Kubeconfig)}
	e.Config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", e.Kubeconfig, err)
	}
	// Tests look often: a limit would be what they measure, and what a wait in vain would report last.
	e.Config.QPS = -1
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	// Unset, controller-runtime prints a stack to complain; the timeline tells all there is to tell.
	quiet.Do(func() { ctrllog.SetLogger(logr.Discard()) })
	e.Client, err = client.New(e.Config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client with kubeconfig %s: %w", e.Kubeconfig, err)
	}
	return nil
}

var quiet sync.Once

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, porpoisev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	return scheme, nil
}

// buildImages builds what changed since the last time. Where the images were brought to the nodes by hand it builds
// nothing: the nodes would not have it.
func (e *Env) buildImages(ctx context.Context) error {
	loaded := e.options.External() && e.options.Registry == RegistryLoaded
	step := e.Timeline.Begin("Images: build operator and MySQL")
	if !loaded {
		if _, err := e.run.run(ctx, step, "images", "make", "images"); err != nil {
			return step.Fail(err)
		}
	}
	manifest, err := image.ReadManifest(e.manifestPath())
	if err != nil {
		return step.Fail(err)
	}
	if loaded {
		manifest = asLoaded(manifest)
	}
	e.Images = manifest
	for _, name := range []string{image.NameOperator, image.NameMySQL} {
		if _, err := manifest.Find(name); err != nil {
			return step.Fail(err)
		}
	}
	operator, _ := manifest.Find(image.NameOperator)
	mysql, _ := manifest.Find(image.NameMySQL)
	step.Done("operator %s, MySQL %s", operator.Version, mysql.Version)
	return nil
}

// asLoaded names images as their archives do, which is how nodes know them, even if they were pushed to some registry too.
func asLoaded(manifest image.Manifest) image.Manifest {
	for i := range manifest.Images {
		manifest.Images[i].Pushed = ""
	}
	return manifest
}

// distributeImages brings the images to where the nodes find them.
func (e *Env) distributeImages(ctx context.Context) error {
	switch {
	case e.Local != nil:
		var archives []string
		for _, b := range e.Images.Images {
			archives = append(archives, e.absolute(b.Archive()))
		}
		return e.Local.load(ctx, archives)
	case e.options.Registry == RegistryLoaded:
		return nil
	}
	step := e.Timeline.Begin("Images: push to %s", e.options.Registry)
	if _, err := e.run.run(ctx, step, "images-push", "go", "run", "./hack/images", "push", "--registry", e.options.Registry); err != nil {
		return step.Fail(err)
	}
	var err error
	if e.Images, err = image.ReadManifest(e.manifestPath()); err != nil {
		return step.Fail(err)
	}
	step.Done("%d images", len(e.Images.Images))
	return nil
}

// absolute completes a path that the list of images gives relative to the work tree.
func (e *Env) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.run.root, path)
}

// Image returns the reference of a built image that pods can use: image.NameOperator or image.NameMySQL.
func (e *Env) Image(name string) (string, error) {
	b, err := e.Images.Find(name)
	if err != nil {
		return "", err
	}
	return b.DeployRef(), nil
}
