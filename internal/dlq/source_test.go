package dlq

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// from returns the record with headers that say which source it comes from.
func from(r Record, sources ...string) Record {
	for _, s := range sources {
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], header(message.HeaderSource, s))
	}
	return r
}

func TestNamesOfSources(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "main": true, "orders-2": true, "a-": true, strings.Repeat("a", 40): true,
		"": false, strings.Repeat("a", 41): false, "Orders": false, "2orders": false, "-a": false, "a_b": false, "a/b": false, "a b": false, "ä": false, "a\n": false,
	} {
		if ValidSource(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
		_, err := Filter{Source: name}, (&Search{Filter: Filter{Source: name}}).Check()
		group := (&GroupSearch{Source: name}).Check()
		if name != "" && (errors.Is(err, ErrRequest) == want || errors.Is(group, ErrRequest) == want) {
			t.Errorf("as a filter %q: %v, %v", name, err, group)
		}
	}
}

// TestSourceOfALetter: the header names it in every dialect. What is no name, or two names, counts as absent.
func TestSourceOfALetter(t *testing.T) {
	t.Parallel()
	custom := CustomHeaders{Topic: []string{"x-from"}}.Decoder(Whose{})
	for name, r := range map[string]Record{
		"relay": ourRecord(), "task": taskRecord(t), "task in a letter": wrapped(t), "consumer": written(t, aFailure()),
		"spring": written(t, aFailure(), dialect.Spring), "connect": written(t, aFailure(), dialect.Connect),
		"unknown": {Topic: "d", Value: []byte("v")}, "custom": {Topic: "d", Headers: []message.Header{header("x-from", "orders")}},
	} {
		for _, c := range []struct {
			sources []string
			want    string
		}{
			{nil, MainSource}, {[]string{MainSource}, MainSource}, {[]string{"orders"}, "orders"}, {[]string{"orders", "orders"}, "orders"},
			{[]string{"Orders"}, MainSource}, {[]string{""}, MainSource}, {[]string{"orders/x"}, MainSource}, {[]string{"orders", "billing"}, MainSource},
			{[]string{"orders", "ä"}, MainSource},
		} {
			l := custom(from(r, c.sources...))
			if l.Source != c.want {
				t.Errorf("%s of %q: the source is %q, want %q", name, c.sources, l.Source, c.want)
			}
			if u := Unstorable(l, nil); u.Source != l.Source || u.ID != l.ID || u.SourceOutboxID != l.SourceOutboxID {
				t.Errorf("%s of %q: unstorable it is of %q", name, c.sources, u.Source)
			}
			checkStorable(t, l)
		}
	}
	if l := Decode(from(ourRecord(), "orders", "billing")); l.ErrorCode != CodeBrokenHeaders || l.Subject.Type != SubjectRecord || l.OutboxID != nil {
		t.Errorf("a letter of two sources: %+v", l)
	}
}

