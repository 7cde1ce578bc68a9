package dlqtest

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// Suite runs the conformance tests of dlq.Letters. What was recorded is read as people read it. empty returns both ports on
// the same data, without letters.
func Suite(t *testing.T, empty func(t *testing.T) (dlq.Letters, dlq.Investigations)) {
	for name, test := range map[string]func(*testing.T, *bench){
		"OpensOnePerSubject":         opensOnePerSubject,
		"RepeatsOpenNothing":         repeatsOpenNothing,
		"SeveralOfOneSubject":        severalOfOneSubject,
		"AddsToPending":              addsToPending,
		"AfterResolution":            afterResolution,
		"AfterPurge":                 afterPurge,
		"KeepsNullAndEmpty":          keepsNullAndEmpty,
		"KeepsEveryField":            keepsEveryField,
		"Lists":                      lists,
		"NotFound":                   notFound,
		"NothingToRecord":            nothingToRecord,
		"EndedContext":               endedContext,
		"ConcurrentOverlap":          concurrentOverlap,
		"ConcurrentHotSubject":       concurrentHotSubject,
		"UnstorableStaysRecognised":  unstorableStaysRecognised,
		"CapsTheLettersOfAnEntry":    capsTheLettersOfAnEntry,
		"SnapshotsAreNotRewritten":   snapshotsAreNotRewritten,
		"LettersWithoutAnyTimeStamp": lettersWithoutAnyTimestamp,
		"Tasks":                      tasks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			letters, investigations := empty(t)
			test(t, &bench{t, letters, investigations})
		})
	}
}

// bench is both ports; their errors end the test.
type bench struct {
	t *testing.T
	dlq.Letters
	investigations dlq.Investigations
}

func (b *bench) record(letters ...dlq.Letter) dlq.Recorded {
	b.t.Helper()
	recorded, err := b.RecordLetters(b.t.Context(), letters)
	if err != nil {
		b.t.Fatalf("record %d letters: %v", len(letters), err)
	}
	return recorded
}

func (b *bench) want(got, want dlq.Recorded) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("recorded %+v, want %+v", got, want)
	}
}

func (b *bench) list(f dlq.Filter) []dlq.Entry {
	b.t.Helper()
	page, err := b.investigations.Find(b.t.Context(), dlq.Search{Filter: f})
	if err != nil {
		b.t.Fatalf("list: %v", err)
	}
	if f.Limit == 0 && f.Offset == 0 && page.Total <= dlq.DefaultLimit && int(page.Total) != len(page.Entries) {
		b.t.Fatalf("listed %d of %d", len(page.Entries), page.Total)
	}
	return page.Entries
}

// only returns the one investigation that the filter selects.
func (b *bench) only(f dlq.Filter) (dlq.Entry, []dlq.Letter) {
	b.t.Helper()
	entries := b.list(f)
	if len(entries) != 1 {
		b.t.Fatalf("%d investigations for %+v, want 1", len(entries), f)
	}
	return b.get(entries[0].UUID)
}

// get returns an investigation with its letters, the newest one whole.
func (b *bench) get(id uuid.UUID) (dlq.Entry, []dlq.Letter) {
	b.t.Helper()
	detail, err := b.investigations.Show(b.t.Context(), id)
	if err != nil {
		b.t.Fatalf("show: %v", err)
	}
	whole, err := b.investigations.Reveal(b.t.Context(), dlq.RevealRequest{Entry: id, Actor: "test"})
	if err != nil {
		b.t.Fatalf("reveal: %v", err)
	}
	detail.Letters[0] = whole
	return detail.Entry, detail.Letters
}

func (b *bench) resolve(id uuid.UUID) {
	b.t.Helper()
	status := dlq.ManuallyResolved
	if _, err := b.investigations.Change(b.t.Context(), id, dlq.Change{Status: &status, Actor: "test"}); err != nil {
		b.t.Fatalf("resolve: %v", err)
	}
}

func (b *bench) purge(id uuid.UUID) {
	b.t.Helper()
	if _, err := b.investigations.Purge(b.t.Context(), dlq.Purge{Entries: []uuid.UUID{id}, Limit: 1, Actor: "test"}); err != nil {
		b.t.Fatalf("purge: %v", err)
	}
}

