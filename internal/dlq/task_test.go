package dlq

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// taskValue is a task's dead letter as the ledger writes it.
func taskValue(t testing.TB) []byte {
	t.Helper()
	value, err := os.ReadFile("testdata/task_letter.json")
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// taskRecord is that letter as it is read from the dead-letter topic.
func taskRecord(t testing.TB) Record {
	t.Helper()
	return Record{
		Topic: "postrider.dlq", Partition: 3, Offset: 43, Timestamp: letterTime, Key: []byte(aTask), Value: taskValue(t),
		Headers: []message.Header{
			header("ce_specversion", "1.0"), header("ce_type", TaskLetterType), header("ce_subject", aTask),
			header("content-type", "application/json"), header(message.HeaderEventID, anEvent),
		},
	}
}

// wrapped is the same letter after it could not be delivered itself, as the relay writes it.
func wrapped(t testing.TB) Record {
	t.Helper()
	r := taskRecord(t)
	ours := ourRecord()
	for _, h := range ours.Headers {
		if message.Reserved(h.Name) && h.Name != message.HeaderTaskUUID && h.Name != message.HeaderPayloadBytes && h.Name != message.HeaderEventID {
			r.Headers = append(r.Headers, h)
		}
	}
	return r
}

func TestDecodeTask(t *testing.T) {
	t.Parallel()
	r := taskRecord(t)
	got := Decode(r)
	size := int64(len(r.Value))
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(r.Value, &parts); err != nil {
		t.Fatal(err)
	}
	want := Letter{Source: MainSource,
		ID: "task:" + aTask + ":4:staleness_timeout", Dialect: DialectPostrider,
		DLQTopic: "postrider.dlq", DLQPartition: 3, DLQOffset: 43, DLQRecordAt: letterTime,
		EventID: uuid.MustParse(anEvent), Key: []byte(aTask), KeyKind: Inline,
		Payload: r.Value, PayloadKind: Inline, PayloadBytes: &size, Headers: r.Headers[:4],
		ErrorCode: "STALENESS_TIMEOUT", ErrorMessage: "61 minutes in waiting_for_dependencies, 60 are allowed",
		LastFailedAt: time.Date(2026, 3, 4, 5, 6, 0, 250_000_000, time.UTC),
		Subject:      Subject{SubjectTask, aTask}, Reason: StalenessTimeout, OriginalState: "waiting_for_dependencies",
		TaskUUID: uuid.MustParse(aTask), Template: "payments/charge_card", TaskSnapshot: parts["snapshot"], Metadata: parts["metadata"],
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Decode:\n got %+v\nwant %+v", got, want)
	}
	if string(Snapshot(got)) != string(parts["snapshot"]) {
		t.Errorf("the snapshot became %s", Snapshot(got))
	}
	if !got.DeadLetteredAt().Equal(want.LastFailedAt) || !got.OccurredAt().Equal(want.LastFailedAt) {
		t.Errorf("dead-lettered at %v, want what the letter says", got.DeadLetteredAt())
	}
}

// altered returns the letter with one of its fields set anew, or without it when raw is empty.
func altered(t testing.TB, field, raw string) Record {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(taskValue(t), &fields); err != nil {
		t.Fatal(err)
	}
	fields[field] = json.RawMessage(raw)
	if raw == "" {
		delete(fields, field)
	}
	r := taskRecord(t)
	var err error
	if r.Value, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDecodeTaskVariants(t *testing.T) {
	t.Parallel()
	generic := func(l Letter) bool { // the snapshot of any letter, which has the payload
		var s snapshot
		return l.TaskSnapshot == nil && json.Unmarshal(Snapshot(l), &s) == nil && s.TaskUUID == aTask && s.DeadLetter.LetterID == l.ID
	}
	for name, test := range map[string]struct {
		record Record
		check  func(Letter) bool
	}{
		"a reason of a later version": {altered(t, "dlq_reason", `"bad_weather"`), func(l Letter) bool { return l.Reason == Unclassified }},
		"a manual one":                {altered(t, "dlq_reason", `"manual_dlq"`), func(l Letter) bool { return l.Reason == ManualDLQ }},
		"no reason":                   {altered(t, "dlq_reason", ``), func(l Letter) bool { return l.Reason == Unclassified }},
		"uuid in capitals":            {altered(t, "task_uuid", `"`+strings.ToUpper(aTask)+`"`), func(l Letter) bool { return l.Subject.ID == aTask }},
		"no time":                     {altered(t, "dead_lettered_at", `"soon"`), func(l Letter) bool { return l.LastFailedAt.IsZero() && l.DeadLetteredAt().Equal(letterTime) }},
		"no error":                    {altered(t, "error_code", `null`), func(l Letter) bool { return l.ErrorCode == "" && l.ErrorMessage != "" }},
		"message with NUL":            {altered(t, "error_message", `"a\u0000b"`), func(l Letter) bool { return l.ErrorMessage == "a\uFFFDb" }},
		"long message":                {altered(t, "error_message", `"`+strings.Repeat("x", 9<<10)+`"`), func(l Letter) bool { return len(l.ErrorMessage) == 8<<10 }},
		"long state":                  {altered(t, "original_state", `"`+strings.Repeat("x", 300)+`"`), func(l Letter) bool { return len(l.OriginalState) == 249 }},
		"no metadata":                 {altered(t, "metadata", `null`), func(l Letter) bool { return l.Metadata == nil }},
		"metadata of a number":        {altered(t, "metadata", `7`), func(l Letter) bool { return l.Metadata == nil }},
		"huge metadata":               {altered(t, "metadata", `{"a":"`+strings.Repeat("x", MaxSnapshotBytes)+`"}`), func(l Letter) bool { return l.Metadata == nil && l.TaskSnapshot != nil }},
		"no snapshot":                 {altered(t, "snapshot", ``), generic},
		"a snapshot jsonb refuses":    {altered(t, "snapshot", `{"a":"\u0000"}`), generic},
		"a deep snapshot":             {altered(t, "snapshot", strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)), generic},
		"a huge snapshot":             {altered(t, "snapshot", `{"a":"`+strings.Repeat("x", MaxTaskSnapshotBytes)+`"}`), generic},
		"a field of a later version":  {altered(t, "weather", `"bad"`), func(l Letter) bool { return l.TaskSnapshot != nil }},
		"copied without our headers":  {with(taskRecord(t), message.HeaderEventID, "-"), func(l Letter) bool { return l.EventID == uuid.Nil }},
		"a foreign event id":          {with(taskRecord(t), message.HeaderEventID, "x"), func(l Letter) bool { return l.EventID == uuid.Nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Decode(test.record)
			checkStorable(t, l)
			if l.Dialect != DialectPostrider || l.Subject != (Subject{SubjectTask, aTask}) || !test.check(l) {
				t.Errorf("got %+v", l)
			}
		})
	}
}

// TestDecodeTaskWithSpentRetries: the investigation says how often the step was tried again.
func TestDecodeTaskWithSpentRetries(t *testing.T) {
	t.Parallel()
	for reason, want := range map[Reason]bool{MaxRetriesExceeded: true, StalenessTimeout: false} {
		r := taskRecord(t)
		var body map[string]any
		if err := json.Unmarshal(r.Value, &body); err != nil {
			t.Fatal(err)
		}
		body["dlq_reason"], body["metadata"] = reason, map[string]any{"error": map[string]any{"retry_count": 5}}
		var err error
		if r.Value, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
		if got := Decode(r).Attempts; (got != nil) != want || want && *got != 5 {
			t.Errorf("%s: attempts %v", reason, got)
		}
	}
}

func TestDecodeBrokenTask(t *testing.T) {
	t.Parallel()
	value := func(v []byte) Record { r := taskRecord(t); r.Value = v; return r }
	for name, test := range map[string]struct {
		record Record
		says   string
	}{
		"no value":             {value(nil), "it has no value"},
		"an empty value":       {value([]byte{}), "not the JSON"},
		"no JSON":              {value([]byte("{")), "not the JSON"},
		"another JSON":         {value([]byte("[]")), "not the JSON"},
		"a number for a text":  {altered(t, "dlq_reason", "7"), "not the JSON"},
		"no task":              {altered(t, "task_uuid", ""), "task_uuid is not a uuid"},
		"a task of zero":       {altered(t, "task_uuid", `"`+uuid.Nil.String()+`"`), "task_uuid is not a uuid"},
		"no letter id":         {altered(t, "letter_id", ""), "letter_id does not begin with task:" + aTask},
		"an event's letter id": {altered(t, "letter_id", `"event:`+anEvent+`:1"`), "letter_id does not begin"},
		"another task's":       {altered(t, "letter_id", `"task:`+anEvent+`:1:x"`), "letter_id does not begin"},
		"a long letter id":     {altered(t, "letter_id", `"task:`+aTask+`:`+strings.Repeat("x", 1000)+`"`), "longer than 1024 bytes"},
		"a letter id with NUL": {altered(t, "letter_id", `"task:`+aTask+`:\u0000"`), "letter_id does not begin"},
		"no state":             {altered(t, "original_state", ""), "original_state is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Decode(test.record)
			checkStorable(t, l)
			if l.Dialect != DialectUnknown || l.Subject.Type != SubjectRecord || l.Reason != Unclassified || !strings.HasPrefix(l.ID, "record:") {
				t.Errorf("not degraded: %+v", l)
			}
			if l.ErrorCode != CodeBrokenTaskLetter || !strings.Contains(l.ErrorMessage, test.says) {
				t.Errorf("error %q %q does not say %q", l.ErrorCode, l.ErrorMessage, test.says)
			}
			if !reflect.DeepEqual(l.Headers, test.record.Headers) || string(l.Payload) != string(test.record.Value) || (l.Payload == nil) != (test.record.Value == nil) {
				t.Errorf("something was lost: %+v", l)
			}
		})
	}
	later := with(taskRecord(t), "ce_type", "postrider.task.dead_lettered.v2")
	if l := Decode(later); l.Dialect != DialectUnknown || l.ErrorCode != "" {
		t.Errorf("another type of event became %+v", l)
	}
}

