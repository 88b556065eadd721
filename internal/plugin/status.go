package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

// statusOptions are the flags of status.
type statusOptions struct {
	output        string
	color         string
	allNamespaces bool
	watch         bool
	interval      time.Duration
	events        int
	gtid          bool
	noLive        bool
}

// minWatchInterval protects the API server from a typo.
const minWatchInterval = 500 * time.Millisecond

func (t *tool) statusCommand() *cobra.Command {
	o := &statusOptions{}
	cmd := &cobra.Command{
		Use:   "status [CLUSTER]",
		Short: "Show a cluster's topology, lag, what is wrong and what happened last",
		Long: `Show a cluster's topology, lag, what is wrong and what happened last. Without a name, list the clusters.

Lag, GTID sets and the state of replication move with every commit; they come from the agents in the pods. Asking
these needs the rights "get secrets/CLUSTER-viewer-tls" and "create pods/portforward" in the namespace; whoever
lacks them sees everything else, and a note.

Columns: ACKS: its acknowledgement counts for commits. LAG: seconds between a commit on the primary and its being
applied. BEHIND: transactions of the primary it has not executed. UNAPPLIED: those of them it has received.

The fields of -o json and -o yaml are only ever added to within one apiVersion.`,
		Example: example("status", "status orders", "status orders -n shop --watch", "status orders -o json | jq '.instances[] | {name, role, lag: .live.replication.lagSeconds}'",
			"status -A -o name"),
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(len(args) == 1); err != nil {
				return err
			}
			conn, err := t.connect()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return t.bounded(cmd.Context(), func(ctx context.Context) error { return t.listClusters(ctx, conn, *o) })
			}
			return t.showStatus(cmd.Context(), conn, args[0], *o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "", "json or yaml; name in a list of clusters (default: text for people)")
	flags.StringVar(&o.color, "color", ColorAuto, "auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "list the clusters of all namespaces")
	flags.BoolVarP(&o.watch, "watch", "w", false, "refresh until interrupted")
	flags.DurationVar(&o.interval, "interval", 2*time.Second, "time between refreshes of --watch")
	flags.IntVar(&o.events, "events", 10, "number of events, the newest; 0 shows none")
	flags.BoolVar(&o.gtid, "gtid", false, "print the GTID sets of all instances in full")
	flags.BoolVar(&o.noLive, "no-live", false, "do not ask the agents")
	return cmd
}

func (o statusOptions) validate(named bool) error {
	formats := []string{"", "json", "yaml"}
	if !named {
		formats = append(formats, "name")
	}
	switch {
	case !slices.Contains(formats, o.output):
		return fmt.Errorf("--output %q: want %s", o.output, strings.Join(formats[1:], ", "))
	case !slices.Contains([]string{ColorAuto, ColorAlways, ColorNever}, o.color):
		return fmt.Errorf("--color %q: want auto, always or never", o.color)
	case o.watch && (o.output != "" || !named):
		return errors.New("--watch: is for the text of one cluster; name it, and leave --output out")
	case o.watch && o.interval < minWatchInterval:
		return fmt.Errorf("--interval %s: want at least %s", o.interval, minWatchInterval)
	case o.events < 0:
		return fmt.Errorf("--events %d: want 0 or more", o.events)
	case named && o.allNamespaces:
		return errors.New("--all-namespaces: is for the list of clusters; leave the name out, or use --namespace")
	}
	return nil
}

func (t *tool) showStatus(ctx context.Context, conn connection, name string, o statusOptions) error {
	for {
		text, err := t.statusText(ctx, conn, name, o)
		if ctx.Err() != nil && o.watch {
			return nil
		}
		if !o.watch {
			if err != nil {
				return err
			}
			_, err = io.WriteString(t.streams.Out, text)
			return err
		}
		// A watch outlives a moment without API server or cluster.
		if err != nil {
			text = err.Error() + "\n"
		}
		head := fmt.Sprintf("every %s, %s; end with Ctrl-C\n\n", o.interval, t.now().Format(time.TimeOnly))
		if isTerminal(t.streams.Out) {
			head = "\x1b[H\x1b[2J\x1b[3J" + head
		}
		if _, err := io.WriteString(t.streams.Out, head+text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.interval):
		}
	}
}

func (t *tool) statusText(ctx context.Context, conn connection, name string, o statusOptions) (string, error) {
	var text string
	err := t.bounded(ctx, func(ctx context.Context) error {
		g := Gatherer{Client: conn.client, Now: t.now, MaxEvents: o.events}
		if !o.noLive {
			g.Agents = conn.agents
		}
		key := client.ObjectKey{Namespace: conn.namespace, Name: name}
		sources, err := g.Gather(ctx, key)
		if err != nil {
			return t.explain(ctx, conn, key, err)
		}
		report := Build(sources)
		if o.output == "" {
			text = Render(report, RenderOptions{Color: wantsColor(o.color, t.streams.Out, t.getenv), Full: o.gtid})
			return nil
		}
		text, err = encode(o.output, report)
		return err
	})
	return text, err
}

