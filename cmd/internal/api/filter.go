package api

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// EntryFilter selects investigations by named texts, as the parameters of GET /dlq do.
//
// It is the filter in the scope of an operation, the flags of commands, the arguments of the tool dlq_list, too. Parse reads
// the texts for all of them. An empty text selects nothing; a caller that is given an empty one refuses it.
type EntryFilter struct {
	// Status is the only status wanted.
	Status string `json:"resolution_status,omitempty" jsonschema:"only this status: pending, manually_resolved, permanently_failed or cancelled"`
	// DLQReason is the only reason wanted of why subjects were dead-lettered.
	DLQReason string `json:"dlq_reason,omitempty" jsonschema:"only investigations dead-lettered for this reason: staleness_timeout, max_retries_exceeded, dependency_cycle_detected, worker_unavailable, manual_dlq, undeliverable or unclassified"`
	// SubjectType is the only type of subjects wanted.
	SubjectType string `json:"subject_type,omitempty" jsonschema:"only investigations about an event, a task or a record"`
	// SubjectID is the only id of subjects wanted.
	SubjectID string `json:"subject_id,omitempty" jsonschema:"only investigations about the event, task or record with this id"`
	// Source is the only source wanted.
	Source string `json:"source,omitempty" jsonschema:"only investigations of this source, a database by its name; main is the desk's own"`
	// Topic is the only topic wanted.
	Topic string `json:"topic,omitempty" jsonschema:"only investigations of this topic"`
	// ErrorCode is the only error code wanted.
	ErrorCode string `json:"error_code,omitempty" jsonschema:"only investigations with this error code"`
	// Group is the id of the only group wanted.
	Group string `json:"group,omitempty" jsonschema:"only investigations of this group: its group_uuid"`
	// Assignee is the only person wanted who looks at them.
	Assignee string `json:"assignee,omitempty" jsonschema:"only investigations that this person looks at"`
	// ConsumerGroup is the only consumer group wanted that gave the message up.
	ConsumerGroup string `json:"consumer_group,omitempty" jsonschema:"only investigations that this consumer group gave up"`
	// DLQTopic is the only dead-letter topic wanted that the first dead letter was read from.
	DLQTopic string `json:"dlq_topic,omitempty" jsonschema:"only investigations whose dead letter was read from this topic"`
	// EventID is the event that a dead letter of them is about.
	EventID string `json:"event_id,omitempty" jsonschema:"only investigations with a dead letter about the event with this id, a uuid"`
	// Reason is a reason that lists and statistics report: it selects exactly the investigations with it. A list takes a
	// reason that no investigation has for a text; a purge removes nothing then, and an operation is not planned.
	Reason string `json:"reason,omitempty" jsonschema:"only investigations with this reason, as lists and statistics report it"`
	// Text is a part of the error message, of the root cause or of its frame, in large or small letters. It does not go with
	// a reason.
	Text string `json:"text,omitempty" jsonschema:"only investigations with this text in their error message or root cause; not with reason"`
	// From is a time (2026-01-31T08:00:00Z) or a date: the earliest time of opening, inclusive.
	From string `json:"from,omitempty" jsonschema:"only investigations opened from this time on: 2026-01-31 or 2026-01-31T08:00:00Z"`
	// To is a time or a date: the latest time of opening, inclusive.
	To string `json:"to,omitempty" jsonschema:"only investigations opened up to this time"`
}

// NewEntryFilter is the texts of a filter. Limit and offset are no part of them.
func NewEntryFilter(f dlq.Filter) EntryFilter {
	v := EntryFilter{Status: string(f.Status), DLQReason: string(f.Reason), SubjectType: string(f.Subject.Type), SubjectID: f.Subject.ID, Source: f.Source, Topic: f.Topic,
		ErrorCode: f.ErrorCode, Assignee: f.Assignee, ConsumerGroup: f.ConsumerGroup, DLQTopic: f.DLQTopic,
		Reason: f.Word, Text: f.Message, From: timeText(f.From), To: timeText(f.To)}
	if f.Group != uuid.Nil {
		v.Group = f.Group.String()
	}
	if f.EventID != uuid.Nil {
		v.EventID = f.EventID.String()
	}
	return v
}

// Parse reads the texts. An error is a *FieldError about the first field that is wrong, in the order of the fields.
func (f EntryFilter) Parse() (dlq.Filter, error) {
	p := dlq.Filter{Subject: dlq.Subject{ID: f.SubjectID}, Topic: f.Topic, ErrorCode: f.ErrorCode, Assignee: f.Assignee,
		ConsumerGroup: f.ConsumerGroup, DLQTopic: f.DLQTopic, Word: f.Reason, Message: f.Text}
	var errs [8]error
	p.Status, errs[0] = oneOf("resolution_status", f.Status, dlq.Statuses())
	p.Reason, errs[1] = oneOf("dlq_reason", f.DLQReason, dlq.Reasons())
	p.Subject.Type, errs[2] = oneOf("subject_type", f.SubjectType, dlq.SubjectTypes())
	p.Source, errs[3] = parseSource(f.Source)
	p.Group, errs[4] = parseUUID("group", f.Group)
	p.EventID, errs[5] = parseUUID("event_id", f.EventID)
	p.From, errs[6] = ParseBound("from", f.From, false)
	p.To, errs[7] = ParseBound("to", f.To, true)
	return p, cmp.Or(errs[:]...)
}

