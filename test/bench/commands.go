package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porpoise-dev/porpoise/internal/version"
	"github.com/porpoise-dev/porpoise/test/bench/internal/figure"
	"github.com/porpoise-dev/porpoise/test/env"
)

// createdBy marks what the benchmark made in a cluster that is not its own.
const createdBy = "porpoise-bench"

// bench is what all commands share.
type bench struct {
	env        env.Options
	out        string
	document   string
	updateDocs bool
	keep       bool
	quick      bool
	// command is what was called, for the figures.
	command string
	// machine as it was before anything was built or measured.
	machine figure.Machine
}

// Where figures go. Those of a quick look never take the place of real ones.
const outFolder, quickFolder = "bin/bench", "bin/bench/quick"

const long = `Measure what docs/benchmarks.md states, one figure by one command.

create, quiet and failover use a local Kubernetes of their own, or the cluster of KUBECONFIG if that is set (then REGISTRY names the
registry to which the images are pushed). fleet runs an API server, the manager and fake agents as processes of this
machine, durability and failover-agents real mysqlds. Measure on a quiet machine: each figure notes how much of it others used.`

func rootCommand() *cobra.Command {
	b := &bench{env: env.FromEnvironment()}
	b.env.CreatedBy, b.env.Out = createdBy, os.Stderr
	if b.env.Kubeconfig == "" {
		b.env.LocalName = "bench" // Not the one that CLUSTER names: measuring shares with nobody.
	}
	root := &cobra.Command{
		Use: "bench", Short: "Measure what docs/benchmarks.md states", Long: long, SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return b.chooseFolder() },
	}
	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&b.out, "out", "", "`folder` that gets FIGURE.json (default "+outFolder+", with --quick "+quickFolder+")")
	f.BoolVar(&b.updateDocs, "update-docs", false, "write what was measured between the marks of the document")
	f.StringVar(&b.document, "document", "docs/benchmarks.md", "`file` that --update-docs updates")
	f.StringVar(&b.env.LocalName, "cluster", b.env.LocalName, "name of the local Kubernetes")
	f.IntVar(&b.env.Nodes, "nodes", 1, "nodes of the local Kubernetes")
	f.BoolVar(&b.keep, "keep", false, "leave the local Kubernetes standing")
	f.BoolVar(&b.quick, "quick", false, "tiny parameters where none are given: shows that everything works, gives no figures to trust")
	create, quiet, fleet, durability, failover, crash := &createOptions{}, &quietOptions{}, &fleetOptions{}, &durabilityOptions{}, &failoverOptions{}, &crashOptions{}
	root.AddCommand(
		b.measure("create", "Apply to Ready for three instances, with a breakdown", create, func(ctx context.Context) error { return b.onKubernetes(ctx, create.measure) }),
		b.measure("quiet", "API writes in a quiet minute under write load; the manager's memory and CPU with one real cluster", quiet, func(ctx context.Context) error { return b.onKubernetes(ctx, quiet.measure) }),
		b.measure("fleet", "The manager's memory and CPU with hundreds of clusters on fake agents", fleet, func(ctx context.Context) error { return fleet.measure(ctx, b) }),
		b.measure("durability", "Throughput with and without the settings that make commits survive", durability, func(ctx context.Context) error { return durability.measure(ctx, b) }),
		b.measure("failover", "A crash of the primary, and a switchover, to the next acknowledged write", failover, func(ctx context.Context) error { return b.onKubernetes(ctx, failover.measure) }),
		b.measure("failover-agents", "A crash of the primary to the next acknowledged write, on agents and mysqlds without Kubernetes", crash, func(ctx context.Context) error { return crash.measure(ctx, b) }),
		writerCommand(),
		b.all(),
		&cobra.Command{Use: "docs", Short: "Write what was measured last into the document", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			b.updateDocs = true
			return b.finish()
		}},
	)
	return root
}

func (b *bench) chooseFolder() error {
	if b.quick && b.updateDocs {
		return errors.New("--update-docs: not with --quick, whose figures nobody should trust")
	}
	if b.out == "" {
		b.out = outFolder
		if b.quick {
			b.out = quickFolder
		}
	}
	return nil
}

// options of one measurement.
type options interface {
	// flags adds flags with their defaults.
	flags(*pflag.FlagSet)
	// quick returns values of flags for a quick look.
	quick() map[string]string
	// check refuses values that cannot work.
	check() error
}

