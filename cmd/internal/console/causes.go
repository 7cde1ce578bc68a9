package console

import (
	"cmp"
	"fmt"
	"net/http"
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

// rowOf is a cause as lists show it. The next step follows from where it stands, and from what the person may do.
func (f *frame) rowOf(c cause) causeRow {
	r := causeRow{cause: c}
	path := "/causes/" + c.UUID.String()
	switch {
	case c.Parts.Template != "" && c.Parts.ErrorCode == "STALE_STATE":
		r.By = "found by the detector"
	case c.Parts.Template != "":
		r.By = "a task in error"
	}
	switch {
	case c.State == dlq.GroupRegressed:
		r.Next, r.NextPath = "Read the message", path+"#letter"
	case c.State == dlq.GroupOngoing && c.Assignee != nil && c.Parts.Template == "" && f.Has(string(access.Redrive)):
		r.Next, r.NextPath = "Plan a redrive", "/plan?kind=redrive&group="+c.UUID.String()
	default:
		r.Next, r.NextPath = "Look at the cause", path
	}
	return r
}

// titleOf is the title of a group; empty where it was removed, and for an open page that renews itself: no part of it that
// changes has the title.
func (v *visit) titleOf(group string) (string, error) {
	if isFragment(v.Request) {
		return "", nil
	}
	g, err := v.group(group)
	if err != nil && told(err).Code == httpapi.NotFound {
		return "", nil
	}
	return g.Title, err
}

// group is a group alone, without what the page of a cause shows of its investigations: that takes many queries.
func (v *visit) group(id string) (g api.Group, err error) {
	one, err := api.ParseID(id)
	if err != nil {
		return g, &httpapi.Error{Code: httpapi.Validation, Message: fmt.Sprintf("The id of the cause is %s; %s.", quoted(oneLine(id, 60)), err)}
	}
	found, err := v.console.cfg.Investigations.Groups(v.ctx, []uuid.UUID{one})
	if err == nil && len(found) == 0 {
		err = noCause(&httpapi.Error{Code: httpapi.NotFound}, id)
	}
	if err != nil {
		return g, err
	}
	return api.NewGroup(found[0]), nil
}

// causesView is the list of causes.
type causesView struct {
	Filter api.GroupFilter
	States []chip
	Causes []causeRow
	Total  int64
	// Next is the address of the next page; empty at the end.
	Next    string
	Exports exports
}

// chip is a filter that can be put on and off.
type chip struct {
	Name, Path string
	On         bool
}

func showCauses(v *visit) error {
	view := causesView{}
	q := url.Values{"order_by": {string(dlq.GroupsByWorst)}}
	for _, field := range api.Fields(&view.Filter) {
		if *field.Text = v.param(field.Name); *field.Text != "" {
			q.Set(field.Name, *field.Text)
		}
	}
	if after := v.param("after"); after != "" {
		q.Set("after", after)
	}
	found, err := list[api.List[api.Group]](v, "/groups", q)
	if err != nil {
		return err
	}
	causes, err := withHours(v.ctx, v.console.cfg.Investigations, found.Items, time.Now())
	if err != nil {
		return err
	}
	for _, c := range causes {
		view.Causes = append(view.Causes, v.frame.rowOf(c))
	}
	if found.Total != nil {
		view.Total = *found.Total
	}
	view.Exports = v.exports("/causes/export", q)
	for _, state := range append([]dlq.GroupState{""}, dlq.GroupStates()...) {
		name := "All"
		if state != "" {
			name = groupWords(state).Word
		}
		view.States = append(view.States, chip{Name: name, Path: v.with("state", string(state), "after", ""), On: string(state) == view.Filter.State})
	}
	if source := view.Filter.Source; source != "" {
		view.States = append(view.States, chip{Name: "source: " + oneLine(source, 60), Path: v.with("source", "", "after", ""), On: true})
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
	// Advice says what helps against errors of this kind; empty where nothing is known.
	Advice string
	Hours  [24]int64
	// Comparison is the message beside a good one; nil until it is asked for.
	Comparison *comparison
	// Letter is the investigation to read first; nil where all were purged.
	Letter *letterView
	// Road is how far the redrive of the group is.
	Road road
	// Holds are the open holds of the same topic.
	Holds []holdRow
	// Activity is what people did with it, and what was done with its operations, the newest first.
	Activity []deedRow
	// Thread is what people wrote.
	Thread  *threadView
	Related []causeRow
	// Redrivable says that its messages can be sent again; a task cannot.
	Redrivable bool
	// RetryAfter is where a retry of its tasks goes on that began before; empty for the beginning.
	RetryAfter string
	// Closed says how its investigations were closed; empty while one is open, and where nothing says it.
	Closed string
	// Verdict is how people closed investigations of it last; nil where none did.
	Verdict *dlq.Closing
	// TooMany says that one request does not close them all, and Others is how many it leaves. Rest says that one has left some.
	TooMany, Rest bool
	Others        int64
	// Kept are events that fail in the same way and wait behind a circuit breaker; nil for none.
	Kept *keptEvents
	// From are the topics that its newest dead letters came from. Sampled says that it has more dead letters than were looked at.
	From    []api.Partition
	Sampled bool
}

func showCause(v *visit) error {
	view, err := v.readCause()
	v.frame.View = view
	return err
}

// readCause reads what the page of a cause shows.
func (v *visit) readCause() (view causeView, err error) {
	g, err := get[api.GroupDetail](v, "/groups/"+v.id(), nil)
	if err != nil {
		return view, noCause(err, v.PathValue("id"))
	}
	view = causeView{GroupDetail: g, Words: groupWords(g.State),
		Advice: adviceOf(g.Parts), Redrivable: g.Parts.Template == "", RetryAfter: v.param("after")}
	view.From, view.TooMany = byTopic(g.Partitions), g.Pending > dlq.MaxGroupResolve
	var letters int64
	for _, from := range view.From {
		letters += from.Letters
	}
	view.Sampled = letters < g.Occurrences
	view.Others, view.Rest = g.Pending-dlq.MaxGroupResolve, g.Pending > 0 && v.param("rest") != "" && !isFragment(v.Request)
	if g.Pending == 0 {
		view.Closed = closedText(g.Statuses)
	}
	counts := make([]dlq.HourCount, len(g.Hours))
	for i, h := range g.Hours {
		counts[i] = dlq.HourCount{Hour: h.Hour, Opened: h.Opened}
	}
	view.Hours = lastHours(counts, time.Now())
	var holds api.List[api.Hold]
	var closings []dlq.Closing
	var deeds []access.Done
	err = together(
		func() error { return v.readRecommended(&view) },
		into(&view.Road, func() (road, error) { return v.roadOf(g.Group) }),
		into(&view.Thread, func() (*threadView, error) { return v.threadOf("/groups/"+v.id(), "/causes/"+v.id()) }),
		into(&holds, func() (api.List[api.Hold], error) { return v.holdsOf(text(g.Topic)) }),
		into(&view.Kept, func() (*keptEvents, error) { return v.keptOf(g.Group) }),
		into(&closings, func() ([]dlq.Closing, error) { return v.console.cfg.Investigations.Closings(v.ctx, g.UUID) }),
		into(&deeds, func() ([]access.Done, error) { return v.deedsOf(g.UUID) }),
	)
	if err != nil {
		return view, err
	}
	for _, h := range holds.Items {
		view.Holds = append(view.Holds, holdRow{h, wordsOf(h)})
	}
	for _, related := range g.Related {
		view.Related = append(view.Related, v.frame.rowOf(cause{Group: related}))
	}
	if len(closings) > 0 {
		view.Verdict = &closings[0]
	}
	if view.Activity, err = v.activityOf(deeds, view.Road.All, closings); err != nil {
		return view, err
	}
	v.frame.under(crumb{"Causes", "/causes"}, cmp.Or(g.Parts.ErrorCode, string(g.Parts.Reason), "cause")+" on "+g.Where())
	return view, nil
}

// readRecommended reads the investigation of a cause that is read first.
func (v *visit) readRecommended(view *causeView) error {
	if view.Recommended == nil {
		return nil
	}
	d, err := get[api.Detail](v, "/dlq/"+view.Recommended.String(), nil)
	if err != nil {
		return err
	}
	view.Letter = letterOf(d, v.param("as"))
	view.Letter.Path = v.URL.Path
	return nil
}

// holdsOf are the first open holds of a topic; none without a topic, and for a person who does not see the desk's own database.
func (v *visit) holdsOf(topic string) (api.List[api.Hold], error) {
	if topic == "" || !v.seesOwn() {
		return api.List[api.Hold]{}, nil
	}
	return get[api.List[api.Hold]](v, "/holds", url.Values{"topic": {topic}, "page_size": {"10"}})
}

// noCause says in the console's words that a cause is not there; another error stays as it is.
func noCause(err error, id string) error {
	if told(err).Code != httpapi.NotFound {
		return err
	}
	return &httpapi.Error{Code: httpapi.NotFound, Message: "There is no cause with the id " + oneLine(id, 60) + ". Its investigations may have been removed; Causes lists all that are there"}
}

// closedText counts closed investigations by how they were closed.
func closedText(statuses map[dlq.Status]int64) string {
	var parts []string
	for _, s := range []dlq.Status{dlq.ManuallyResolved, dlq.PermanentlyFailed, dlq.Cancelled} {
		if n := statuses[s]; n > 0 {
			parts = append(parts, count(n)+" "+strings.ToLower(statusWords(s).Word))
		}
	}
	return strings.Join(parts, ", ")
}

// adviceOf says what helps against errors with a code of ours.
func adviceOf(parts dlq.Parts) string {
	switch parts.ErrorCode {
	case "INVALID_HEADERS":
		return "The relay cannot make a record of these headers, and gave each event up at the first attempt. Trying again as they are does not help: repair the service that writes them, then send the messages again with headers that can be read."
	case "MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE":
		return "The record is larger than the relay or the broker takes. Raise kafka.max_message_bytes together with the topic’s max.message.bytes, or write less; then send the messages again."
	case "STALE_STATE":
		return "The detector found tasks that stayed in one state for longer than their limit. See that a worker does this step. Then put the tasks that were moved to error or dead_letter back to their beginning. On its own page a flagged task can be let go on, and each can be cancelled."
	case "MAX_RETRIES_EXCEEDED":
		return "A step failed as often as it may. Mend what it needs, then put the task back to its beginning. On the page of the task its step alone can be tried again."
	}
	switch {
	case parts.ErrorClass == "permanent":
		return "The consumer that gave up says that trying again as it is does not help. Mend the cause or the message first."
	case parts.Template == "":
		return "When the cause is mended, send the messages again: first a few, then the others."
	}
	return ""
}

// taken says who has what another person took since the page was made. A person who wants it all the
// same gives it to themselves.
func taken(assignee *string) error {
	who := cmp.Or(oneLine(text(assignee), 100), "Another person")
	return &httpapi.Error{Code: httpapi.Conflict, Message: who + " took it before you. Give it to yourself if it should be yours all the same"}
}

func changeCause(v *visit) (string, error) {
	back := "/causes/" + v.id()
	change := map[string]any{}
	switch v.FormValue("what") {
	case "take":
		change["assignee"], change["if_assignee"] = v.person.Name, ""
	case "assign":
		change["assignee"] = strings.TrimSpace(v.FormValue("assignee"))
	case "note":
		change["note"] = v.FormValue("note")
	case "mute":
		change["muted"] = true
		d, err := v.howLong()
		if err != nil {
			return back, err
		}
		if d > 0 {
			change["muted_until"] = time.Now().Add(d).UTC()
		}
	case "unmute":
		change["muted"] = false
	}
	g, err := ask[api.Group](v, http.MethodPatch, "/groups/"+v.id(), nil, change)
	if err != nil && v.FormValue("what") == "take" && told(err).Code == httpapi.Conflict {
		if now, failed := get[api.GroupDetail](v, "/groups/"+v.id(), nil); failed == nil {
			err = taken(now.Assignee)
		}
	}
	if err != nil {
		return back, err
	}
	switch v.FormValue("what") {
	case "take":
		v.say("It is with you.")
	case "assign":
		if name := text(g.Assignee); name != "" {
			v.say("It is with %s.", name)
		} else {
			v.say("It is unassigned.")
		}
	case "note":
		if g.Note == nil {
			v.say("There is no note any more.")
		} else {
			v.say("The note is written.")
		}
	case "mute":
		v.say("It is muted. It still counts, and can be found under Causes.")
	case "unmute":
		v.say("It is not muted any more.")
	}
	return back, nil
}

func resolveCause(v *visit) (string, error) {
	back := "/causes/" + v.id()
	// What opens after the page was made is left open: the person has not seen it. The group changed last when one was opened.
	body := map[string]any{"resolution_status": cmp.Or(v.FormValue("status"), string(dlq.ManuallyResolved)), "resolution_notes": v.FormValue("notes")}
	if until := v.FormValue("until"); until != "" {
		body["until"] = until
	}
	done, err := ask[api.ResolvedGroup](v, http.MethodPost, "/groups/"+v.id()+"/resolve", nil, body)
	if err != nil {
		return back, err
	}
	if done.Closed == 0 && done.Left == 0 {
		return back, &httpapi.Error{Code: httpapi.Conflict, Message: "Nothing was closed: another person has closed the open investigations, or sent them again."}
	}
	left := ""
	switch {
	case done.Left > 0 && done.Closed >= dlq.MaxGroupResolve:
		left = " " + some(done.Left, "is", "are") + " left open: one request closes 10,000 at most. Close them below."
		back += "?rest=true"
	case done.Left > 0:
		left = " " + some(done.Left, "is left open: a redrive of it is", "are left open: redrives of them are") + " on the way."
	}
	if g, err := v.group(v.PathValue("id")); err == nil {
		if kept, err := v.keptOf(g); err == nil && kept != nil {
			left += " " + kept.Text
		}
	}
	v.say("%s closed.%s", some(done.Closed, "investigation is", "investigations are"), left)
	return back, nil
}

// byTopic sums dead letters of the partitions of a topic.
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