func opensOnePerSubject(t *testing.T, b *bench) {
	b.want(b.record(Letters(Event(1, 1), Event(2, 1), dlq.Record{Topic: "other", Offset: 3})...), dlq.Recorded{New: 3, Opened: 3})
	entry, letters := b.only(dlq.Filter{Subject: dlq.Subject{Type: dlq.SubjectEvent, ID: EventID(1).String()}})
	l := dlq.Decode(Event(1, 1))
	if entry.UUID.Version() != 7 || entry.OriginalState != "failed" || entry.Reason != dlq.MaxRetriesExceeded ||
		entry.Status != dlq.Pending || !entry.ResolvedAt.IsZero() || entry.Topic != "orders" ||
		entry.ErrorCode != l.ErrorCode || entry.ErrorMessage != l.ErrorMessage || entry.Occurrences != 1 ||
		!entry.DeadLetteredAt.Equal(l.DLQRecordAt) || !entry.LastOccurredAt.Equal(l.LastFailedAt) ||
		entry.PredecessorUUID != uuid.Nil || entry.CreatedAt.IsZero() || entry.UpdatedAt.IsZero() {
		t.Errorf("entry %+v", entry)
	}
	if len(letters) != 1 || letters[0].ID != l.ID || letters[0].EntryUUID != entry.UUID {
		t.Errorf("letters %+v", letters)
	}
	if !strings.Contains(string(entry.Snapshot), EventID(1).String()) {
		t.Errorf("snapshot %s", entry.Snapshot)
	}
}

func repeatsOpenNothing(t *testing.T, b *bench) {
	batch := Letters(Event(1, 1), Event(2, 1), Event(1, 1), Event(1, 1))
	b.want(b.record(batch...), dlq.Recorded{New: 2, Repeated: 2, Opened: 2})
	b.want(b.record(batch...), dlq.Recorded{Repeated: 4})
	b.want(b.record(Letters(Event(2, 1), Event(3, 1))...), dlq.Recorded{New: 1, Repeated: 1, Opened: 1})
	for _, e := range b.list(dlq.Filter{}) {
		if e.Occurrences != 1 {
			t.Errorf("%d occurrences of %v", e.Occurrences, e.Subject)
		}
	}
}

func severalOfOneSubject(t *testing.T, b *bench) {
	b.want(b.record(Letters(Event(1, 2), Event(1, 1), Event(1, 3), Event(2, 1), Event(1, 2))...),
		dlq.Recorded{New: 4, Repeated: 1, Opened: 2, Added: 2})
	entry, letters := b.only(dlq.Filter{Subject: dlq.Subject{ID: EventID(1).String()}})
	newest := dlq.Decode(Event(1, 3))
	if entry.Occurrences != 3 || len(letters) != 3 || !entry.LastOccurredAt.Equal(newest.LastFailedAt) {
		t.Errorf("%d occurrences, %d letters, last at %v", entry.Occurrences, len(letters), entry.LastOccurredAt)
	}
	first := dlq.Decode(Event(1, 2))
	if !entry.DeadLetteredAt.Equal(first.DLQRecordAt) {
		t.Errorf("dead-lettered at %v, want what the first to arrive says: %v", entry.DeadLetteredAt, first.DLQRecordAt)
	}
}

func addsToPending(t *testing.T, b *bench) {
	b.record(Letters(Event(1, 5))...)
	before, _ := b.only(dlq.Filter{})
	b.want(b.record(Letters(Event(1, 1), Event(1, 2))...), dlq.Recorded{New: 2, Added: 2})
	after, _ := b.only(dlq.Filter{})
	if after.UUID != before.UUID || after.Occurrences != 3 || !after.LastOccurredAt.Equal(before.LastOccurredAt) {
		t.Errorf("%+v, want 3 occurrences, the last at %v as before: the added ones are older", after, before.LastOccurredAt)
	}
	b.record(Letters(Event(1, 9))...)
	after, _ = b.only(dlq.Filter{})
	newest := dlq.Decode(Event(1, 9))
	if !after.LastOccurredAt.Equal(newest.LastFailedAt) {
		t.Errorf("last at %v, want %v", after.LastOccurredAt, newest.LastFailedAt)
	}
}