func (b *bench) measure(use, short string, o options, do func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		b.command = b.call(cmd)
		if err := b.prepare(cmd.Flags(), o); err != nil {
			return err
		}
		b.lookAround()
		return errors.Join(do(cmd.Context()), b.finish())
	}}
	cmd.Flags().SortFlags = false
	o.flags(cmd.Flags())
	return cmd
}

// prepare completes the options and checks them.
func (b *bench) prepare(f *pflag.FlagSet, o options) error {
	if b.quick {
		for name, value := range o.quick() {
			if f.Changed(name) {
				continue
			}
			if err := f.Set(name, value); err != nil {
				return fmt.Errorf("--quick: --%s: %w", name, err)
			}
		}
	}
	return o.check()
}

// all measures everything with the defaults, the local Kubernetes going up and down once.
func (b *bench) all() *cobra.Command {
	return &cobra.Command{Use: "all", Short: "Everything, with the defaults", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		create, quiet, fleet, durability := &createOptions{}, &quietOptions{}, &fleetOptions{}, &durabilityOptions{}
		for _, o := range []options{create, quiet, fleet, durability} {
			f := pflag.NewFlagSet("all", pflag.ContinueOnError)
			o.flags(f)
			if err := b.prepare(f, o); err != nil {
				return err
			}
		}
		b.lookAround()
		ctx := cmd.Context()
		var errs []error
		// One that fails does not take the others' figures with it, but an interrupt ends all.
		for _, part := range []struct {
			name string
			do   func() error
		}{
			// What needs no Kubernetes comes first, while none is there to take its share of the machine.
			{"durability", func() error { return durability.measure(ctx, b) }},
			{"fleet", func() error { return fleet.measure(ctx, b) }},
			{"create, quiet", func() error {
				return b.onKubernetes(ctx, func(ctx context.Context, k *kubernetes) error {
					k.command = b.commandOf("create")
					err := create.measure(ctx, k)
					k.command = b.commandOf("quiet")
					return errors.Join(err, quiet.measure(ctx, k))
				})
			}},
		} {
			b.command = b.commandOf(part.name)
			if err := part.do(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
			}
			if ctx.Err() != nil {
				break
			}
		}
		return errors.Join(append(errs, b.finish())...)
	}}
}

// lookAround notes the machine while nothing of ours runs yet.
func (b *bench) lookAround() {
	b.machine = figure.ThisMachine(3 * time.Second)
	fmt.Fprintln(os.Stderr, b.machine)
}

// call is the command line in the form in which anybody can give it.
func (b *bench) call(cmd *cobra.Command) string {
	text := b.commandOf(cmd.Name())
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"quick", "out", "update-docs", "document", "keep", "cluster", "nodes"}, f.Name) {
			text += " --" + f.Name + "=" + f.Value.String()
		}
	})
	return text
}

func (b *bench) commandOf(name string) string {
	text := "go run ./test/bench " + name
	if b.env.Nodes != 1 {
		text += fmt.Sprintf(" --nodes=%d", b.env.Nodes)
	}
	if b.quick {
		text += " --quick"
	}
	return text
}

// figure begins one.
func (b *bench) figure(id, title string) *figure.Figure {
	f := &figure.Figure{ID: id, Title: title, Command: b.command, Measured: time.Now(), Version: treeVersion(), Machine: b.machine}
	if b.quick {
		f.Note("QUICK: tiny parameters; this shows that the measurement works and is no figure to trust")
	}
	return f
}

// treeVersion is the commit of the work tree, which everything that is measured is built from.
func treeVersion() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return version.Version()
	}
	return strings.TrimSpace(string(out))
}

// keepFigure prints a figure and writes it down.
func (b *bench) keepFigure(f *figure.Figure) error {
	if err := f.WriteText(os.Stdout); err != nil {
		return fmt.Errorf("print figure %s: %w", f.ID, err)
	}
	path, err := f.Save(b.out)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "written:", path)
	return nil
}

// finish updates the document where that is wanted.
func (b *bench) finish() error {
	if !b.updateDocs {
		return nil
	}
	ids, err := figure.UpdateDocument(b.document, b.out)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("update %s: there is no figure in %s", b.document, b.out)
	}
	fmt.Fprintf(os.Stderr, "updated: %s (%s)\n", b.document, strings.Join(ids, ", "))
	return nil
}

// between refuses a number outside of its range.
func between(flag string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("--%s: %d; allowed is %d to %d", flag, value, least, most)
	}
	return nil
}

// lasting refuses a duration that is too short to measure or too long to wait for.
func lasting(flag string, value time.Duration) error {
	if value < time.Second || value > time.Hour {
		return fmt.Errorf("--%s: %s; allowed is 1s to 1h", flag, value)
	}
	return nil
}
