package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// failoverOptions are the flags of failover.
type failoverOptions struct {
	accept  bool
	yes     bool
	timeout time.Duration
}

const failoverLong = `Let a failover go on although acknowledged commits may be lost by it.

A lost primary is replaced by itself, without a command, wherever it is certain that no acknowledged commit is lost. Where too
many instances lost their data, or do not answer, nobody can be certain: the cluster waits, and says what it waits for.
Whoever cannot bring these instances back can decide that going on is worth what only they hold:

  kubectl porpoise failover CLUSTER --accept-data-loss

Of the instances that answer the one that holds most becomes primary. What only the others hold is lost for good,
although clients were told that it was committed. Who accepted it and when is recorded. An acceptance counts for one failover; one that
was not needed is withdrawn.

To change the primary of a cluster that serves: kubectl porpoise switchover CLUSTER.

You need the rights to get and patch mysqlclusters.porpoise.dev and to get mysqltopologies.porpoise.dev in the namespace.`

func (t *tool) failoverCommand() *cobra.Command {
	o := &failoverOptions{}
	cmd := &cobra.Command{
		Use:               "failover CLUSTER --accept-data-loss",
		Short:             "Let a failover go on although acknowledged commits may be lost",
		Long:              failoverLong,
		Example:           example("failover orders", "failover orders --accept-data-loss", "failover orders -n shop --accept-data-loss --yes"),
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
			return t.requester(conn, args[0], o.timeout).failOver(cmd.Context(), *o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.accept, "accept-data-loss", false, "accept that commits which only unreachable instances hold are lost for good")
	flags.BoolVar(&o.yes, "yes", false, "do not ask for confirmation")
	flags.DurationVar(&o.timeout, "timeout", defaultRequestTimeout, "how long to wait for the new primary; an acceptance that was not used by then is withdrawn")
	return cmd
}

func (r *requester) failOver(ctx context.Context, o failoverOptions) error {
	var before *porpoisev1.MySQLCluster
	var who string
	err := r.limited(ctx, func(ctx context.Context) error {
		var err error
		if before, err = r.cluster(ctx); err != nil {
			return err
		}
		topology, err := r.topology(ctx)
		if err != nil {
			return err
		}
		if err := refuseFailover(before, topology); err != nil {
			return err
		}
		if err := r.print(lossText(topology)); err != nil {
			return err
		}
		if !o.accept {
			return errors.New("nothing was done: --accept-data-loss is not given (what it does: kubectl porpoise failover --help)")
		}
		who, err = r.whoAmI(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.confirm(before.Name, o.yes); err != nil {
		return err
	}
	r.started = r.now() // Thinking is no part of it.
	return r.limited(ctx, func(ctx context.Context) error { return r.acceptLoss(ctx, before, who) })
}

func (r *requester) limited(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return work(ctx)
}

// lossText says how it stands and what is at stake.
func lossText(t *porpoisev1.MySQLTopology) string {
	p := &page{}
	s := t.Status
	p.linef("%s is %s: %s", clean(t.Name), clean(string(s.Phase)), clean(joinNonEmpty(": ", s.Reason, s.Message)))
	p.linef("  Last primary  %s", clean(orDash(s.Primary)))
	if s.Quorum != nil {
		var answer, silent []string
		for _, m := range s.Quorum.Members {
			state := stateOf(t, m.Name)
			text := fmt.Sprintf("%s (%s)", m.Name, orDash(string(state)))
			if state == porpoisev1.InstanceRunning || state == porpoisev1.InstanceJoining || state == porpoisev1.InstanceLeaving {
				answer = append(answer, text)
				continue
			}
			silent = append(silent, text)
		}
		p.linef("  Each commit was acknowledged by %d of %s besides the primary", s.Quorum.RequiredAcks, plural(len(s.Quorum.Members), "member"))
		p.linef("  Answering     %s", clean(orDash(strings.Join(answer, ", "))))
		p.linef("  Silent        %s", clean(orDash(strings.Join(silent, ", "))))
		p.linef("What only the last primary and silent members hold would be lost for good, although clients were told that it was committed.")
	}
	return p.String()
}

func stateOf(t *porpoisev1.MySQLTopology, name string) porpoisev1.InstanceState {
	for _, i := range t.Status.Instances {
		if i.Name == name {
			return i.State
		}
	}
	return ""
}

// refuseFailover says where an acceptance would change nothing now, and could be used when nobody thinks of it any more.
func refuseFailover(c *porpoisev1.MySQLCluster, t *porpoisev1.MySQLTopology) error {
	if err := usable(c); err != nil {
		return err
	}
	if t == nil {
		return fmt.Errorf("whether there is a loss to accept cannot be seen: you need the right to get mysqltopologies.porpoise.dev in namespace %s", c.Namespace)
	}
	switch t.Status.Phase {
	case porpoisev1.TopologyFencing, porpoisev1.TopologyRecovering, porpoisev1.TopologyBlocked:
		return nil
	case porpoisev1.TopologyStable:
		return fmt.Errorf("%s is not lost as far as the operator knows, so that there is no loss to accept; to change the primary: kubectl porpoise switchover %s", clean(t.Status.Primary), clean(c.Name))
	}
	return fmt.Errorf("the topology is %s, in which there is no loss to accept", clean(string(t.Status.Phase)))
}

// whoAmI asks the API server who it takes the caller for.
func (r *requester) whoAmI(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := r.conn.client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("find out who you are, which is recorded with the acceptance (create selfsubjectreviews.authentication.k8s.io): %w", err)
	}
	if review.Status.UserInfo.Username == "" {
		return "", errors.New("find out who you are: the API server gives no user name")
	}
	return review.Status.UserInfo.Username, nil
}

// confirm asks a person at a terminal.
func (r *requester) confirm(name string, yes bool) error {
	if yes {
		return nil
	}
	if !r.interactive() {
		return errors.New("nothing was done: nobody can be asked for confirmation, since standard input is no terminal; --yes goes on without")
	}
	if err := r.print(fmt.Sprintf("To accept that, type the cluster's name (%s): ", clean(name))); err != nil {
		return err
	}
	answer, err := bufio.NewReader(r.streams.In).ReadString('\n')
	if got := strings.TrimSpace(answer); got != name {
		return fmt.Errorf("nothing was done: %q is not %q", clean(got), clean(name))
	}
	return err
}

// acceptanceOf puts an acceptance into the form of its annotation, short enough for it.
func acceptanceOf(who string, at time.Time) string {
	suffix := "@" + at.UTC().Format(requestTime)
	name := []rune(clean(who))
	if room := desired.MaxWish - len(suffix); len(name) > room {
		name = append(name[:room-1], '…')
	}
	return string(name) + suffix
}

func (r *requester) acceptLoss(ctx context.Context, before *porpoisev1.MySQLCluster, who string) error {
	id := acceptanceOf(who, r.now())
	if err := r.annotate(ctx, naming.AnnotationAcceptDataLoss, id, usable); err != nil {
		return err
	}
	r.say("%s accepts the loss", who)
	told, used := "", false
	err := r.follow(ctx, func(ctx context.Context, c *porpoisev1.MySQLCluster) (bool, error) {
		t, err := r.topology(ctx)
		if err != nil || t == nil {
			return false, ctx.Err()
		}
		accepted := t.Status.AcceptedDataLoss
		used = accepted != nil && accepted.ID == id
		if text := joinNonEmpty(": ", string(t.Status.Phase), t.Status.Message); text != told {
			told = text
			r.say("%s", text)
		}
		return isOpen(c, t, before), nil
	})
	return r.endAcceptance(ctx, id, told, used, err)
}

// isOpen tells whether a primary of a later epoch is open, or the former one again.
func isOpen(c *porpoisev1.MySQLCluster, t *porpoisev1.MySQLTopology, before *porpoisev1.MySQLCluster) bool {
	available := meta.FindStatusCondition(c.Status.Conditions, porpoisev1.ConditionPrimaryAvailable)
	return t.Status.Phase == porpoisev1.TopologyStable && c.Status.Topology.Epoch == t.Status.Epoch && t.Status.Epoch >= before.Status.Topology.Epoch &&
		available != nil && available.Status == metav1.ConditionTrue
}

// endAcceptance takes the acceptance away: a used one is of no more use, and one that was not used must not be lying about at
// the next loss.
func (r *requester) endAcceptance(ctx context.Context, id, told string, used bool, err error) error {
	if wrong := r.withdraw(ctx, naming.AnnotationAcceptDataLoss, id); wrong != nil {
		err = errors.Join(err, fmt.Errorf("the acceptance could not be taken away; remove the annotation %s, or it counts for the next loss: %w", naming.AnnotationAcceptDataLoss, wrong))
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		what := "the acceptance was not used, and is withdrawn"
		if used {
			what = "the acceptance was used, and the new primary is not open yet"
		}
		return fmt.Errorf("%s: %s; last seen: %s", r.whyOutOfTime(err), what, clean(orDash(told)))
	case err != nil:
		return err
	case !used:
		r.say("there is a primary, and no loss had to be accepted for it: the acceptance is withdrawn")
	default:
		r.say("done; what was lost is not known: compare with what your applications know")
	}
	return nil
}
