package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// outboxView is the outbox: how many events wait for what, what holds them back, and a list of events.
type outboxView struct {
	Say say
	// States are the events that have not gone, by what they wait for.
	States []pair
	// Holds are a page of holds; HoldChips pick their cause.
	Holds     []holdRow
	HoldChips []chip
	MoreHolds string
	// HoldExports are the holds as files.
	HoldExports exports
	// HoldCount is how many holds there are in all.
	HoldCount int64
	// Events are a page of events, the newest first unless Ascending; EventChips pick their status, and SortPath turns the order.
	Events     []eventRow
	Ascending  bool
	SortPath   string
	EventChips []chip
	More       string
	First      string
	// Fields are the filter as the form has it; Topic filters holds, too. Status and Cause come from the chips.
	Fields               []eventField
	Topic, Status, Cause string
	// Filtered says that the list of events is not all events.
	Filtered bool
	Exports  exports
	// Here is the address of the page, to come back to.
	Here string
}

// eventField is a field of the form: its name, what people call it, and what it has.
type eventField struct{ Name, Label, Value string }

// eventRow is a line of a list of events.
type eventRow struct {
	relay.EventStatus
	Words stateWords
}

// eventWords are the mark and the word of an event's state.
func eventWords(e relay.EventStatus) stateWords {
	switch {
	case e.State == "dead_lettered":
		return stateWords{"failing", "failing", "Given up"}
	case e.State == "exhausted":
		return stateWords{"failing", "failing", "Being given up"}
	case e.State == "parked":
		return stateWords{"held", "held", "Held"}
	case e.State == "scheduled" && e.Attempts > 0:
		return stateWords{"waiting", "back", "Tried again"}
	case e.State == "scheduled":
		return stateWords{"waiting", "waiting", "Waits for its time"}
	case e.State == "published":
		return stateWords{"fine", "fine", "Arrived"}
	case e.State == "pending":
		return stateWords{"quiet", "quiet", "Waits"}
	}
	return stateWords{"quiet", "quiet", e.State}
}

// sayOutbox is how the outbox stands.
func sayOutbox(o api.OutboxStatus) say {
	waits := o.Pending + o.Parked + o.Scheduled // failed ones are among the last two
	switch {
	case waits == 0 && o.HoldCount == 0:
		return say{Mark: "fine", Text: "No event waits.", More: "Whatever was written has arrived, or was given up and is kept."}
	case o.HoldCount > 0:
		return say{Mark: "held", Text: fmt.Sprintf("%s: %s.", openHolds(o.HoldCount), behind(o.Parked)), More: oldestText(o)}
	case o.OldestDueSeconds >= 60:
		return say{Mark: "waiting", Text: fmt.Sprintf("%s to go; the oldest for %s.", some(o.Due, "event has", "events have"), ageText(seconds(o.OldestDueSeconds)))}
	}
	return say{Mark: "fine", Text: fmt.Sprintf("Nothing is held; %s on the way or not due yet.", some(waits, "event is", "events are"))}
}

func openHolds(holds int64) string { return some(holds, "hold is open", "holds are open") }

func behind(parked int64) string {
	if parked == 0 {
		return "nothing waits behind it"
	}
	return some(parked, "event waits", "events wait") + " behind it"
}

func oldestText(o api.OutboxStatus) string {
	if o.OldestDueSeconds < 1 {
		return ""
	}
	return "The oldest event that should have gone by now, held or not, waits for " + ageText(seconds(o.OldestDueSeconds)) + ". Events behind halted keys are not counted."
}

// causeNames are what the chips call the causes of holds.
var causeNames = []struct {
	name  string
	cause relay.Cause
}{{"Halted keys", relay.CauseHalted}, {"Circuit breakers", relay.CauseBreaker}, {"Missing topics", relay.CauseRoute}, {"Brokers", relay.CauseInfrastructure},
	{"Redrives", relay.CauseRedrive}, {"Retries", relay.CauseRetry}}

