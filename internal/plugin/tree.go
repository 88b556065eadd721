package plugin

import (
	"fmt"
	"strconv"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

// renderTree prints the primary with what follows it below, one line per instance.
func renderTree(p *page, r Report) {
	p.linef("\n%s", p.paint(bold, "Instances"))
	if len(r.Instances) == 0 {
		p.linef("  none yet")
		return
	}
	live := hasLive(r)
	rows := [][]cell{treeHead(live)}
	for i, instance := range r.Instances {
		rows = append(rows, treeRow(instance, branch(r, i), live))
	}
	p.table("  ", rows)
}

func hasLive(r Report) bool {
	for _, i := range r.Instances {
		if i.Live != nil || i.LiveError != "" {
			return true
		}
	}
	return false
}

// branch draws the tree: whatever is not the primary hangs below it, if there is one.
func branch(r Report, i int) string {
	first := r.Instances[0].Name
	switch {
	case r.Topology.Primary == "" || first != r.Topology.Primary, i == 0:
		return ""
	case i == len(r.Instances)-1:
		return "└─ "
	}
	return "├─ "
}

func treeHead(live bool) []cell {
	names := []string{"NAME", "ROLE", "STATE", "ACKS"}
	if live {
		names = append(names, "LAG", "BEHIND", "UNAPPLIED", "RECEIVER", "APPLIER")
	}
	var row []cell
	for _, name := range append(names, "NODE", "REVISION", "VERSION") {
		row = append(row, cell{text: name, style: faint})
	}
	return row
}

func treeRow(i InstanceReport, prefix string, live bool) []cell {
	row := []cell{
		{prefix: prefix, text: i.Name, style: bold},
		{text: orDash(string(i.Role)), style: roleStyle(i)},
		{text: stateText(i), style: stateStyle(i)},
		{text: yesOrDash(i.Member)},
	}
	if live {
		row = append(row, liveCells(i.Live)...)
	}
	revision := cell{text: orDash(i.Revision)}
	if i.Outdated {
		revision.style = yellow
	}
	return append(row, cell{text: orDash(i.Node)}, revision, cell{text: orDash(i.Version)})
}

func roleStyle(i InstanceReport) style {
	if i.Role == porpoisev1.RolePrimary {
		return cyan
	}
	return plain
}

// stateText adds what the pod tells beyond the state.
func stateText(i InstanceReport) string {
	text := orDash(string(i.State))
	switch {
	case i.Pod == "":
		text += ", no pod"
	case i.PodPhase != "Running":
		text += ", pod " + i.PodPhase
	case i.State == porpoisev1.InstanceRunning && !i.PodReady:
		text += ", not ready"
	}
	return text
}

func stateStyle(i InstanceReport) style {
	switch {
	case i.State == porpoisev1.InstanceRunning && i.PodReady && i.PodPhase == "Running":
		return green
	case i.State == porpoisev1.InstanceBroken, i.State == porpoisev1.InstanceUnreachable:
		return red
	}
	return yellow
}

func liveCells(l *LiveReport) []cell {
	if l == nil {
		return []cell{{text: "?"}, {text: "?"}, {text: "?"}, {text: "?"}, {text: "?"}}
	}
	row := []cell{{text: "-"}, countCell(l.TransactionsBehind), countCell(l.TransactionsUnapplied), {text: "-"}, {text: "-"}}
	if rep := l.Replication; rep != nil {
		row[0] = lagCell(rep.LagSeconds)
		row[3], row[4] = threadCell(rep.Receiver), threadCell(rep.Applier)
	}
	return row
}

func lagCell(seconds *float64) cell {
	if seconds == nil {
		return cell{text: "?"}
	}
	c := cell{text: fmt.Sprintf("%.1fs", *seconds)}
	if *seconds >= 10 {
		c.style = yellow
	}
	return c
}

func countCell(n *uint64) cell {
	if n == nil {
		return cell{text: "-"}
	}
	return cell{text: strconv.FormatUint(*n, 10)}
}

func threadCell(state string) cell {
	if state == "ON" {
		return cell{text: state, style: green}
	}
	return cell{text: orDash(state), style: red}
}

// renderTrouble says in a line each what is wrong with instances.
func renderTrouble(p *page, r Report) {
	for _, i := range r.Instances {
		for _, text := range troubles(i, r.Topology.Primary) {
			p.linef("  %s %s", p.paint(yellow, i.Name+":"), clean(text))
		}
	}
}

func troubles(i InstanceReport, primary string) []string {
	var out []string
	if i.Message != "" {
		out = append(out, i.Message)
	}
	if i.LiveError != "" {
		out = append(out, "its agent could not be asked: "+i.LiveError)
	}
	l := i.Live
	if l == nil {
		return out
	}
	if l.Operation != "" {
		out = append(out, "under way: "+l.Operation)
	}
	switch {
	case l.Held:
		out = append(out, "mysqld is held: it was primary, and is not started before the operator knows what becomes of commits that nobody acknowledged"+lastExit(l))
	case l.Process != "Running":
		out = append(out, "mysqld is "+l.Process+lastExit(l))
	case l.Exits > 0:
		out = append(out, fmt.Sprintf("mysqld ended unasked %s since its agent started%s", plural(l.Exits, "time"), lastExit(l)))
	}
	if l.Fenced {
		out = append(out, fmt.Sprintf("is fenced in epoch %d: it receives nothing more from the former primary", l.Epoch))
	}
	if l.CutTail != "" {
		out = append(out, l.CutTail)
	}
	if l.Quarantined != "" {
		out = append(out, "before it was rebuilt: "+l.Quarantined)
	}
	if l.Writable != nil && *l.Writable && i.Name != primary {
		out = append(out, "is WRITABLE although it is not the primary")
	}
	if l.ErrantGTIDs != nil {
		out = append(out, "holds errant transactions: "+gtidText(*l.ErrantGTIDs, false))
	}
	if l.WaitingCommits != nil && *l.WaitingCommits > 0 {
		out = append(out, plural(*l.WaitingCommits, "commit")+" waiting for acknowledgement")
	}
	if rep := l.Replication; rep != nil {
		if rep.ReceiverError != "" {
			out = append(out, "receiver: "+rep.ReceiverError)
		}
		if rep.ApplierError != "" {
			out = append(out, "applier: "+rep.ApplierError)
		}
	}
	return out
}

func lastExit(l *LiveReport) string {
	if l.LastExit == "" {
		return ""
	}
	return " (last: " + l.LastExit + ")"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func yesOrDash(yes bool) string {
	if yes {
		return "yes"
	}
	return "-"
}
