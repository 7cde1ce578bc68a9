package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// kept answers for records, and notes what it was asked for.
type kept struct {
	answer dlq.Original
	asked  []dlq.Place
}

func (k *kept) Fetch(_ context.Context, places []dlq.Place) []dlq.Original {
	k.asked = append(k.asked, places...)
	return slices.Repeat([]dlq.Original{k.answer}, len(places))
}

// pointing records a letter of a share group that points to orders/1/OFFSET, as a collector does that asked in vain.
func (r *redriving) pointing(offset int64, state dlq.OriginalState) uuid.UUID {
	r.t.Helper()
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	l := dlq.Decode(dlq.Record{Topic: "share-dlq", Offset: offset, Timestamp: dlqtest.Start, Headers: []message.Header{h("__dlq.errors.topic", "orders"),
		h("__dlq.errors.partition", "1"), h("__dlq.errors.offset", string(rune('0'+offset))), h("__dlq.errors.group", "g")}})
	l.OriginalRecord = state
	return r.record(l)
}

func (r *redriving) fetcher(o dlq.Originals) *dlq.Fetcher {
	r.t.Helper()
	f, err := dlq.NewFetcher(dlq.FetcherConfig{Pointers: r.people(), Originals: o})
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// there is a record as a broker gives it, kept for a day.
func there() dlq.Original {
	return dlq.Original{State: dlq.OriginalFetched, Key: []byte("k"), Value: []byte(`{"a": 1}`), Timestamp: dlqtest.Start, Retention: 24 * time.Hour,
		Headers: []message.Header{{Name: "own", Value: []byte("x")}, {Name: message.HeaderEventID, Value: []byte(dlqtest.EventID(7).String())}}}
}

// TestFetch: a record that could not be read when its letter was collected is asked for again, told, and kept once here.
func TestFetch(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry, whole := r.pointing(5, dlq.OriginalUnanswered), r.die(1, nil)
	k := &kept{answer: dlq.Original{State: dlq.OriginalNoLeader, Retention: time.Hour, Err: errors.New("no leader")}}
	f := r.fetcher(k)
	look := func() (map[string]any, map[string]any, dlq.Letter) {
		t.Helper()
		e, err := r.investigations.Show(t.Context(), entry)
		letters, failed := r.letters(t.Context(), entry)
		var metadata, snapshot map[string]any
		if err := errors.Join(err, failed, json.Unmarshal(e.Metadata, &metadata), json.Unmarshal(e.Snapshot, &snapshot)); err != nil {
			t.Fatal(err)
		}
		return metadata["original"].(map[string]any), snapshot, letters[0]
	}
	fetch := func() []dlq.Fetched {
		t.Helper()
		got, err := f.Fetch(t.Context(), []uuid.UUID{whole, entry}, "ada")
		if err != nil || len(got) != 2 || got[0].Entry != whole || got[0].Letter != "" || got[1].Entry != entry || !strings.HasPrefix(got[0].Explain(), "nothing to fetch") {
			t.Fatalf("%+v, %v", got, err)
		}
		return got
	}
	if got := fetch()[1]; got.State != dlq.OriginalNoLeader || !strings.HasPrefix(got.Explain(), "not yet") || got.Err == nil {
		t.Errorf("no leader: %+v, %s", got, got.Explain())
	}
	if note, _, l := look(); note["state"] != "no_leader" || l.PayloadKind != dlq.Reference || l.OriginalRecord != dlq.OriginalNoLeader {
		t.Errorf("no leader: %v, %+v", note, l)
	}
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set metadata = metadata || '{"mine": 1}'`)
	k.answer = there()
	got := fetch()[1]
	if got.State != dlq.OriginalFetched || !got.GoneAt.Equal(dlqtest.Start.Add(24*time.Hour)) || got.Place != (dlq.Place{Topic: "orders", Partition: 1, Offset: 5}) {
		t.Errorf("%+v", got)
	}
	note, snapshot, l := look()
	if note["state"] != "fetched" || note["gone_at"] == nil || snapshot["payload"] == nil || snapshot["payload_truncated"] != nil || snapshot["payload_kind"] != "inline" ||
		snapshot["original_record"] != "fetched" || snapshot["consumer_group"] != "g" {
		t.Errorf("%v, %v", note, snapshot)
	}
	if string(l.Key) != "k" || string(l.Payload) != `{"a": 1}` || l.KeyKind != dlq.Inline || l.PayloadKind != dlq.Inline || *l.PayloadBytes != 8 ||
		l.EventID != dlqtest.EventID(7) || len(l.Headers) != 1 || l.OriginalRecord != dlq.OriginalFetched {
		t.Errorf("%+v", l)
	}
	var mine bool
	if err := r.subject.pool.QueryRow(t.Context(), `select metadata ? 'mine' from postrider.dlq_entry where dlq_entry_uuid = $1`, entry).Scan(&mine); err != nil || !mine {
		t.Errorf("what people wrote into the metadata is gone: %v", err)
	}
	if got := fetch()[1]; got.Letter != "" || len(k.asked) != 2 {
		t.Errorf("it was asked for again: %+v, %v", got, k.asked)
	}
	if want := []string{"dlq.fetch entry " + entry.String(), "dlq.fetch entry " + entry.String()}; !slices.Equal(r.audit.actions, want) {
		t.Errorf("audit log: %q, want %q", r.audit.actions, want)
	}
	if done := r.redrive(entry); len(done.Entries) != 1 || string(r.sent()[0].Payload) != `{"a": 1}` || string(r.sent()[0].Key) != "k" {
		t.Errorf("%+v, %+v", done, r.sent())
	}
	if _, err := f.Fetch(t.Context(), []uuid.UUID{uuid.New()}, "ada"); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestAnotherRecordIsNotTaken: the letter says when its record was written, and another has its place now.
func TestAnotherRecordIsNotTaken(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	record := givenUpBy(t, "billing", 5, dlq.Place{}, message.Header{Name: "own", Value: []byte("x")})
	record.Value, record.Headers = nil, append(record.Headers, message.Header{Name: message.HeaderPayload, Value: []byte(message.PayloadReference)})
	entry := r.record(dlq.Decode(record))
	other := there()
	other.Timestamp = dlqtest.Start.Add(time.Second)
	k := &kept{answer: other}
	got, err := r.fetcher(k).Fetch(t.Context(), []uuid.UUID{entry}, "ada")
	if err != nil || got[0].State != dlq.OriginalOther || !got[0].GoneAt.IsZero() || !strings.HasPrefix(got[0].Explain(), "gone") {
		t.Fatalf("%+v, %v", got, err)
	}
	if why := r.skipped(entry); why != dlq.PayloadGone {
		t.Errorf("%s", why)
	}
	k.answer = there()
	if got, err = r.fetcher(k).Fetch(t.Context(), []uuid.UUID{entry}, "ada"); err != nil || got[0].State != dlq.OriginalFetched {
		t.Fatalf("%+v, %v", got, err)
	}
	// The letter had a key and headers of its own; the value alone was missing.
	if done := r.redrive(entry); len(done.Entries) != 1 || headerOf(r.sent()[0], "own") != "x" || string(r.sent()[0].Payload) != `{"a": 1}` {
		t.Errorf("%+v, %+v", done, r.sent())
	}
}

// TestRedrivesFetchFirst: a redrive and an operation ask by themselves for records that may be there by now.
func TestRedrivesFetchFirst(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	k := &kept{answer: there()}
	f := r.fetcher(k)
	one, two, gone := r.pointing(1, dlq.OriginalUnanswered), r.pointing(2, dlq.OriginalRefused), r.pointing(3, dlq.OriginalDeleted)
	if why := r.skipped(one); why != dlq.PayloadGone || len(k.asked) != 0 {
		t.Fatalf("without asking: %s, %v", why, k.asked)
	}
	done, err := f.Redriver(r.Redriver).Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{one, gone}, Actor: "ada"})
	if err != nil || !slices.Equal(done.Entries, []uuid.UUID{one}) || !slices.Equal(done.Skipped, []dlq.Skip{{Entry: gone, Reason: dlq.PayloadGone}}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if want := []dlq.Place{{Topic: "orders", Partition: 1, Offset: 1}}; !slices.Equal(k.asked, want) {
		t.Errorf("asked for %v, want %v", k.asked, want)
	}
	o := r.plan(dlq.Scope{Entries: []uuid.UUID{two, gone}}, dlq.OperationOptions{})
	operations := f.Operations(r.Redriver)
	if _, _, err := operations.Step(t.Context()); err != nil || len(k.asked) != 1 {
		t.Errorf("before it began: %v, %v", k.asked, err)
	}
	r.command(o.UUID, dlq.Start)
	if _, _, err := operations.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o = r.operation(o.UUID); o.Done != 1 || o.Skipped != 1 || len(r.sent()) != 2 || len(k.asked) != 2 {
		t.Errorf("%+v, %d sent, asked for %v", o, len(r.sent()), k.asked)
	}
	// While brokers do not answer, a redrive does not wait for them each time.
	four := r.pointing(4, dlq.OriginalUnanswered)
	k.answer, k.asked = dlq.Original{State: dlq.OriginalUnanswered, Retention: -1}, nil
	for range 2 {
		done, err := f.Redriver(r.Redriver).Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{four}, Actor: "ada"})
		if err != nil || len(done.Skipped) != 1 || done.Skipped[0].Reason != dlq.PayloadGone {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	if len(k.asked) != 1 {
		t.Errorf("asked %d times", len(k.asked))
	}
}

// TestOnlyWhatIsMissingIsFilledIn: no caller can change a letter that has its bytes with dlq_complete_letter.
func TestOnlyWhatIsMissingIsFilledIn(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.die(1, nil)
	r.pointing(5, dlq.OriginalUnanswered)
	complete := func(letter string) (done bool) {
		t.Helper()
		if err := r.subject.pool.QueryRow(t.Context(), `select postrider.dlq_complete_letter($1, 'fetched', 'mine', 'mine', '[]', null, '{}', null)`, letter).Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done
	}
	if event := "event:" + dlqtest.EventID(1).String() + ":1"; complete(event) || complete("record:none") {
		t.Error("a letter was changed that has its bytes, or one that is not there")
	}
	var id string
	if err := r.subject.pool.QueryRow(t.Context(), `select letter_id from postrider.dlq_letter where original_record = 'unanswered'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if !complete(id) || complete(id) {
		t.Error("a letter that points to a record is completed once")
	}
}
