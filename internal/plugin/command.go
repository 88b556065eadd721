package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "k8s.io/api/apps/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/version"
)

// connection is a way into one Kubernetes cluster.
type connection struct {
	client    client.Client
	agents    AgentAsker
	namespace string
}

// tool carries what all commands share. Tests replace connect.
type tool struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	timeout time.Duration
	now     func() time.Time
	getenv  func(string) string
	connect func() (connection, error)
	// sleep waits between two looks; interactive tells whether a person can be asked.
	sleep       func(context.Context, time.Duration) error
	interactive func() bool
}

// NewCommand returns the command line of kubectl-porpoise.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	t := &tool{
		streams: streams,
		flags:   genericclioptions.NewConfigFlags(true),
		now:     time.Now, getenv: os.Getenv,
		sleep: sleep,
	}
	t.interactive = func() bool { return isTerminalInput(streams.In) }
	t.connect = t.connectByFlags
	return t.command()
}

func (t *tool) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "porpoise",
		Short: "Look into MySQL clusters that Porpoise runs, and change their primary",
		Long: `Look into MySQL clusters that Porpoise runs, and change their primary.

It works with your own rights in Kubernetes. status and version change nothing; switchover and failover set an annotation of the
MySQLCluster, by which the operator is asked.`,
		Example:       example("status", "status orders -n shop", "switchover orders --to orders-2", "version"),
		Version:       version.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName()},
	}
	root.SetOut(t.streams.Out)
	root.SetErr(t.streams.ErrOut)
	t.flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().DurationVar(&t.timeout, "timeout", 15*time.Second, "how long to wait for Kubernetes and the agents in all")
	root.AddCommand(t.statusCommand(), t.switchoverCommand(), t.failoverCommand(), t.versionCommand())
	return root
}

// displayName is what people type: kubectl finds plugins by the name of their file.
func displayName() string {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") {
		return "kubectl porpoise"
	}
	return "porpoise"
}

func example(lines ...string) string {
	for i, line := range lines {
		lines[i] = "  kubectl porpoise " + line
	}
	return strings.Join(lines, "\n")
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, porpoisev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	return scheme, nil
}

// newMapper knows the few kinds that are read, so that nothing has to be discovered first.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"MySQLCluster", "MySQLTopology"} {
		mapper.Add(porpoisev1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Pod", "Event", "Secret"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	return mapper
}

func (t *tool) connectByFlags() (connection, error) {
	namespace, _, err := t.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return connection{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config, err := t.flags.ToRESTConfig()
	if err != nil {
		return connection{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.UserAgent = "kubectl-porpoise/" + version.Version()
	// Warnings of the API server are for those who write objects.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	scheme, err := newScheme()
	if err != nil {
		return connection{}, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: newMapper()})
	if err != nil {
		return connection{}, fmt.Errorf("make a client of the API server: %w", err)
	}
	return connection{client: c, agents: NewForwardingAsker(c, config, agentTimeout(t.timeout)), namespace: namespace}, nil
}

// agentTimeout leaves time to print what is known when agents do not answer.
func agentTimeout(all time.Duration) time.Duration { return min(5*time.Second, all/2) }

// bounded runs work under --timeout.
func (t *tool) bounded(ctx context.Context, work func(context.Context) error) error {
	if t.timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be more than 0s", t.timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	return work(ctx)
}
