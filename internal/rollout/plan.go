package rollout

import (
	"fmt"
	"slices"
	"time"
)

// ProgressDeadline is how long an updated instance may take to serve before the change is called stuck. It counts from
// the creation of its pod.
const ProgressDeadline = 10 * time.Minute

// Instance is what is observed of one instance.
type Instance struct {
	// Name, by which the list is sorted by ordinal.
	Name string
	// HasPod is true when its pod exists, in whatever state.
	HasPod bool
	// Revision that its pod runs; empty: it has none.
	Revision string
	// Template is the revision of its StatefulSet's template.
	Template string
	// TemplateObserved is true when the StatefulSet controller has seen the template.
	TemplateObserved bool
	// Running is true when it serves in its role.
	Running bool
	// Member is true when it is the primary or its acknowledgement counts.
	Member bool
	// Primary is true for the primary.
	Primary bool
	// Broken is true on positive evidence that it cannot serve. Not knowing is not broken.
	Broken bool
	// PodAge is how long its pod exists.
	PodAge time.Duration
}

// Input of Plan.
type Input struct {
	// Target revision.
	Target string
	// Restarting as in MySQLTopology.spec, and RestartReady as in its status.
	Restarting   string
	RestartReady string
	// Instances that are wanted, by ordinal.
	Instances []Instance
}

// Decision is what to do now. Its parts are to be done in order: templates, restarting, pods.
type Decision struct {
	// Update lists the instances whose template is to become the target.
	Update []string
	// Restarting is what MySQLTopology.spec.restarting is to be.
	Restarting string
	// Delete lists the instances whose pods are to be deleted.
	Delete []string
	// Done is true when every instance runs the target.
	Done bool
	// Stuck is true when an updated instance did not become healthy within ProgressDeadline; nothing more is restarted.
	Stuck bool
	// Message says for people what is going on; empty when done.
	Message string
}

// Plan decides the next step. The same input gives the same answer, and following it twice does no harm.
func Plan(in Input) Decision {
	decision := Decision{Restarting: in.Restarting}
	replaceBroken(in, &decision)
	if in.Restarting != "" {
		continueRestart(in, &decision)
	} else {
		beginRestart(in, &decision)
	}
	return decision
}

// replaceBroken gives the target to every instance that is broken at another revision.
func replaceBroken(in Input, d *Decision) {
	for _, i := range in.Instances {
		if i.Broken && !i.current(in.Target) {
			replace(in, i, d)
		}
	}
}

// replace gives an instance the target: first the template, then, once that was seen, a new pod.
func replace(in Input, i Instance, d *Decision) {
	switch {
	case i.Template != in.Target:
		d.Update = append(d.Update, i.Name)
	case i.HasPod && i.TemplateObserved && !slices.Contains(d.Delete, i.Name):
		d.Delete = append(d.Delete, i.Name)
	}
}

// continueRestart goes on with the instance that is being restarted.
func continueRestart(in Input, d *Decision) {
	at := slices.IndexFunc(in.Instances, func(i Instance) bool { return i.Name == in.Restarting })
	if at < 0 {
		d.Restarting = "" // It was removed meanwhile.
		return
	}
	i := in.Instances[at]
	switch {
	case i.HasPod && i.Revision == in.Target && i.Running:
		d.Restarting = ""
		d.Message = fmt.Sprintf("%s runs revision %s", i.Name, in.Target)
	case i.HasPod && i.Revision == in.Target:
		waitFor(i, d)
	case i.Broken:
		d.Message = fmt.Sprintf("replacing %s, which is broken, with revision %s", i.Name, in.Target)
	case in.RestartReady == i.Name:
		d.Message = fmt.Sprintf("restarting %s with revision %s", i.Name, in.Target)
		replace(in, i, d)
	case !i.HasPod:
		d.Message = fmt.Sprintf("waiting for the pod of %s", i.Name)
	default:
		d.Message = fmt.Sprintf("waiting for the topology to release %s for its restart", i.Name)
	}
}

// beginRestart chooses the next instance, if all that was changed before is well.
func beginRestart(in Input, d *Decision) {
	var old []Instance
	for _, i := range in.Instances {
		switch {
		case !i.current(in.Target):
			if !i.Broken {
				old = append(old, i)
			}
		case i.HasPod && !i.healthy() && d.Message == "":
			waitFor(i, d)
		}
	}
	if len(old) == 0 {
		d.Done = len(d.Update) == 0 && len(d.Delete) == 0 && !slices.ContainsFunc(in.Instances, func(i Instance) bool {
			return !i.current(in.Target)
		})
		if d.Done && !d.Stuck {
			d.Message = ""
		}
		return
	}
	if d.Message != "" {
		return
	}
	slices.SortStableFunc(old, func(a, b Instance) int { return a.order() - b.order() })
	next := old[0]
	for _, other := range old[1:] {
		// A second one is not taken down while another is down; the one that is down already goes first.
		if next.healthy() && !other.healthy() {
			d.Message = fmt.Sprintf("waiting for %s to serve before %s is restarted", other.Name, next.Name)
			return
		}
	}
	d.Restarting = next.Name
	d.Message = fmt.Sprintf("asking the topology to release %s for its restart with revision %s", next.Name, in.Target)
}

func waitFor(i Instance, d *Decision) {
	d.Message = fmt.Sprintf("waiting for %s to serve with revision %s", i.Name, i.Revision)
	if i.PodAge > ProgressDeadline {
		d.Stuck = true
		d.Message = fmt.Sprintf("%s does not serve with revision %s for more than %s; nothing more is restarted", i.Name, i.Revision, ProgressDeadline)
	}
}

// current tells whether an instance runs the target, or will as soon as it has a pod.
func (i Instance) current(target string) bool {
	return i.Template == target && (!i.HasPod || i.Revision == target)
}

func (i Instance) healthy() bool { return i.HasPod && i.Running && i.Member }

// order: what is down already first, then replicas, the primary last; the sort keeps ordinals.
func (i Instance) order() int {
	switch {
	case !i.healthy():
		return 0
	case !i.Primary:
		return 1
	default:
		return 2
	}
}