// A task's letter that could not be delivered is still a letter about the task.
func TestDecodeUndeliveredTaskLetter(t *testing.T) {
	t.Parallel()
	direct, l := Decode(taskRecord(t)), Decode(wrapped(t))
	if l.ID != direct.ID || l.Subject != direct.Subject || l.Reason != direct.Reason || l.OriginalState != direct.OriginalState ||
		string(l.TaskSnapshot) != string(direct.TaskSnapshot) || l.ErrorCode != direct.ErrorCode || l.OriginTopic != "" {
		t.Errorf("wrapped it became\n%+v\nwant the identity and content of\n%+v", l, direct)
	}
	if l.Episode == nil || *l.Episode != 2 || l.OutboxID == nil || l.EventID != uuid.MustParse(anEvent) || l.ErrorClass != "record" {
		t.Errorf("the event behind the letter is lost: %+v", l)
	}

	reference := with(wrapped(t), message.HeaderPayload, message.PayloadReference)
	reference.Value = nil
	l = Decode(reference)
	checkStorable(t, l)
	if l.ID != "event:"+anEvent+":2" || l.Subject != (Subject{SubjectTask, aTask}) || l.Reason != Unclassified || l.PayloadKind != Reference || l.ErrorMessage != "the broker refused it" {
		t.Errorf("with its payload left out it became %+v", l)
	}
	// Its headers name the letter as well, so that it is the one that the ledger waits for.
	named := with(reference, headerLetterID, "task:"+aTask+":4:staleness_timeout")
	l = Decode(named)
	checkStorable(t, l)
	if l.ID != direct.ID || l.Subject != direct.Subject || l.Reason != direct.Reason || l.PayloadKind != Reference || l.Episode == nil || *l.Episode != 2 {
		t.Errorf("with its payload left out and its id in a header it became %+v", l)
	}
	for id, reason := range map[string]Reason{"task:" + aTask + ":4:bad_weather": Unclassified, "task:" + aTask + ":manual_dlq": ManualDLQ} {
		if l := Decode(with(reference, headerLetterID, id)); l.ID != id || l.Reason != reason {
			t.Errorf("with the id %s it became %+v", id, l)
		}
	}
	for _, id := range []string{"", "task:" + anEvent + ":4:staleness_timeout", "event:" + anEvent + ":1", "task:" + aTask + ":\x00",
		"task:" + aTask + ":" + strings.Repeat("x", 2000)} {
		if l := Decode(with(reference, headerLetterID, id)); l.ID != "event:"+anEvent+":2" || l.Reason != Unclassified {
			t.Errorf("with %.100q as its id it became %+v", id, l)
		}
	}
	for what, r := range map[string]Record{
		"a reference that names no task": with(reference, "ce_subject", "-"),
		"a value that is no letter": func() Record {
			r := wrapped(t)
			r.Value = []byte("{}")
			return r
		}(),
	} {
		if l := Decode(r); l.Subject != (Subject{SubjectEvent, anEvent}) || l.Reason != MaxRetriesExceeded {
			t.Errorf("%s became %+v", what, l)
		}
	}
}

