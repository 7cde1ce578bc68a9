package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
)

// auditView is a page of the audit log, the newest row first.
type auditView struct {
	Rows []auditRow
	// Fields are the filter as the form has it.
	Fields []auditField
	// Filtered says that the list is not the whole log.
	Filtered bool
	// Chips fold the batches of operations, and unfold them; none where the filter asks for an action or a thing.
	Chips []chip
	// More and First are addresses of other pages; empty for none.
	More, First string
	Exports     exports
}

// auditRow is a row of the log as people read it.
type auditRow struct {
	access.Done
	// On is what kind of thing it was done to, and Path is its page; empty where it has none.
	On, Path string
	// Outcome is what the details say.
	Outcome string
	// BatchesPath is the address of the rows of its operation's batches, where the list leaves these out; empty for none.
	BatchesPath string
}

// ManyBatches says how many these are.
func (r auditRow) ManyBatches() string {
	if r.Batches > 1000 {
		return "more than 1,000 batches"
	}
	return some(r.Batches, "batch", "batches")
}

// auditField is a field of the filter. Values are what may stand in it, for fields that take few; the words are beside them.
type auditField struct {
	Name, Label, Text string
	Values            []pair
}

// auditFilters are the filters of the audit log: their names as the API has them, and their labels in the form.
var auditFilters = []struct{ name, label string }{{"actor", "Who"}, {"action", "Did"}, {"target_type", "To what"}, {"target_id", "Its id"}, {"from", "From"}, {"to", "To"}}

// auditFields are the names of the filters.
func auditFields() []string {
	names := make([]string, len(auditFilters))
	for i, f := range auditFilters {
		names[i] = f.name
	}
	return names
}

// deeds are the actions of the audit log in words.
var deeds = map[string]string{
	"group.assign": "assigned", "group.note": "wrote the note of", "group.mute": "muted", "group.unmute": "unmuted", "group.resolve": "closed the investigations of",
	"group.merge": "merged", "group.split": "split", "group.comment": "commented on", "group.comment_delete": "deleted a comment on",
	"dlq.requeue": "sent again", "dlq.resolve": "closed", "dlq.purge": "removed", "dlq.fetch": "asked the brokers for the record of", "dlq.note": "changed",
	"dlq.comment": "commented on", "dlq.comment_delete": "deleted a comment on", "payload.reveal": "looked at the message of", "payload.show": "looked at the message of",
	"operation.plan": "planned", "operation.start": "started", "operation.pause": "halted", "operation.resume": "let go on", "operation.abort": "ended",
	"outbox.release": "released", "outbox.give_up": "gave up the events behind", "outbox.skip": "gave up", "outbox.redrive": "sent again",
	"outbox.purge": "removed published", "outbox.cleanup": "cleaned up", "outbox.processPending": "sent what was due of", "outbox.processRetries": "sent what was to be retried of",
	"task.create": "created", "task.retry": "put back to its beginning", "task.cancel": "cancelled", "task.dead_letter": "dead-lettered", "task.transition": "moved",
	"task.unflag": "let go on", "task.detect_stale": "looked for stale", "step.retry": "tried again", "step.cancel": "cancelled", "step.complete_manually": "marked as done",
	"step.reset_retry_count": "forgot the failures of", "template.apply": "applied", "detector.pause": "paused", "detector.resume": "resumed", "archiver.pause": "paused", "archiver.resume": "resumed", "archive.run": "ran the archiver over",
	"source.rejoin": "led back", "source.forget": "forgot",
	"key.create": "made", "key.revoke": "revoked", "link.create": "made", "session.begin": "began", "session.end": "ended",
}

// deed is what a row of the audit log says was done, in words, or the action itself where it has none.
func deed(d access.Done) string {
	if d.Action == "payload.reveal" && d.TargetType == "task" {
		return "looked at the hidden values of" // a task has no message
	}
	return cmp.Or(deeds[d.Action], clip(d.Action, 60))
}

// thing is a kind of target in a word, and where the address of its page begins; empty for none.
type thing struct{ word, path string }

