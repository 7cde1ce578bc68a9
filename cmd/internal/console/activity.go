package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

// deedRow is a line of the activity of a cause, or of an investigation. Who is empty where no person did it; Why is what the person said. Operation is
// the operation that it was done with, by its name, and the address of its page; nil for none. Outcome
// is how the operation stands, with the newest line of each; empty otherwise.
type deedRow struct {
	At                      time.Time
	Who, What, Why, Outcome string
	Operation               *pair
}

// maxTold is how many operations the activity of a cause tells of, the newest.
const maxTold = 5

// deedsOf is what people did with a cause itself, for a reader of the audit log; none for others.
func (v *visit) deedsOf(group uuid.UUID) ([]access.Done, error) {
	if !v.frame.Has(string(access.Admin)) {
		return nil, nil
	}
	done, err := get[api.List[access.Done]](v, "/audit", url.Values{"target_type": {"group"}, "target_id": {group.String()}, "page_size": {"10"}})
	return done.Items, err
}

// activityOf is what people did with a cause, how they closed its investigations, and what was done with its operations. The newest
// is the first.
func (v *visit) activityOf(deeds []access.Done, operations []api.Operation, closings []dlq.Closing) ([]deedRow, error) {
	var out []deedRow
	for _, c := range closings {
		out = append(out, deedRow{At: c.LastAt, Who: c.By, What: "closed " + some(c.Entries, "investigation", "investigations") + " as " + strings.ToLower(statusWords(c.Status).Word), Why: c.Notes})
	}
	for _, d := range deeds {
		if d.Action == "group.resolve" && slices.ContainsFunc(closings, func(c dlq.Closing) bool {
			return c.By == d.Actor && !d.At.Before(c.FirstAt) && d.At.Sub(c.LastAt) < time.Minute // a row is written when its transaction ends
		}) {
			continue // the closing says more
		}
		out = append(out, deedRow{At: d.At, Who: d.Actor, What: deed(d) + " the cause"})
	}
	for _, o := range operations[:min(len(operations), maxTold)] {
		detail := api.OperationDetail{Operation: o}
		if o.State == dlq.Planned { // to read the operation alone would ask the brokers whom it reaches
			detail.Commands = []api.OperationCommand{{Command: "plan", Actor: o.Actor, At: o.CreatedAt, Reason: o.Reason}}
		} else {
			var err error
			if detail, err = get[api.OperationDetail](v, "/operations/"+o.UUID.String(), nil); err != nil && told(err).Code == httpapi.NotFound {
				continue // it was removed meanwhile
			} else if err != nil {
				return nil, err
			}
		}
		link := &pair{clip(o.Name, 200), "/operations/" + o.UUID.String()}
		for i, h := range happenings(detail) {
			row := deedRow{At: h.At, Who: h.Who, What: h.What, Why: h.Why, Operation: link}
			if i == 0 {
				row.Outcome = sayOperation(&detail.Operation).Text
			}
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b deedRow) int { return b.At.Compare(a.At) })
	return out, nil
}

// entryActivity is what was done with an investigation, and what became of it in the operations that it is in. The newest is
// the first.
func entryActivity(d api.Detail) []deedRow {
	var out []deedRow
	links := map[string]*pair{}
	for _, t := range d.Operations {
		id := t.Operation.String()
		links[id] = &pair{clip(t.Name, 200), "/operations/" + id}
	}
	closed := map[string]bool{}
	for _, done := range d.Audit {
		row := deedRow{At: done.At, Who: done.Actor, What: deed(done) + " it"}
		switch done.TargetType {
		case "group":
			row.What = deed(done) + " the cause"
		case "operation":
			if row.Operation = links[done.TargetID]; row.Operation == nil {
				row.Operation = &pair{"an operation", "/operations/" + done.TargetID}
			}
			closed[done.TargetID] = closed[done.TargetID] || !strings.HasPrefix(done.Action, "operation.")
		}
		out = append(out, row)
	}
	for _, t := range d.Operations {
		if id := t.Operation.String(); !closed[id] { // otherwise the log says so
			out = append(out, treatmentRow(t, links[id], d.Redrives))
		}
	}
	slices.SortStableFunc(out, func(a, b deedRow) int { return b.At.Compare(a.At) })
	return out
}

// treatmentRow says what became of an investigation in an operation.
func treatmentRow(t api.Treatment, link *pair, redrives []api.Redrive) deedRow {
	row := deedRow{At: t.PlannedAt, Operation: link}
	if t.StartedAt != nil {
		row.At = *t.StartedAt
	}
	why := ""
	if t.ItemReason != nil {
		why = ": " + whySkipped(*t.ItemReason)
	}
	switch {
	case t.ItemState == dlq.ItemSkipped:
		row.What = "It was skipped" + why
	case t.ItemState == dlq.ItemFailed:
		row.What = "It failed" + why
	case t.ItemState == dlq.ItemDone && t.Kind == dlq.OpRedrive:
		row.What = "Its message was sent again"
		if t.ItemOutcome != nil {
			row.Outcome = statusWords(*t.ItemOutcome).Word
		}
		for _, r := range redrives {
			if r.Operation != nil && *r.Operation == t.Operation {
				row.At = r.CreatedAt
			}
		}
	case t.ItemState == dlq.ItemDone:
		row.What = "It was closed"
	case t.State.Ended():
		row.What = "The operation ended before its turn"
	default:
		row.What = "It waits for its turn"
	}
	return row
}