func encode(format string, value any) (string, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return "", fmt.Errorf("encode as %s: %w", format, err)
	}
	return strings.TrimRight(string(text), "\n") + "\n", nil
}

func (t *tool) listClusters(ctx context.Context, conn connection, o statusOptions) error {
	clusters, err := readClusters(ctx, conn, o.allNamespaces)
	if err != nil {
		return t.explain(ctx, conn, client.ObjectKey{Namespace: conn.namespace}, err)
	}
	var text string
	switch o.output {
	case "":
		text = listText(clusters, conn.namespace, o.allNamespaces, wantsColor(o.color, t.streams.Out, t.getenv), t.now())
	case "name":
		for _, c := range clusters {
			if o.allNamespaces {
				text += c.Namespace + "/"
			}
			text += c.Name + "\n"
		}
	default:
		text, err = encode(o.output, ListReport{APIVersion: ReportAPIVersion, Kind: ListKind, Items: clusters})
		if err != nil {
			return err
		}
	}
	_, err = io.WriteString(t.streams.Out, text)
	return err
}

func readClusters(ctx context.Context, conn connection, everywhere bool) ([]ClusterReport, error) {
	list := &porpoisev1.MySQLClusterList{}
	options := []client.ListOption{client.InNamespace(conn.namespace)}
	if everywhere {
		options = nil
	}
	if err := conn.client.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("list mysqlclusters: %w", err)
	}
	out := make([]ClusterReport, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, buildCluster(&list.Items[i]))
	}
	return out, nil
}

func listText(clusters []ClusterReport, namespace string, everywhere, color bool, now time.Time) string {
	p := &page{color: color}
	if len(clusters) == 0 {
		where := "in namespace " + namespace + " (all namespaces: -A)"
		if everywhere {
			where = "in any namespace"
		}
		p.linef("There is no MySQLCluster %s.", clean(where))
		return p.String()
	}
	rows := [][]cell{{{text: "NAMESPACE", style: faint}, {text: "NAME", style: faint}, {text: "PHASE", style: faint},
		{text: "READY", style: faint}, {text: "VERSION", style: faint}, {text: "AGE", style: faint}}}
	for _, c := range clusters {
		rows = append(rows, []cell{
			{text: c.Namespace}, {text: c.Name, style: bold}, {text: orDash(string(c.Phase)), style: phaseStyle(c)},
			{text: fmt.Sprintf("%d/%d", c.ReadyInstances, c.WantedInstances)}, {text: c.Version}, {text: orDash(age("", c.CreatedAt, now, ""))},
		})
	}
	p.table("", rows)
	return p.String()
}

// completeClusters lists names for the shell; without a connection there is nothing to offer.
func (t *tool) completeClusters(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	conn, err := t.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	_ = t.bounded(cmd.Context(), func(ctx context.Context) error {
		clusters, err := readClusters(ctx, conn, false)
		for _, c := range clusters {
			names = append(names, c.Name)
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// explain turns what the API server refused into what a person can do about it.
func (t *tool) explain(ctx context.Context, conn connection, key client.ObjectKey, err error) error {
	const resource = "mysqlclusters.porpoise.dev"
	switch {
	case kindMissing(err):
		return fmt.Errorf("Porpoise is not installed in this Kubernetes cluster: it has no %s. Is this the right --context? (%w)", resource, err) //nolint:staticcheck // a name begins it
	case apierrors.IsForbidden(err):
		verb := "get"
		if key.Name == "" {
			verb = "list"
		}
		return fmt.Errorf("you may not %s %s in namespace %s; ask for that right (see: kubectl auth can-i --list -n %s): %w",
			verb, resource, key.Namespace, key.Namespace, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server does not accept your credentials; log in again: %w", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no MySQLCluster %q in namespace %s; %s", key.Name, key.Namespace, others(ctx, conn))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within --timeout %s: %w", t.timeout, err)
	}
	return err
}

// others names what is there instead of what was asked for.
func others(ctx context.Context, conn connection) string {
	clusters, err := readClusters(ctx, conn, false)
	if err != nil || len(clusters) == 0 {
		return "there is none at all (all namespaces: kubectl porpoise status -A)"
	}
	var names []string
	for _, c := range clusters {
		names = append(names, clean(c.Name))
	}
	return "there is: " + strings.Join(names, ", ")
}

// kindMissing tells a kind that the API server does not serve from an object that is not there: only the latter's
// answer names the object.
func kindMissing(err error) bool {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.ErrStatus.Details
	return details == nil || details.Name == "" || apierrors.HasStatusCause(err, "UnexpectedServerResponse")
}
