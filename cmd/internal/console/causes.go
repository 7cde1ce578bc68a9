package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// rowOf is a cause as lists show it. The next step follows from where it stands.
func rowOf(c cause) causeRow {
	r := causeRow{cause: c, Title: c.title(), Where: cmp.Or(text(c.Topic), c.Parts.Template, c.Parts.DLQTopic)}
	path := "/causes/" + c.UUID.String()
	switch {
	case c.Parts.Template != "" && c.Parts.ErrorCode == "STALE_STATE":
		r.By = "found by the detector"
	case c.Parts.Template != "":
		r.By = "a task in error"
	}
	switch {
	case c.State == dlq.GroupRegressed:
		r.Next, r.NextPath = "Read the letter", path+"#letter"
	case c.State == dlq.GroupOngoing && c.Assignee != nil && c.Parts.Template == "":
		r.Next, r.NextPath = "Plan a redrive", "/plan?kind=redrive&group="+c.UUID.String()
	default:
		r.Next, r.NextPath = "Look at the cause", path
	}
	return r
}

// causesView is the list of causes.
type causesView struct {
	Filter api.GroupFilter
	States []chip
	Causes []causeRow
	Total  int64
	// Next is the address of the next page; empty at the end.
	Next string
}

// chip is a filter that can be put on and off.
type chip struct {
	Name, Path string
	On         bool
}

func showCauses(v *visit) error {
	view := causesView{}
	q := url.Values{"order_by": {string(dlq.GroupsByLastSeen)}}
	for _, field := range api.Fields(&view.Filter) {
		if *field.Text = v.param(field.Name); *field.Text != "" {
			q.Set(field.Name, *field.Text)
		}
	}
	if after := v.param("after"); after != "" {
		q.Set("after", after)
	}
	found, err := get[api.List[api.Group]](v, "/groups", q)
	if err != nil {
		return err
	}
	causes, err := describe(v.ctx, v.console.cfg.Investigations, found.Items, time.Now())
	if err != nil {
		return err
	}
	for _, c := range causes {
		view.Causes = append(view.Causes, rowOf(c))
	}
	view.Total = *found.Total
	for _, state := range append([]dlq.GroupState{""}, dlq.GroupStates()...) {
		name := "All"
		if state != "" {
			name = groupWords(state).Word
		}
		view.States = append(view.States, chip{Name: name, Path: v.with("state", string(state), "after", ""), On: string(state) == view.Filter.State})
	}
	if found.Next != nil {
		view.Next = v.with("after", *found.Next)
	}
	v.frame.View = view
	return nil
}

// with is the address of the page with other values of parameters; an empty value takes one away.
func (v *visit) with(pairs ...string) string {
	q := v.URL.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return v.URL.Path
	}
	return v.URL.Path + "?" + q.Encode()
}

// causeView is the page of one group.
type causeView struct {
	api.GroupDetail
	Words stateWords
	Title string
	Where string
	// Advice says what helps against errors of this kind; empty where nothing is known.
	Advice string
	Hours  [24]int64
	// Letter is the investigation to read first; nil where all were purged.
	Letter *letterView
	// Road is how far the redrive of the group is.
	Road road
	// Holds are what stands because of the same topic.
	Holds []holdRow
	// Activity is what people did, the newest first.
	Activity []access.Done
	Related  []causeRow
	// Redrivable says that its messages can be sent again; a task cannot.
	Redrivable bool
	// From are the topics that its newest letters came from.
	From []api.Partition
}

func showCause(v *visit) error {
	g, err := get[api.GroupDetail](v, "/groups/"+v.id(), nil)
	if err != nil {
		return err
	}
	view := causeView{GroupDetail: g, Words: groupWords(g.State), Title: causeTitle("", g.Parts, g.Group.Title), Where: cmp.Or(text(g.Topic), g.Parts.Template, g.Parts.DLQTopic),
		Advice: adviceOf(g.Parts), Redrivable: g.Parts.Template == ""}
	view.From = byTopic(g.Partitions)
	counts := make([]dlq.HourCount, len(g.Hours))
	for i, h := range g.Hours {
		counts[i] = dlq.HourCount{Hour: h.Hour, Opened: h.Opened}
	}
	view.Hours = lastHours(counts, time.Now())
	if g.Recommended != nil {
		d, err := get[api.Detail](v, "/dlq/"+g.Recommended.String(), nil)
		if err != nil {
			return err
		}
		view.Letter = letterOf(d, v.param("as"))
		view.Letter.Path = v.URL.Path
		view.Title = causeTitle(d.Message, g.Parts, g.Group.Title)
	}
	if view.Road, err = v.roadOf(g); err != nil {
		return err
	}
	if f, _, _ := v.console.figures.latest(); f != nil {
		for _, h := range f.Status.Outbox.Holds {
			if g.Topic != nil && h.Topic == *g.Topic {
				view.Holds = append(view.Holds, holdRow{h, wordsOf(h)})
			}
		}
	}
	for _, id := range g.Related {
		related, err := get[api.GroupDetail](v, "/groups/"+id.String(), nil)
		if err == nil {
			view.Related = append(view.Related, rowOf(cause{Group: related.Group}))
		}
	}
	if v.frame.Has(string(access.Admin)) {
		done, err := get[api.List[access.Done]](v, "/audit", url.Values{"target_type": {"group"}, "target_id": {g.UUID.String()}, "page_size": {"10"}})
		if err == nil {
			view.Activity = done.Items
		}
	}
	v.frame.under(crumb{"Causes", "/causes"}, cmp.Or(g.Parts.ErrorCode, string(g.Parts.Reason), "cause")+" on "+view.Where)
	v.frame.View = view
	return nil
}