// eventStatusNames are what the chips call the statuses of events.
var eventStatusNames = map[string]string{"pending": "Waiting", "processing": "On the way", "succeeded": "Arrived", "failed": "Failed, tried again", "dead_lettered": "Given up"}

// eventFilters are the filters of the list of events, as the API has them.
var eventFilters = []string{"status", "topic", "key", "error_code", "event_id", "task_uuid", "hold_id", "from", "to", "state"}

// eventParameters are these filters and the order.
var eventParameters = append(slices.Clone(eventFilters), "order_dir")

// eventFields are the filters that the form has, and what it calls them; the chips have the status.
var eventFields = []struct{ name, label string }{{"topic", "Topic"}, {"key", "Key"}, {"error_code", "Code"}, {"event_id", "Event id"}, {"task_uuid", "Task"}, {"hold_id", "Hold"},
	{"from", "Written from"}, {"to", "Written until"}}

func showOutbox(v *visit) error {
	view := outboxView{Here: v.with(), Topic: v.param("topic"), Status: v.param("status"), Cause: v.param("cause")}
	var status api.Status
	// The same moment as the lists below it: the figures of the process may be older.
	err := together(
		into(&status, func() (api.Status, error) { return get[api.Status](v, "/status", nil) }),
		func() error { // one after the other: each may say what is wrong with the address
			if err := v.readHolds(&view); err != nil {
				return err
			}
			return v.readEvents(&view)
		},
	)
	if err != nil {
		return err
	}
	o := status.Outbox
	view.Say, view.HoldCount = sayOutbox(o), o.HoldCount
	view.States = []pair{{"Not read yet", count(o.Pending)}, {"Due now", count(o.Due)}, {"On the way again", count(o.Processing)}, {"Failed, tried again", count(o.Failed)},
		{"Held", count(o.Parked)}, {"Wait for their time", count(o.Scheduled)}, {"Being given up", count(o.Exhausted)}, {"Given up, kept", count(o.DeadLettered)}}
	v.frame.View = view
	return nil
}

// readEvents reads a page of events.
func (v *visit) readEvents(view *outboxView) error {
	for _, f := range eventFields {
		view.Fields = append(view.Fields, eventField{f.name, f.label, v.param(f.name)})
	}
	q := url.Values{"page_size": {"25"}}
	for _, name := range append(eventParameters, "after") {
		if value := v.param(name); value != "" {
			q.Set(name, value)
			view.Filtered = view.Filtered || slices.Contains(eventFilters, name)
		}
	}
	view.Ascending = v.param("order_dir") == "asc"
	view.SortPath = v.with("order_dir", map[bool]string{true: "", false: "asc"}[view.Ascending], "after", "") + "#events"
	found, err := list[api.List[relay.EventStatus]](v, "/outbox", q)
	if err != nil {
		return err
	}
	view.Exports = v.exports("/outbox/export", q)
	for _, e := range found.Items {
		view.Events = append(view.Events, eventRow{e, eventWords(e)})
	}
	if found.Next != nil {
		view.More = v.with("after", *found.Next) + "#events"
	}
	if v.param("after") != "" {
		view.First = v.with("after", "") + "#events"
	}
	for _, status := range append([]string{""}, relay.EventStatuses()...) {
		name := "All"
		if status != "" {
			name = eventStatusNames[status]
		}
		view.EventChips = append(view.EventChips, chip{Name: name, Path: v.with("status", status, "after", "") + "#events", On: status == view.Status})
	}
	return nil
}

// readHolds reads a page of holds.
func (v *visit) readHolds(view *outboxView) error {
	q := url.Values{"page_size": {"25"}}
	for _, name := range []string{"cause", "topic"} {
		if value := v.param(name); value != "" {
			q.Set(name, value)
		}
	}
	if after := v.param("holds_after"); after != "" {
		q.Set("after", after)
	}
	found, err := list[api.List[api.Hold]](v, "/holds", q)
	if err != nil {
		return err
	}
	for _, h := range found.Items {
		view.Holds = append(view.Holds, holdRow{h, wordsOf(h)})
	}
	if found.Next != nil {
		view.MoreHolds = v.with("holds_after", *found.Next)
	}
	view.HoldExports = v.exports("/outbox/holds/export", q)
	view.HoldChips = []chip{{"All", v.with("cause", "", "holds_after", ""), view.Cause == ""}}
	for _, c := range causeNames {
		view.HoldChips = append(view.HoldChips, chip{c.name, v.with("cause", string(c.cause), "holds_after", ""), view.Cause == string(c.cause)})
	}
	return nil
}

