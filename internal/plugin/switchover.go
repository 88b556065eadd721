package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// requestTime is how a request's time stands in its id: fine enough that no two are the same.
const requestTime = "2006-01-02T15:04:05.000Z"

// switchoverOptions are the flags of switchover.
type switchoverOptions struct {
	to      string
	timeout time.Duration
	wait    bool
}

func (t *tool) switchoverCommand() *cobra.Command {
	o := &switchoverOptions{}
	cmd := &cobra.Command{
		Use:   "switchover CLUSTER",
		Short: "Make another instance primary while the present one serves",
		Long: `Make another instance primary while the present one serves.

The target catches up first, while writes go on. Then the primary ends its writes, the target applies the last of them and is
opened. Clients of the former primary are disconnected and connect again through the Service. No acknowledged commit
is lost. If the target cannot be opened within 10 s of the end of writes the former primary goes on.

A target that does not exist, does not answer, lags, runs an older version or has transactions of its own is refused with the
reason, and writes never stop. The request is the annotation ` + naming.AnnotationSwitchover + ` of the MySQLCluster, which can be set in
other ways too. Exit code 1 unless the switchover is done.

You need the rights to get and patch mysqlclusters.porpoise.dev in the namespace.`,
		Example:           example("switchover orders", "switchover orders --to orders-2", "switchover orders -n shop --wait=false"),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.timeout <= 0 {
				return fmt.Errorf("--timeout %s: must be more than 0s", o.timeout)
			}
			conn, err := t.connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			return t.requester(conn, args[0], o.timeout).switchOver(ctx, *o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.to, "to", "", "instance that is to be primary (default: the one that fits best)")
	flags.DurationVar(&o.timeout, "timeout", defaultRequestTimeout, "how long to wait for the end of it; a request that nobody has taken up by then is withdrawn")
	flags.BoolVar(&o.wait, "wait", true, "wait for the end of it")
	return cmd
}

func (r *requester) switchOver(ctx context.Context, o switchoverOptions) error {
	to, target := naming.SwitchoverToAny, "the instance that fits best"
	if o.to != "" {
		to, target = o.to, o.to
	}
	id := to + "@" + r.now().UTC().Format(requestTime)
	from := ""
	err := r.annotate(ctx, naming.AnnotationSwitchover, id, func(c *porpoisev1.MySQLCluster) error {
		from = c.Status.Topology.Primary
		return refuseSwitchover(c, o.to)
	})
	if err != nil {
		return err
	}
	r.say("asked for a switchover from %s to %s", from, target)
	if !o.wait {
		return r.print(fmt.Sprintf("To see what becomes of it: kubectl porpoise status %s -n %s\n", clean(r.key.Name), clean(r.key.Namespace)))
	}
	var last *porpoisev1.SwitchoverStatus
	err = r.follow(ctx, func(_ context.Context, c *porpoisev1.MySQLCluster) (bool, error) {
		now := c.Status.Switchover
		if now == nil || now.ID != id {
			if c.Annotations[naming.AnnotationSwitchover] != id {
				return true, fmt.Errorf("the request was replaced by %q before it was carried out", clean(c.Annotations[naming.AnnotationSwitchover]))
			}
			return false, nil
		}
		if last == nil || *last != *now {
			r.say("%s", joinNonEmpty(": ", switchoverText(now.State), now.Message))
		}
		last = now
		return now.State != porpoisev1.SwitchoverRunning, nil
	})
	return r.endSwitchover(ctx, id, last, err)
}

// endSwitchover makes an error of everything but a switchover that was done.
func (r *requester) endSwitchover(ctx context.Context, id string, last *porpoisev1.SwitchoverStatus, err error) error {
	outOfTime := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case outOfTime && last != nil:
		return fmt.Errorf("the switchover has not ended: %s; it goes on, see: kubectl porpoise status %s", r.whyOutOfTime(err), clean(r.key.Name))
	case outOfTime:
		if wrong := r.withdraw(ctx, naming.AnnotationSwitchover, id); wrong != nil {
			return fmt.Errorf("nobody has taken up the request: %s; is the operator running? It could not be withdrawn either: %w", r.whyOutOfTime(err), wrong)
		}
		return fmt.Errorf("nobody has taken up the request: %s; is the operator running? The request is withdrawn", r.whyOutOfTime(err))
	case err != nil:
		return err
	case last.State != porpoisev1.SwitchoverDone:
		return fmt.Errorf("%s: %s", switchoverText(last.State), clean(last.Message))
	}
	return nil
}

func switchoverText(state porpoisev1.SwitchoverState) string {
	switch state {
	case porpoisev1.SwitchoverRunning:
		return "handing over"
	case porpoisev1.SwitchoverDone:
		return "done"
	case porpoisev1.SwitchoverRefused:
		return "refused"
	case porpoisev1.SwitchoverRolledBack:
		return "given up"
	}
	return string(state)
}

// refuseSwitchover says what is known to be refused before anybody is asked.
func refuseSwitchover(c *porpoisev1.MySQLCluster, to string) error {
	if err := usable(c); err != nil {
		return err
	}
	var names []string
	for n := range int(c.Spec.Replicas) {
		names = append(names, naming.Instance(c.Name, n))
	}
	primary := c.Status.Topology.Primary
	switch {
	case len(names) < 2:
		return fmt.Errorf("MySQLCluster %s has one instance: there is no other one", c.Name)
	case to != "" && !slices.Contains(names, to):
		return fmt.Errorf("--to %q: is no instance of %s; there are %s", to, c.Name, strings.Join(names, ", "))
	case to != "" && to == primary:
		return fmt.Errorf("--to %s: is the primary already", to)
	}
	if s := c.Status.Switchover; s != nil && s.State == porpoisev1.SwitchoverRunning {
		return fmt.Errorf("another switchover is under way (%s): %s", clean(s.ID), clean(s.Message))
	}
	return nil
}