// FuzzDecodeTask feeds Decode with values of task letters, as they were sent and as dead letters of their own.
func FuzzDecodeTask(f *testing.F) {
	f.Add(taskValue(f), "ce_type", aTask, byte(0))
	f.Add(taskValue(f), "ce_type", "x", byte(1))
	f.Add([]byte(`{"letter_id":"task:`+aTask+`:1:\ud800","task_uuid":"`+aTask+`","original_state":"\u0000","snapshot":{"a":"\u0000"},"metadata":{"b":1e999}}`), "", "\x00", byte(2))
	f.Add([]byte(nil), "ce_subject", aTask, byte(7))
	f.Fuzz(func(t *testing.T, value []byte, name, subject string, mode byte) {
		r := taskRecord(t)
		if mode&1 != 0 {
			r = wrapped(t)
		}
		r = with(r, headerSubject, subject)
		r.Value = value
		if mode&2 != 0 {
			r.Headers = append(r.Headers, header(name, subject))
		}
		if mode&4 != 0 {
			r = with(r, message.HeaderPayload, message.PayloadReference)
		}
		l := Decode(r)
		checkStorable(t, l)
		if l.Metadata != nil {
			checkJSONB(t, l.Metadata)
		}
		if l.PayloadKind != Reference && string(l.Payload) != string(value) {
			t.Errorf("value %q became %q", value, l.Payload)
		}
		if strings.HasPrefix(l.ID, "task:") && !strings.HasPrefix(l.ID, "task:"+l.Subject.ID+":") {
			t.Errorf("letter %q of %v", l.ID, l.Subject)
		}
		checkStorable(t, Unstorable(l, errRefused))
	})
}