// TaskFilter selects tasks by named texts: the parameters of GET /tasks, the filter of POST /tasks/retry, the flags of the command
// task retry. An empty text selects nothing.
type TaskFilter struct {
	// Namespace is the only namespace wanted.
	Namespace string `json:"namespace,omitempty"`
	// Name is the only name of templates wanted.
	Name string `json:"name,omitempty"`
	// Version is the only version of templates wanted.
	Version string `json:"version,omitempty"`
	// Status is the only state wanted.
	Status string `json:"status,omitempty"`
	// From is a time (2026-01-31T08:00:00Z) or a date: tasks created since, that included.
	From string `json:"from,omitempty"`
	// To is a time or a date: tasks created until then, that included.
	To string `json:"to,omitempty"`
}

// Parse reads the texts. An error is a *FieldError about the first field that is wrong.
func (f TaskFilter) Parse() (ledger.Filter, error) {
	p := ledger.Filter{Namespace: f.Namespace, Name: f.Name, Version: f.Version, State: f.Status}
	var errs [2]error
	p.From, errs[0] = ParseBound("from", f.From, false)
	p.To, errs[1] = ParseBound("to", f.To, true)
	return p, cmp.Or(errs[:]...)
}

// EventFilter selects events of the outbox by named texts: the parameters of GET /outbox, the flags of the command outbox
// list, the arguments of the tool outbox_list. An empty text selects nothing.
type EventFilter struct {
	// Status is the only status wanted.
	Status string `json:"status,omitempty" jsonschema:"only this status: pending, processing, succeeded, failed or dead_lettered"`
	// State is the only state wanted, which is finer than the status.
	State string `json:"state,omitempty" jsonschema:"only this state: pending, scheduled, parked, published, exhausted or dead_lettered"`
	// Topic is the only topic wanted.
	Topic string `json:"topic,omitempty" jsonschema:"only events of this topic"`
	// Key is the only key wanted, as text.
	Key string `json:"key,omitempty" jsonschema:"only events with this key"`
	// ErrorCode is the only code wanted of the last failure.
	ErrorCode string `json:"error_code,omitempty" jsonschema:"only events whose last failure has this error code"`
	// HoldID is the only hold wanted that events wait behind.
	HoldID string `json:"hold_id,omitempty" jsonschema:"only events that wait behind the hold with this number"`
	// EventID is the only event wanted.
	EventID string `json:"event_id,omitempty" jsonschema:"only the event with this id, a uuid"`
	// TaskUUID is the only task wanted that events belong to.
	TaskUUID string `json:"task_uuid,omitempty" jsonschema:"only events of the task with this uuid"`
	// From is a time (2026-01-31T08:00:00Z) or a date: the earliest time of writing, inclusive. The list ends at an event that is more
	// than an hour older, and so early at one to which its writer gave an old created_at.
	From string `json:"from,omitempty" jsonschema:"only events written from this time on: 2026-01-31 or 2026-01-31T08:00:00Z"`
	// To is a time or a date: the latest time of writing, inclusive. A list with the oldest first ends at an event that is
	// more than an hour newer.
	To string `json:"to,omitempty" jsonschema:"only events written up to this time"`
}

// Parse reads the texts. An error is a *FieldError about the first field that is wrong.
func (f EventFilter) Parse() (relay.EventFilter, error) {
	p := relay.EventFilter{Topic: f.Topic, ErrorCode: f.ErrorCode}
	if f.Key != "" {
		p.Key = []byte(f.Key)
	}
	var errs [7]error
	p.Status, errs[0] = oneOf("status", f.Status, relay.EventStatuses())
	p.State, errs[1] = oneOf("state", f.State, relay.EventStates())
	if f.HoldID != "" {
		var err error
		if p.HoldID, err = strconv.ParseInt(f.HoldID, 10, 64); err != nil || p.HoldID < 1 {
			errs[2] = &FieldError{"hold_id", f.HoldID, "the number of a hold, which GET /holds shows"}
		}
	}
	p.EventID, errs[3] = parseUUID("event_id", f.EventID)
	p.TaskUUID, errs[4] = parseUUID("task_uuid", f.TaskUUID)
	p.From, errs[5] = ParseBound("from", f.From, false)
	p.To, errs[6] = ParseBound("to", f.To, true)
	return p, cmp.Or(errs[:]...)
}