// eventView is one event of the outbox.
type eventView struct {
	relay.EventStatus
	Words stateWords
	Say   say
	// Life is what happened to it, and what comes next.
	Life []lifeStep
	// Hold is what it waits behind; nil where it waits behind nothing, or that has ended.
	Hold *holdRow
	// Entries are the investigations about it.
	Entries []api.Entry
	// CanSkip and CanRedrive say what fits its state; NoSkip and NoRedrive why not.
	CanSkip, CanRedrive bool
	NoSkip, NoRedrive   string
	// Revealed says that Body, Headers and Bytes are what it carries.
	Revealed bool
	Body     body
	Headers  []pair
	// FullKey is the key as the payload's reader may see it.
	FullKey string
}

// lifeStep is something that happened to an event, or will.
type lifeStep struct {
	// At is when; zero for what has no time. Since is how long behind the beginning; empty for the beginning.
	At    time.Time
	Since string
	// Mark is failing, waiting, held, fine or quiet.
	Mark string
	// What happened, and Sub with more; Ahead says that it has not.
	What, Sub string
	Ahead     bool
}

// lifeOf is the life of an event from its insert to its receipt.
func lifeOf(e relay.EventStatus, hold *holdRow) []lifeStep {
	size := "no payload: a tombstone"
	if e.PayloadBytes != nil {
		size = bytesText(*e.PayloadBytes) + " of payload"
	}
	steps := []lifeStep{{At: e.CreatedAt, Mark: "fine", What: "Written", Sub: fmt.Sprintf("row %d of the outbox, %s", e.ID, size)}}
	add := func(at *time.Time, s lifeStep) {
		if at != nil {
			s.At, s.Since = *at, sinceText(at.Sub(e.CreatedAt))
			steps = append(steps, s)
		}
	}
	if wait := e.AvailableAt.Sub(e.CreatedAt); wait > time.Second {
		add(&e.AvailableAt, lifeStep{Mark: "waiting", What: "Its time", Sub: "it was written to go from then on", Ahead: e.AvailableAt.After(time.Now())})
	}
	why := strings.TrimSpace(text(e.LastErrorCode) + " " + oneLine(text(e.LastErrorMessage), 300))
	if e.FirstErrorAt != nil && e.LastErrorAt != nil && e.LastErrorAt.Equal(*e.FirstErrorAt) {
		add(e.FirstErrorAt, lifeStep{Mark: "failing", What: "An attempt failed", Sub: why})
	} else {
		add(e.FirstErrorAt, lifeStep{Mark: "failing", What: "The first attempt failed"})
		add(e.LastErrorAt, lifeStep{Mark: "failing", What: fmt.Sprintf("Failed again: %s so far", some(e.Attempts, "attempt", "attempts")), Sub: why})
	}
	if e.State == "published" {
		add(e.SentAt, lifeStep{Mark: "fine", What: "Arrived", Sub: "its topic acknowledged it"})
	}
	if e.LockedAt != nil {
		add(e.LockedAt, lifeStep{Mark: "waiting", What: "In hand", Sub: "of " + text(e.LockedBy)})
	}
	switch e.State {
	case "dead_lettered", "exhausted":
		add(&e.UpdatedAt, lifeStep{Mark: "failing", What: eventWords(e).Word, Sub: fmt.Sprintf("for the %s time, after %s", ordinal(e.Episode), some(e.Attempts, "attempt", "attempts"))})
	case "parked":
		sub := "what held it has ended; it goes next"
		if hold != nil {
			sub = hold.Words.Who + " " + hold.Words.Verb + ". " + hold.Words.Waits
		}
		steps = append(steps, lifeStep{Mark: "held", What: "Held", Sub: sub, Ahead: true})
	case "scheduled":
		add(e.NextAttemptAt, lifeStep{Mark: "waiting", What: "Next attempt", Ahead: true})
	case "pending":
		steps = append(steps, lifeStep{Mark: "quiet", What: "Waits for its turn in the log", Sub: "the relay that leads sends it when it comes to it", Ahead: true})
	}
	return steps
}

