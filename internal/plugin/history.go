package plugin

import (
	"fmt"
	"strconv"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

// failoverRows are the lines of the header about changes of the primary.
func failoverRows(r Report) [][]cell {
	var rows [][]cell
	for _, c := range r.Conditions {
		if c.Type == porpoisev1.ConditionFailoverReady {
			rows = append(rows, []cell{{text: "Failover"}, failoverCell(c, r)})
		}
	}
	if s := r.Topology.Switchover; s != nil {
		look := plain
		if s.State != string(porpoisev1.SwitchoverDone) {
			look = yellow
		}
		rows = append(rows, []cell{{text: "Switchover"}, {text: joinNonEmpty(": ", s.ID+" "+switchoverText(porpoisev1.SwitchoverState(s.State)), s.Message), style: look}})
	}
	if a := r.Topology.WaitingLoss; a != nil {
		rows = append(rows, []cell{{text: "Data loss"}, {style: red, text: fmt.Sprintf("the next loss is accepted by %s%s, with annotation accept-data-loss; remove it if that is not wanted",
			a.By, age(", ", a.At, r.ObservedAt, " ago"))}})
	}
	if a := r.Topology.AcceptedLoss; a != nil {
		rows = append(rows, []cell{{text: "Data loss"}, {style: yellow, text: fmt.Sprintf("was accepted by %s%s", a.By, age(" ", a.At, r.ObservedAt, " ago"))}})
	}
	return rows
}

// failoverCell adds to the condition what only the agents know: how much the one that has least to apply would have to
// apply before it could be opened.
func failoverCell(c ConditionReport, r Report) cell {
	if c.Abnormal {
		return cell{text: "not ready: " + joinNonEmpty(": ", c.Reason, c.Message), style: yellow}
	}
	var least *uint64
	best := ""
	for _, i := range r.Instances {
		if i.Name == r.Topology.Primary || i.State != porpoisev1.InstanceRunning || i.Live == nil || i.Live.TransactionsUnapplied == nil || i.Live.ErrantGTIDs != nil {
			continue
		}
		if n := i.Live.TransactionsUnapplied; least == nil || *n < *least {
			least, best = n, i.Name
		}
	}
	if least == nil {
		return cell{text: "ready: " + c.Message, style: green}
	}
	return cell{text: fmt.Sprintf("ready: %s has %s to apply", best, plural(int(min(*least, 1<<31)), "transaction")), style: green}
}

// renderHistory lists the last primaries, where there was more than one.
func renderHistory(p *page, r Report) {
	history := r.Topology.History
	if len(history) < 2 {
		return
	}
	p.linef("\n%s", p.paint(bold, "Primaries"))
	rows := [][]cell{{{text: "EPOCH", style: faint}, {text: "PRIMARY", style: faint}, {text: "BY", style: faint}, {text: "AGE", style: faint}}}
	for _, h := range history {
		look := plain
		if h.Cause == string(porpoisev1.CauseFailover) {
			look = yellow
		}
		rows = append(rows, []cell{{text: strconv.FormatInt(h.Epoch, 10)}, {text: h.Primary}, {text: orDash(h.Cause), style: look}, {text: orDash(age("", h.Since, r.ObservedAt, ""))}})
	}
	p.table("  ", rows)
}