// GroupFilter selects groups by named texts: the parameters of GET /groups, the flags of the command dlq groups, the
// arguments of the tool dlq_groups. An empty text selects nothing.
type GroupFilter struct {
	// State is the only state wanted.
	State string `json:"state,omitempty" jsonschema:"only groups in this state: new, ongoing, regressed, resolved or muted"`
	// Source is the only source wanted.
	Source string `json:"source,omitempty" jsonschema:"only groups of this source, a database by its name; main is the desk's own"`
	// Topic is the only topic wanted.
	Topic string `json:"topic,omitempty" jsonschema:"only groups of this topic"`
	// ErrorCode is the only error code wanted.
	ErrorCode string `json:"error_code,omitempty" jsonschema:"only groups with this error code"`
	// Assignee is the only person wanted who looks at them.
	Assignee string `json:"assignee,omitempty" jsonschema:"only groups that this person looks at"`
	// Text is a part of the title, the error code, the topic or the template, in large or small letters.
	Text string `json:"text,omitempty" jsonschema:"only groups with this text in their title, error code, topic or template"`
}

// Parse reads the texts. An error is a *FieldError about the first field that is wrong.
func (f GroupFilter) Parse() (dlq.GroupSearch, error) {
	p := dlq.GroupSearch{Topic: f.Topic, ErrorCode: f.ErrorCode, Assignee: f.Assignee, Text: f.Text}
	var errs [2]error
	p.State, errs[0] = oneOf("state", f.State, dlq.GroupStates())
	p.Source, errs[1] = parseSource(f.Source)
	return p, cmp.Or(errs[:]...)
}

// Field is one text of a filter.
type Field struct {
	// Name is its name as a parameter and in JSON.
	Name string
	// Text is where the filter has it.
	Text *string
}

// Fields are the texts of a filter, which must be a pointer to one, in the order in which it has them.
func Fields[Filter EntryFilter | GroupFilter | EventFilter | TaskFilter](f *Filter) []Field {
	v := reflect.ValueOf(f).Elem()
	fields := make([]Field, v.NumField())
	for i := range fields {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[i] = Field{name, v.Field(i).Addr().Interface().(*string)}
	}
	return fields
}

// FieldError says what is wrong with a field of a filter. Faces name the field as their callers know it.
type FieldError struct {
	// Field is its name as a parameter and in JSON.
	Field string
	// Text is what was given.
	Text string
	// Want says what it must be.
	Want string
}

// Error is for logs; Text may have any characters, and is quoted.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s is %q; it must be %s", e.Field, e.Text, e.Want)
}

func oneOf[T ~string](field, text string, allowed []T) (T, error) {
	if text == "" || slices.Contains(allowed, T(text)) {
		return T(text), nil
	}
	words := each(func(v T) string { return string(v) }, allowed)
	return "", &FieldError{field, text, "one of " + strings.Join(words, ", ")}
}

func parseSource(text string) (string, error) {
	if text == "" || dlq.ValidSource(text) {
		return text, nil
	}
	return "", &FieldError{"source", text, dlq.WantSource}
}

func parseUUID(field, text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Nil, nil
	}
	id, err := ParseID(text)
	if err != nil {
		return id, &FieldError{field, text, WantID}
	}
	return id, nil
}

// ParseBound is ParseTime for the bound of a search; an empty text is the zero time, which is no bound. An error is a
// *FieldError.
func ParseBound(field, text string, upper bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, ok := ParseTime(text, upper)
	if !ok || t.IsZero() { // the zero time is no bound
		return t, &FieldError{field, text, WantTime(text)}
	}
	return t, nil
}

// WantTime says what a text that ParseTime does not read must be.
func WantTime(text string) string {
	if _, err := time.Parse("2006-01-02T15:04:05", text); err == nil {
		return "a time with its zone, such as " + text + "Z or " + text + "+01:00"
	}
	return "a date (2026-01-31) or a time (2026-01-31T08:00:00Z)"
}

// ParseTime reads a time as RFC 3339 has it, or a date: its first moment, or its last microsecond where it is an upper bound.
// It is false for everything else, and for years that RFC 3339 cannot say.
func ParseTime(text string, upper bool) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if t, err = time.Parse(time.DateOnly, text); err != nil {
			return time.Time{}, false
		}
		if upper {
			t = t.AddDate(0, 0, 1).Add(-time.Microsecond)
		}
	}
	return t, t.Year() >= 1 && t.Year() <= 9999
}

// timeText is a time for ParseTime; empty for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Time(t).Format(time.RFC3339Nano)
}

// ExactlyOne reports whether one of several ways to name a thing was used, and no second.
func ExactlyOne(given ...bool) bool {
	n := 0
	for _, g := range given {
		if g {
			n++
		}
	}
	return n == 1
}