// adviceOf says what helps against errors with a code of ours.
func adviceOf(parts dlq.Parts) string {
	switch parts.ErrorCode {
	case "INVALID_HEADERS":
		return "The relay cannot make a record of these headers, and gave each event up at the first attempt. Trying again as they are does not help: repair the service that writes them, then send the letters again with headers that can be read."
	case "MESSAGE_TOO_LARGE":
		return "The record is larger than the relay or the broker takes. Raise kafka.max_message_bytes together with the topic’s max.message.bytes, or write less; then send the letters again."
	case "STALE_STATE":
		return "The detector found tasks that stayed in one state for longer than their limit. See that a worker does this step; then let the tasks go on or cancel them."
	case "MAX_RETRIES_EXCEEDED":
		return "A step failed as often as it may. Mend what it needs, then try the step again."
	}
	switch {
	case parts.ErrorClass == "permanent":
		return "The consumer that gave up says that trying again as it is does not help. Mend the cause or the message first."
	case parts.Template == "":
		return "When the cause is mended, send the letters again: first a few, then the others."
	}
	return ""
}

func changeCause(v *visit) (string, error) {
	back := "/causes/" + v.id()
	change := map[string]any{}
	switch v.FormValue("what") {
	case "take":
		change["assignee"] = v.person.Name
	case "assign":
		change["assignee"] = strings.TrimSpace(v.FormValue("assignee"))
	case "note":
		change["note"] = v.FormValue("note")
	case "mute":
		change["muted"] = true
		if d, err := time.ParseDuration(v.FormValue("for")); err == nil && d > 0 {
			change["muted_until"] = time.Now().Add(d).UTC()
		}
	case "unmute":
		change["muted"] = false
	}
	g, err := ask[api.Group](v, http.MethodPatch, "/groups/"+v.id(), nil, change)
	if err != nil {
		return back, err
	}
	switch v.FormValue("what") {
	case "take":
		v.say("It is with you.")
	case "assign":
		v.say("It is with %s.", cmp.Or(text(g.Assignee), "nobody"))
	case "note":
		v.say("The note is written.")
	case "mute":
		v.say("It is muted. It still counts, and can be found under Causes.")
	case "unmute":
		v.say("It is not muted any more.")
	}
	return back, nil
}

func resolveCause(v *visit) (string, error) {
	back := "/causes/" + v.id()
	// What opens after the page was made is left open: nobody has seen it. The group changed last when one was opened.
	body := map[string]any{"resolution_status": cmp.Or(v.FormValue("status"), string(dlq.ManuallyResolved)), "resolution_notes": v.FormValue("notes")}
	if until := v.FormValue("until"); until != "" {
		body["until"] = until
	}
	done, err := ask[api.ResolvedGroup](v, http.MethodPost, "/groups/"+v.id()+"/resolve", nil, body)
	if err != nil {
		return back, err
	}
	left := ""
	if done.Left > 0 {
		left = " " + some(done.Left, "is", "are") + " left open, because a redrive of it is on its way or there were too many at once."
	}
	v.say("%s closed.%s", some(done.Closed, "investigation is", "investigations are"), left)
	return back, nil
}

// byTopic sums letters of the partitions of a topic.
func byTopic(partitions []api.Partition) []api.Partition {
	var out []api.Partition
	for _, p := range partitions {
		i := slices.IndexFunc(out, func(o api.Partition) bool { return o.Topic == p.Topic })
		if i < 0 {
			out = append(out, api.Partition{Topic: p.Topic})
			i = len(out) - 1
		}
		out[i].Letters += p.Letters
	}
	return out
}