// things are the kinds of targets.
var things = map[string]thing{
	"entry": {"investigation", "/investigations/"}, "group": {"cause", "/causes/"}, "operation": {"operation", "/operations/"}, "task": {"task", "/tasks/"},
	"event": {"event", "/outbox/"}, "hold": {"hold", "/outbox?hold_id="}, "step": {"step", ""}, "template": {"template", ""}, "key": {"API key", ""},
	"link": {"one-time link", ""}, "session": {"session", ""}, "detector": {"detector", ""}, "archiver": {"archiver", ""}, "outbox": {"outbox", ""},
}

// isID is what the address of a page may have.
var isID = regexp.MustCompile(`^([1-9][0-9]{0,18}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// rowOfAudit is a row of the log in words.
func rowOfAudit(d access.Done) auditRow {
	r := auditRow{Done: d, On: d.TargetType, Outcome: outcomeOf(d.Details)}
	if d.Batches > 0 {
		r.BatchesPath = "/audit?" + url.Values{"target_type": {d.TargetType}, "target_id": {d.TargetID}}.Encode()
	}
	if kind, is := things[d.TargetType]; is {
		r.On = kind.word
		if kind.path != "" && isID.MatchString(d.TargetID) {
			r.Path = kind.path + d.TargetID
		}
		if d.TargetID == "" && (d.TargetType == "entry" || d.TargetType == "task" || d.TargetType == "event") {
			r.On += "s"
		}
	}
	return r
}

// outcomeOf says what the details of a row have: how it was and how it is now, then values by their names, and lists of ids by
// their length.
func outcomeOf(details json.RawMessage) string {
	var all map[string]any
	if json.Unmarshal(details, &all) != nil {
		return ""
	}
	var said []string
	if before, after := all["before"], all["after"]; before != nil && after != nil {
		if fmt.Sprint(before) != fmt.Sprint(after) {
			said = append(said, fmt.Sprintf("%s → %s", plainValue(before), plainValue(after)))
		}
		delete(all, "before")
		delete(all, "after")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if value := plainValue(all[name]); value != "" {
			said = append(said, strings.ReplaceAll(name, "_", " ")+": "+value)
		}
	}
	return strings.Join(said, ", ")
}

// plainValue is a value of details in a few words; empty for one that says nothing.
func plainValue(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case bool:
		return map[bool]string{true: "yes"}[value]
	case float64:
		if value == float64(int64(value)) {
			return count(int64(value))
		}
	case []any:
		var words []string
		for _, one := range value {
			if word, is := one.(string); is && len(value) <= 8 && !isID.MatchString(word) {
				words = append(words, word)
			}
		}
		if len(value) == 1 {
			return plainValue(value[0])
		} else if len(words) == len(value) {
			return strings.Join(words, " + ")
		}
		return count(len(value))
	case map[string]any:
		raw, _ := json.Marshal(value) // it was JSON
		return string(raw)
	}
	return fmt.Sprint(value)
}

func showAudit(v *visit) error {
	view := auditView{}
	q := url.Values{"page_size": {"50"}}
	for _, f := range auditFilters {
		field := auditField{Name: f.name, Label: f.label, Text: v.param(f.name)}
		switch f.name {
		case "action":
			for _, action := range slices.Sorted(maps.Keys(deeds)) {
				field.Values = append(field.Values, pair{action, deeds[action]})
			}
		case "target_type":
			for _, kind := range slices.Sorted(maps.Keys(things)) {
				field.Values = append(field.Values, pair{kind, things[kind].word})
			}
		}
		view.Fields = append(view.Fields, field)
		if field.Text != "" {
			q.Set(f.name, field.Text)
			view.Filtered = true
		}
	}
	if after := v.param("after"); after != "" {
		q.Set("after", after)
		view.First = v.with("after", "")
	}
	view.Exports = v.exports("/audit/export", q)
	if !q.Has("action") && !q.Has("target_id") { // otherwise the batches may be what is asked for
		whole := v.param("batches") == "true"
		q.Set("batches", cmp.Or(v.param("batches"), "false"))
		view.Chips = []chip{{"Operations in one row", v.with("batches", "", "after", ""), !whole}, {"Each batch of them", v.with("batches", "true", "after", ""), whole}}
	}
	found, err := list[api.List[access.Done]](v, "/audit", q)
	if err != nil {
		return err
	}
	for _, d := range found.Items {
		view.Rows = append(view.Rows, rowOfAudit(d))
	}
	if found.Next != nil {
		view.More = v.with("after", *found.Next)
	}
	v.frame.View = view
	return nil
}
