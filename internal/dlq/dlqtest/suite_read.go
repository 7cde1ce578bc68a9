package dlqtest

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

func keepsNullAndEmpty(t *testing.T, b *bench) {
	for i, value := range [][]byte{nil, {}, {0}, {0xff}} {
		r := dlq.Record{Topic: "t", Offset: int64(i), Key: value, Value: value, Headers: []message.Header{{Name: "", Value: value}}}
		b.record(dlq.Decode(r))
		_, letters := b.only(dlq.Filter{Subject: dlq.Decode(r).Subject})
		for what, got := range map[string][]byte{"key": letters[0].Key, "payload": letters[0].Payload, "header": letters[0].Headers[0].Value} {
			if (got == nil) != (value == nil) || !bytes.Equal(got, value) {
				t.Errorf("%s %#v became %#v", what, value, got)
			}
		}
	}
}

func keepsEveryField(t *testing.T, b *bench) {
	want := dlq.Decode(Event(1, 1))
	partition, offset := int32(4), int64(5)
	want.OriginPartition, want.OriginOffset, want.ConsumerGroup = &partition, &offset, "billing"
	b.record(want)
	entry, letters := b.only(dlq.Filter{})
	got := letters[0]
	if got.EntryUUID != entry.UUID || got.RecordedAt.IsZero() {
		t.Errorf("entry %s, recorded at %v", got.EntryUUID, got.RecordedAt)
	}
	got, want = columnsOnly(got), columnsOnly(want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("letter\n got %+v\nwant %+v", got, want)
	}
}

// columnsOnly leaves out fields that are no columns, and fields that the store sets.
func columnsOnly(l dlq.Letter) dlq.Letter {
	l.EntryUUID, l.RecordedAt = uuid.Nil, time.Time{}
	l.Subject, l.Reason, l.OriginalState = dlq.Subject{}, "", ""
	l.CreatedAt, l.TaskUUID, l.Template, l.TaskSnapshot, l.Metadata = time.Time{}, uuid.Nil, "", nil, nil
	l.DLQRecordAt, l.FirstFailedAt, l.LastFailedAt = l.DLQRecordAt.UTC(), l.FirstFailedAt.UTC(), l.LastFailedAt.UTC()
	return l
}

func lists(t *testing.T, b *bench) {
	for n := range 5 {
		b.record(Letters(Event(n, 1))...)
	}
	b.record(Letters(dlq.Record{Topic: "other"})...)
	resolved, _ := b.only(dlq.Filter{Subject: dlq.Subject{Type: dlq.SubjectEvent, ID: EventID(2).String()}})
	b.resolve(resolved.UUID)
	for name, test := range map[string]struct {
		f     dlq.Filter
		total int64
	}{
		"all":             {dlq.Filter{}, 6},
		"pending":         {dlq.Filter{Status: dlq.Pending}, 5},
		"resolved":        {dlq.Filter{Status: dlq.ManuallyResolved}, 1},
		"cancelled":       {dlq.Filter{Status: dlq.Cancelled}, 0},
		"reason":          {dlq.Filter{Reason: dlq.Unclassified}, 1},
		"subject type":    {dlq.Filter{Subject: dlq.Subject{Type: dlq.SubjectEvent}}, 5},
		"topic":           {dlq.Filter{Topic: "orders"}, 5},
		"all of it":       {dlq.Filter{Status: dlq.Pending, Reason: dlq.MaxRetriesExceeded, Subject: dlq.Subject{Type: dlq.SubjectEvent, ID: EventID(4).String()}, Topic: "orders"}, 1},
		"another subject": {dlq.Filter{Subject: dlq.Subject{Type: dlq.SubjectTask}}, 0},
	} {
		page, err := b.investigations.Find(t.Context(), dlq.Search{Filter: test.f})
		if err != nil || page.Total != test.total || len(page.Entries) != int(test.total) {
			t.Errorf("%s: %d of %d, %v, want %d", name, len(page.Entries), page.Total, err, test.total)
		}
	}
	page, err := b.investigations.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Status: dlq.Pending, Reason: dlq.MaxRetriesExceeded, Limit: 2, Offset: 1}})
	if err != nil || page.Total != 4 || len(page.Entries) != 2 || page.Entries[0].Subject.ID != EventID(3).String() || page.Entries[1].Subject.ID != EventID(1).String() {
		t.Fatalf("page %+v, %v; want events 3 and 1 of 4", page, err)
	}
	if page.Entries[0].Snapshot != nil {
		t.Error("a list has snapshots")
	}
	page, err = b.investigations.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Offset: 100}})
	if err != nil || page.Total != 6 || len(page.Entries) != 0 {
		t.Errorf("behind the end: %d of %d, %v", len(page.Entries), page.Total, err)
	}
}

func notFound(t *testing.T, b *bench) {
	if _, err := b.investigations.Show(t.Context(), uuid.New()); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

func nothingToRecord(_ *testing.T, b *bench) { b.want(b.record(), dlq.Recorded{}) }

func endedContext(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.RecordLetters(ctx, Letters(Event(1, 1))); err == nil || errors.Is(err, dlq.ErrLetter) {
		t.Errorf("error %v, want a passing one", err)
	}
}

func capsTheLettersOfAnEntry(t *testing.T, b *bench) {
	var records []dlq.Record
	for episode := range dlq.MaxLetters + 5 {
		records = append(records, Event(1, episode+1))
	}
	b.record(Letters(records...)...)
	entry, letters := b.only(dlq.Filter{})
	if entry.Occurrences != dlq.MaxLetters+5 || len(letters) != dlq.MaxLetters {
		t.Errorf("%d letters of %d, want %d", len(letters), entry.Occurrences, dlq.MaxLetters)
	}
}

func snapshotsAreNotRewritten(t *testing.T, b *bench) {
	b.record(Letters(Event(1, 1))...)
	before, _ := b.only(dlq.Filter{})
	b.record(Letters(Event(1, 2))...)
	after, _ := b.only(dlq.Filter{})
	if !bytes.Equal(before.Snapshot, after.Snapshot) || !before.DeadLetteredAt.Equal(after.DeadLetteredAt) {
		t.Errorf("snapshot %s became %s", before.Snapshot, after.Snapshot)
	}
}
