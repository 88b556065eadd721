package plugin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
	"github.com/porpoise-dev/porpoise/internal/gtid"
)

// RenderOptions say how a report is laid out.
type RenderOptions struct {
	Color bool
	// Full prints GTID sets in full instead of shortened.
	Full bool
}

// Render lays a report out for people.
func Render(r Report, o RenderOptions) string {
	p := &page{color: o.Color}
	renderHeader(p, r)
	renderBlocked(p, r)
	renderTree(p, r)
	renderTrouble(p, r)
	renderHistory(p, r)
	renderGTIDs(p, r, o.Full)
	renderConditions(p, r)
	renderEvents(p, r)
	for _, note := range r.Notes {
		p.linef("\n%s %s", p.paint(yellow, "Note:"), clean(note))
	}
	return p.String()
}

func renderHeader(p *page, r Report) {
	c, t := r.Cluster, r.Topology
	p.linef("%s %s", p.paint(bold, c.Name), p.paint(faint, "in namespace "+c.Namespace+age(", ", c.CreatedAt, r.ObservedAt, " old")))
	rows := [][]cell{{{text: "Phase"}, {text: phaseText(c), style: phaseStyle(c)}}}
	rows = append(rows,
		[]cell{{text: "Ready"}, readyCell(c)},
		[]cell{{text: "Version"}, {text: joinNonEmpty(" · ", c.Version, c.Image)}},
		[]cell{{text: "Primary"}, {text: primaryText(r)}},
		[]cell{{text: "Acks"}, acksCell(t)},
		[]cell{{text: "Revision"}, revisionCell(r)},
	)
	if op := t.Operation; op != nil {
		text := joinNonEmpty(" ", op.Type, op.Target) + age(", for ", op.StartedAt, r.ObservedAt, "")
		rows = append(rows, []cell{{text: "Operation"}, {text: text, style: yellow}})
	}
	rows = append(rows, failoverRows(r)...)
	p.table("  ", rows)
}

func phaseText(c ClusterReport) string {
	text := string(c.Phase)
	if text == "" {
		text = "unknown: the operator has not seen it yet (is it running?)"
	}
	if c.Suspended {
		text += ", suspended: the operator watches but does not act"
	}
	if c.StatusOutdated && c.Phase != "" {
		text += ", the last change of the spec is not processed yet"
	}
	return text
}

func phaseStyle(c ClusterReport) style {
	switch c.Phase {
	case porpoisev1.PhaseRunning:
		return green
	case porpoisev1.PhaseBlocked, porpoisev1.PhaseFailingOver:
		return red
	}
	return yellow
}

func readyCell(c ClusterReport) cell {
	text := fmt.Sprintf("no, %d of %d instances", c.ReadyInstances, c.WantedInstances)
	if c.Ready {
		return cell{text: strings.Replace(text, "no", "yes", 1), style: green}
	}
	return cell{text: joinNonEmpty(": ", text, joinNonEmpty(": ", c.Reason, c.Message)), style: yellow}
}

func primaryText(r Report) string {
	t := r.Topology
	if t.Primary == "" {
		return "none yet"
	}
	text := fmt.Sprintf("%s, epoch %d", t.Primary, t.Epoch)
	if t.Since != nil {
		text += age(" for ", *t.Since, r.ObservedAt, "")
	}
	if t.Phase != "" && !t.Routed {
		text += ", not open to clients yet"
	}
	return text
}

func acksCell(t TopologyReport) cell {
	text := fmt.Sprintf("%d of %s", t.RequiredAcks, plural(len(t.Members), "member"))
	if len(t.Members) > 0 {
		text += " (" + strings.Join(t.Members, ", ") + ")"
	}
	if t.Phase != "" && t.WantedAcks != t.RequiredAcks {
		return cell{text: text + fmt.Sprintf(", wanted %d", t.WantedAcks), style: yellow}
	}
	return cell{text: text}
}

func revisionCell(r Report) cell {
	target, outdated := r.Cluster.TargetRevision, 0
	for _, i := range r.Instances {
		if i.Outdated {
			outdated++
		}
	}
	switch {
	case target == "":
		return cell{text: "none yet"}
	case outdated > 0:
		return cell{text: fmt.Sprintf("%s, %s still on another one", target, plural(outdated, "instance")), style: yellow}
	}
	return cell{text: target}
}

func renderBlocked(p *page, r Report) {
	if b := r.WritesBlocked; b != nil {
		since := ""
		if b.Since != nil {
			since = age(" for ", *b.Since, r.ObservedAt, "")
		}
		p.linef("\n%s", p.paint(red, "Writes are blocked"+since+": "+joinNonEmpty(": ", b.Reason, b.Message)))
	}
}

func renderConditions(p *page, r Report) {
	var rows [][]cell
	for _, c := range r.Conditions {
		if c.Abnormal {
			rows = append(rows, []cell{
				{text: c.Type, style: yellow}, {text: c.Status}, {text: age("", c.Since, r.ObservedAt, "")},
				{text: c.Reason}, {text: c.Message},
			})
		}
	}
	if len(rows) > 0 {
		p.linef("\n%s", p.paint(bold, "Conditions that are not as they should be"))
		p.table("  ", rows)
	}
}

func renderEvents(p *page, r Report) {
	if len(r.Events) == 0 {
		return
	}
	p.linef("\n%s", p.paint(bold, "Events"))
	var rows [][]cell
	for _, e := range r.Events {
		look := faint
		if e.Type != "Normal" {
			look = yellow
		}
		message := e.Message
		if e.Count > 1 {
			message += fmt.Sprintf(" (%d times)", e.Count)
		}
		rows = append(rows, []cell{
			{text: age("", e.LastSeen, r.ObservedAt, "")}, {text: e.Type, style: look}, {text: e.Reason},
			{text: e.Object}, {text: message},
		})
	}
	p.table("  ", rows)
}

func renderGTIDs(p *page, r Report, full bool) {
	var rows [][]cell
	for _, i := range r.Instances {
		if i.Live == nil || i.Live.GTIDExecuted == nil {
			continue
		}
		if full || i.Name == r.Topology.Primary {
			rows = append(rows, []cell{{text: i.Name}, {text: gtidText(*i.Live.GTIDExecuted, full)}})
		}
	}
	if len(rows) > 0 {
		p.linef("\n%s", p.paint(bold, "GTIDs executed"))
		p.table("  ", rows)
	}
}

// maxGTIDWidth is where a GTID set is cut when it is not asked for in full.
const maxGTIDWidth = 160

func gtidText(set gtid.Set, full bool) string {
	text := set.String()
	switch {
	case text == "":
		return "none"
	case !full && len(text) > maxGTIDWidth:
		return text[:maxGTIDWidth] + "… (" + plural(len(set.UUIDs()), "server") + "; all with --gtid)"
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func joinNonEmpty(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// age prints how long ago something was, e.g. 5m; nothing for a time that is not known. Clocks that differ a little
// never give a negative age.
func age(before string, since, now time.Time, after string) string {
	if since.IsZero() || since.Unix() <= 0 {
		return ""
	}
	return before + duration.HumanDuration(max(0, now.Sub(since))) + after
}