// sinceText is how long behind the beginning something happened.
func sinceText(d time.Duration) string {
	if d < 2*time.Second {
		return fmt.Sprintf("+%d ms", max(d.Milliseconds(), 0))
	}
	return "+" + ageText(d)
}

func ordinal(n int) string {
	switch n {
	case 0, 1:
		return "first"
	case 2:
		return "second"
	case 3:
		return "third"
	}
	return fmt.Sprintf("%dth", n)
}

// sayEvent is where an event stands.
func sayEvent(e relay.EventStatus) say {
	w := eventWords(e)
	s := say{Mark: w.Mark}
	topic := clip(e.Topic, 120)
	switch e.State {
	case "published":
		s.Text = "The event arrived in " + topic + "."
	case "dead_lettered":
		s.Text, s.More = "The event for "+topic+" was given up.", "Nothing is lost: its dead letter is kept, and can be sent again."
	case "exhausted":
		s.Text = "The event for " + topic + " is being given up: its dead letter is on its way."
	case "parked":
		s.Text = "The event for " + topic + " is held."
	case "scheduled":
		s.Text = "The event for " + topic + " waits for its time."
		if e.Attempts > 0 {
			s.Text = fmt.Sprintf("The event for %s failed %s, and is tried again.", topic, some(e.Attempts, "time", "times"))
		}
	default:
		s.Text = "The event for " + topic + " waits for its turn."
	}
	return s
}

// eventOf is an event as its page shows it.
func eventOf(e relay.EventStatus, hold *holdRow, entries []api.Entry) *eventView {
	w := &eventView{EventStatus: e, Words: eventWords(e), Say: sayEvent(e), Life: lifeOf(e, hold), Hold: hold, Entries: entries}
	switch e.State {
	case "pending", "parked", "scheduled":
		w.CanSkip, w.NoRedrive = true, "Only an event that was given up is sent again here."
	case "dead_lettered":
		w.CanRedrive, w.NoSkip = true, "It was given up already."
	case "published":
		w.NoSkip, w.NoRedrive = "It arrived: there is nothing to do.", "It arrived: there is nothing to do."
	default:
		w.NoSkip, w.NoRedrive = "It is being given up already.", "Its dead letter is on its way; it can be sent again when that has arrived."
	}
	return w
}

func (v *visit) readEvent() (*eventView, error) {
	e, err := get[relay.EventStatus](v, "/outbox/"+v.id(), nil)
	if err != nil {
		return nil, err
	}
	var hold *holdRow
	var entries api.EntryList
	err = together(
		into(&hold, func() (*holdRow, error) { return v.holdOf(e) }),
		into(&entries, func() (api.EntryList, error) {
			return get[api.EntryList](v, "/dlq", url.Values{"event_id": {e.EventID.String()}, "source": {dlq.MainSource}, "page_size": {"10"}})
		}),
	)
	if err != nil {
		return nil, err
	}
	v.frame.under(crumb{"Outbox", "/outbox"}, fmt.Sprintf("%d of %s", e.ID, clip(e.Topic, 80)))
	return eventOf(e, hold, entries.Items), nil
}

// holdOf is the hold that an event waits behind; nil where it waits behind none, or that has ended.
func (v *visit) holdOf(e relay.EventStatus) (*holdRow, error) {
	if e.HoldID == nil {
		return nil, nil
	}
	found, err := get[api.List[api.Hold]](v, "/holds", url.Values{"hold_id": {fmt.Sprint(*e.HoldID)}})
	if err != nil || len(found.Items) != 1 {
		return nil, err
	}
	return &holdRow{found.Items[0], wordsOf(found.Items[0])}, nil
}
