package plugin

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/version"
)

// VersionReport is what `kubectl porpoise version -o json` prints.
type VersionReport struct {
	// Client is this program.
	Client BuildReport `json:"client"`
	// Operators found; usually one.
	Operators []OperatorReport `json:"operators"`
	// Note says why no operator is listed.
	Note string `json:"note,omitempty"`
}

// BuildReport names a build.
type BuildReport struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

// OperatorReport describes one Deployment of the operator.
type OperatorReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version as in the label app.kubernetes.io/version; empty where there is none.
	Version string `json:"version,omitempty"`
	Image   string `json:"image"`
	// Ready of Wanted replicas.
	Ready  int32 `json:"ready"`
	Wanted int32 `json:"wanted"`
}

// operatorLabels find the operator's Deployment.
var operatorLabels = client.MatchingLabels{"app.kubernetes.io/part-of": "porpoise"}

// operatorNamespace is where the operator is by default: the only place to look for who may not look everywhere.
const operatorNamespace = "porpoise-system"

func (t *tool) versionCommand() *cobra.Command {
	var output string
	var clientOnly bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program and of the operator",
		Example: example("version", "version --client", "version -o json"),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "json", "yaml"}, output) {
				return fmt.Errorf("--output %q: want json or yaml", output)
			}
			report := VersionReport{
				Client:    BuildReport{Version: version.Version(), Commit: version.Commit()},
				Operators: []OperatorReport{},
			}
			if !clientOnly {
				t.findOperators(cmd.Context(), &report)
			}
			text := versionText(report)
			if output != "" {
				var err error
				if text, err = encode(output, report); err != nil {
					return err
				}
			}
			_, err := io.WriteString(t.streams.Out, text)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml (default: text for people)")
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask Kubernetes")
	return cmd
}

// findOperators never fails: the client's version is worth printing without Kubernetes.
func (t *tool) findOperators(ctx context.Context, report *VersionReport) {
	conn, err := t.connect()
	if err != nil {
		report.Note = err.Error()
		return
	}
	list := &appsv1.DeploymentList{}
	err = t.bounded(ctx, func(ctx context.Context) error {
		err := conn.client.List(ctx, list, operatorLabels)
		if apierrors.IsForbidden(err) {
			err = conn.client.List(ctx, list, operatorLabels, client.InNamespace(operatorNamespace))
		}
		return err
	})
	switch {
	case apierrors.IsForbidden(err):
		report.Note = "you may not list deployments.apps in namespace " + operatorNamespace
	case err != nil:
		report.Note = fmt.Sprintf("list deployments of the operator: %v", err)
	case len(list.Items) == 0:
		report.Note = "no operator found: no Deployment has the label app.kubernetes.io/part-of=porpoise"
	}
	for i := range list.Items {
		report.Operators = append(report.Operators, operatorReport(&list.Items[i]))
	}
}

func operatorReport(d *appsv1.Deployment) OperatorReport {
	out := OperatorReport{
		Namespace: d.Namespace, Name: d.Name, Version: d.Labels["app.kubernetes.io/version"],
		Ready: d.Status.ReadyReplicas, Wanted: 1,
	}
	if d.Spec.Replicas != nil {
		out.Wanted = *d.Spec.Replicas
	}
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		out.Image = containers[0].Image
	}
	return out
}

func versionText(r VersionReport) string {
	p := &page{}
	p.linef("client    %s", version.String())
	for _, o := range r.Operators {
		p.linef("operator  %s", clean(joinNonEmpty(" ", o.Version, fmt.Sprintf("%s (%s/%s, %d of %d ready)", o.Image, o.Namespace, o.Name, o.Ready, o.Wanted))))
	}
	if r.Note != "" {
		p.linef("operator  unknown: %s", clean(r.Note))
	}
	return p.String()
}