// TestIDsOfAnotherSource: the letters of a source are never taken for those of another, which has the same events and tasks, and
// name nothing in the desk's own outbox. Letters of main keep their ids. Records are known by their place alone.
func TestIDsOfAnotherSource(t *testing.T) {
	t.Parallel()
	reference := with(wrapped(t), message.HeaderPayload, message.PayloadReference)
	reference.Value = nil
	reference.Headers = append(reference.Headers, header("ce_letterid", "task:"+aTask+":4:staleness_timeout"))
	for name, c := range map[string]struct {
		record      Record
		id, subject string
		event       bool
	}{
		"event":                  {ourRecord(), "event:" + anEvent + ":2", anEvent, true},
		"task":                   {taskRecord(t), "task:" + aTask + ":4:staleness_timeout", aTask, false},
		"task in a letter":       {wrapped(t), "task:" + aTask + ":4:staleness_timeout", aTask, true},
		"task that it refers to": {reference, "task:" + aTask + ":4:staleness_timeout", aTask, true},
	} {
		own, main := Decode(c.record), Decode(from(c.record, MainSource))
		if own.ID != c.id || own.Subject.ID != c.subject || main.ID != c.id || main.Subject != own.Subject || own.SourceOutboxID != nil || (own.OutboxID != nil) != c.event {
			t.Errorf("%s: of main it is %s about %s, %v", name, own.ID, own.Subject.ID, own.OutboxID)
		}
		l := Decode(from(c.record, "orders"))
		if l.ID != "orders/"+c.id || l.Subject != (Subject{own.Subject.Type, "orders/" + c.subject}) {
			t.Errorf("%s: of orders it is %s about %s", name, l.ID, l.Subject.ID)
		}
		if l.OutboxID != nil || (l.SourceOutboxID != nil) != c.event || l.EventID != own.EventID || c.event && *l.SourceOutboxID != *own.OutboxID {
			t.Errorf("%s: of orders it names %v here, and %v there", name, l.OutboxID, l.SourceOutboxID)
		}
		if l.TaskUUID == uuid.Nil || l.OwnTask() != uuid.Nil || own.OwnTask() != own.TaskUUID {
			t.Errorf("%s: its task is %s, and here %s", name, l.TaskUUID, l.OwnTask())
		}
	}
	for name, r := range map[string]Record{"consumer": written(t, aFailure()), "spring": written(t, aFailure(), dialect.Spring), "unknown": {Topic: "d", Value: []byte("v")}} {
		own, l := Decode(r), Decode(from(r, "orders"))
		if own.ID != l.ID || own.Subject != l.Subject || l.OutboxID != nil || l.SourceOutboxID != nil {
			t.Errorf("%s: %s about %v, of orders %s about %v", name, own.ID, own.Subject, l.ID, l.Subject)
		}
	}
	long := strings.Repeat("x", maxIDBytes-len("task:"+aTask+":"))
	hostile := taskRecord(t)
	hostile.Value = []byte(strings.Replace(string(hostile.Value), "task:"+aTask+":4:staleness_timeout", "task:"+aTask+":"+long, 1))
	if l := Decode(from(hostile, "orders")); len(l.ID) > maxIDBytes || !strings.HasPrefix(l.ID, "orders/task:") {
		t.Errorf("an id of %d bytes: %.60s", len(l.ID), l.ID)
	}
}

// TestAConsumersLetterKeepsItsSource: the header goes along with the message, in every dialect that a consumer writes.
func TestAConsumersLetterKeepsItsSource(t *testing.T) {
	t.Parallel()
	f := aFailure()
	f.Headers = append(f.Headers, header(message.HeaderSource, "orders"))
	for _, writers := range [][]dialect.Writer{nil, {dialect.Postrider}, {dialect.Spring}, {dialect.Connect}} {
		if l := Decode(written(t, f, writers...)); l.Source != "orders" || l.Subject.Type != SubjectRecord {
			t.Errorf("%v: %q, %v", writers, l.Source, l.Subject)
		}
	}
}

// TestGroupsAreOfOneSource: what one source has is never counted in a group of another, and groups of main stay what they are.
func TestGroupsAreOfOneSource(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, source := range []string{"", "orders", "billing"} {
		r := ourRecord()
		if source != "" {
			r = from(r, source)
		}
		l := Decode(r)
		f := FingerprintOf(&l)
		for _, id := range []string{f.ID, f.Exact} {
			if other, twice := seen[id]; twice {
				t.Errorf("%q and %q have the fingerprint %s", source, other, id)
			}
			seen[id] = source
		}
		if f.Parts.Source != source || f.ExactParts.Source != source {
			t.Errorf("the parts are of %q and %q, want %q", f.Parts.Source, f.ExactParts.Source, source)
		}
	}
	// As they were made before letters had a source.
	l := Decode(ourRecord())
	if f := FingerprintOf(&l); f.ID != "1:144479ab5c27a3d4e7ed6c61c0ef311c" || f.Exact != "1:a896d9d7c146e522d853a2d739acbc91" {
		t.Errorf("of main: %s, %s", f.ID, f.Exact)
	}
}

// TestSnapshotsNameAnotherSource: and where the whole of a reference is.
func TestSnapshotsNameAnotherSource(t *testing.T) {
	t.Parallel()
	r := with(ourRecord(), message.HeaderPayload, message.PayloadReference)
	r.Value = nil
	own, other := string(Snapshot(Decode(r))), string(Snapshot(Decode(from(r, "orders"))))
	if strings.Contains(own, "source") || !strings.Contains(own, `"outbox_id":991`) || !strings.Contains(own, "outbox_event under id 991") {
		t.Errorf("of main: %s", own)
	}
	for _, want := range []string{`"source":"orders"`, `"source_outbox_id":991`, "outbox_event of the source orders under id 991", `"task_uuid":"` + aTask} {
		if !strings.Contains(other, want) {
			t.Errorf("of orders, without %s: %s", want, other)
		}
	}
	if strings.Contains(other, `"outbox_id"`) {
		t.Errorf("of orders: %s", other)
	}
}