func afterResolution(t *testing.T, b *bench) {
	b.record(Letters(Event(1, 1))...)
	first, _ := b.only(dlq.Filter{})
	b.resolve(first.UUID)
	b.want(b.record(Letters(Event(1, 1))...), dlq.Recorded{Repeated: 1})
	b.want(b.record(Letters(Event(1, 2), Event(1, 1), Event(1, 3))...), dlq.Recorded{New: 2, Repeated: 1, Opened: 1, Added: 1})
	second, _ := b.only(dlq.Filter{Status: dlq.Pending})
	if second.PredecessorUUID != first.UUID || second.Occurrences != 2 {
		t.Errorf("second %+v, want predecessor %s", second, first.UUID)
	}
	b.resolve(second.UUID)
	b.want(b.record(Letters(Event(1, 4))...), dlq.Recorded{New: 1, Opened: 1})
	third, _ := b.only(dlq.Filter{Status: dlq.Pending})
	if third.PredecessorUUID != second.UUID {
		t.Errorf("predecessor %s, want the newest, %s", third.PredecessorUUID, second.UUID)
	}
	if closed, letters := b.get(first.UUID); closed.Status != dlq.ManuallyResolved || closed.Occurrences != 1 || len(letters) != 1 ||
		closed.ResolvedAt.IsZero() {
		t.Errorf("the closed one changed: %+v", closed)
	}
}

func afterPurge(t *testing.T, b *bench) {
	b.record(Letters(Event(1, 1), Event(2, 1))...)
	entry, _ := b.only(dlq.Filter{Subject: dlq.Subject{ID: EventID(1).String()}})
	b.purge(entry.UUID)
	b.want(b.record(Letters(Event(1, 1), Event(2, 1))...), dlq.Recorded{Repeated: 2})
	if got := b.list(dlq.Filter{}); len(got) != 1 {
		t.Errorf("%d investigations, want the one that was not purged", len(got))
	}
	b.want(b.record(Letters(Event(1, 2))...), dlq.Recorded{New: 1, Opened: 1})
}

func unstorableStaysRecognised(t *testing.T, b *bench) {
	l := dlq.Decode(Event(1, 1))
	b.want(b.record(dlq.Unstorable(l, errors.New("refused"))), dlq.Recorded{New: 1, Opened: 1})
	b.want(b.record(l), dlq.Recorded{Repeated: 1})
	entry, letters := b.only(dlq.Filter{})
	if entry.Subject != l.Subject || entry.ErrorCode != dlq.CodeUnstorable || string(letters[0].Payload) != string(l.Payload) {
		t.Errorf("entry %+v, letter %+v", entry, letters[0])
	}
}

func concurrentOverlap(t *testing.T, b *bench) {
	const collectors, batches, size = 8, 12, 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total dlq.Recorded
	for c := range collectors {
		wg.Go(func() {
			for batch := range batches {
				var records []dlq.Record
				for i := range size {
					// Every collector stores every letter, each in an order of its own; every third event has
					// two episodes.
					n := (batch*size + (i*7+c*11)%size) % (batches * size)
					records = append(records, Event(n, 1))
					if n%3 == 0 {
						records = append(records, Event(n, 2))
					}
				}
				recorded, err := b.RecordLetters(t.Context(), Letters(records...))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				total.New, total.Repeated = total.New+recorded.New, total.Repeated+recorded.Repeated
				total.Opened, total.Added = total.Opened+recorded.Opened, total.Added+recorded.Added
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	const events, letters = batches * size, batches * size * 4 / 3
	b.want(total, dlq.Recorded{New: letters, Repeated: (collectors - 1) * letters, Opened: events, Added: letters - events})
	sum := 0
	for _, e := range b.list(dlq.Filter{Limit: dlq.MaxLimit}) {
		sum += e.Occurrences
	}
	if sum != letters {
		t.Errorf("%d occurrences, want %d", sum, letters)
	}
}

func concurrentHotSubject(t *testing.T, b *bench) {
	const collectors, episodes = 8, 40
	var wg sync.WaitGroup
	for c := range collectors {
		wg.Go(func() {
			for e := range episodes {
				if _, err := b.RecordLetters(t.Context(), Letters(Event(1, 1+(e+c)%episodes), Event(2, 1+e))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, e := range b.list(dlq.Filter{}) {
		if e.Occurrences != episodes {
			t.Errorf("%d occurrences of %v, want %d", e.Occurrences, e.Subject, episodes)
		}
	}
}

func lettersWithoutAnyTimestamp(t *testing.T, b *bench) {
	before := time.Now().Add(-time.Minute)
	b.want(b.record(Letters(dlq.Record{Topic: "t", Timestamp: time.UnixMilli(-1)})...), dlq.Recorded{New: 1, Opened: 1})
	entry, letters := b.only(dlq.Filter{})
	if entry.DeadLetteredAt.Before(before) || entry.LastOccurredAt.Before(before) || !letters[0].DLQRecordAt.IsZero() {
		t.Errorf("entry %+v, letter %+v", entry, letters[0])
	}
}
