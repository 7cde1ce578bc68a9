package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// headerOf is the value of a header of what was sent; empty where it has none.
func headerOf(e sent, name string) string {
	for _, h := range e.Headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

// givenUpBy is the letter of a consumer group that failed at orders/3/OFFSET.
func givenUpBy(t *testing.T, group string, offset int64, at dlq.Place, headers ...message.Header) dlq.Record {
	t.Helper()
	f := dialect.Failure{Topic: "orders", Partition: 3, Offset: offset, Timestamp: dlqtest.Start, Group: group, ErrorClass: "record", ErrorCode: "X",
		RetryTopic: "orders." + group + ".retry", Headers: headers, LastTopic: at.Topic, LastPartition: at.Partition, LastOffset: at.Offset}
	hs, err := dialect.Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	return dlq.Record{Topic: "orders.dlq", Offset: offset + 1000*at.Offset, Timestamp: dlqtest.Start.Add(time.Second), Key: []byte("k"), Value: []byte("v"), Headers: hs}
}

// TestHops: a redrive counts on from the number in the letter, no matter what counted before; past the limit it is refused.
func TestHops(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	hops := func(n string) message.Header { return message.Header{Name: message.HeaderHops, Value: []byte(n)} }
	two, three := r.record(dlq.Decode(givenUpBy(t, "billing", 1, dlq.Place{}, hops("2")))), r.record(dlq.Decode(givenUpBy(t, "billing", 2, dlq.Place{}, hops("3"))))
	done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{two, three}, Actor: "ada"})
	if err != nil || !slices.Equal(done.Entries, []uuid.UUID{two}) || !slices.Equal(done.Skipped, []dlq.Skip{{Entry: three, Reason: dlq.TooManyHops}}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if n := headerOf(r.sent()[0], message.HeaderHops); n != "3" {
		t.Errorf("it went out with %q hops, want 3", n)
	}
	if dlq.TooManyHops.Explain() == string(dlq.TooManyHops) {
		t.Error("the reason is not explained")
	}
	// An operation has the same limit, and may be given another.
	for _, limit := range []int{0, 4} {
		want := map[int]dlq.Operation{0: {Skipped: 1}, 4: {Done: 1}}[limit]
		o := r.plan(dlq.Scope{Entries: []uuid.UUID{three}}, dlq.OperationOptions{MaxHops: limit})
		r.command(o.UUID, dlq.Start)
		for o.Done+o.Skipped == 0 {
			r.step()
			o = r.operation(o.UUID)
		}
		if o.Skipped != want.Skipped || o.Done != want.Done {
			t.Errorf("limit %d: %+v", limit, o)
		}
	}
	var last sent
	for _, e := range r.sent() {
		last = e
	}
	if n := headerOf(last, message.HeaderHops); n != "4" {
		t.Errorf("with a limit of 4 it went out with %q hops", n)
	}
	for _, n := range []int{-1, dlq.MaxMaxHops + 1} {
		if _, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{two}, MaxHops: n, Actor: "ada"}); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%d hops: %v", n, err)
		}
	}
	if d, err := r.investigations.Show(t.Context(), two); err != nil || d.Letters[0].Hops != 2 {
		t.Errorf("%+v, %v: the letter does not say its hops", d, err)
	}
}

// TestInPlaceIsNoHop: an event that goes back to its own place is no other message, and may always go.
func TestInPlaceIsNoHop(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(7, func(l *dlq.Letter) { l.Hops = 9 })
	r.halt(7)
	if done := r.redrive(entry); len(done.Entries) != 1 || len(r.sent()) != 0 {
		t.Errorf("%+v, %d new events", done, len(r.sent()))
	}
}

// TestOriginIsKept: a message that goes to a group's retry topic says where the group read it first, sent alone or by an
// operation. When the group fails again, its letter is one of the same investigation, which is not closed over.
func TestOriginIsKept(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"alone", "an operation"} {
		for _, quick := range []bool{true, false} {
			r := newRedriving(t)
			entry := r.record(dlq.Decode(givenUpBy(t, "billing", 5, dlq.Place{})))
			if way == "alone" {
				if done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Target: dlq.TargetGroup, Actor: "ada"}); err != nil || len(done.Entries) != 1 {
					t.Fatalf("%+v, %v", done, err)
				}
			} else {
				o := r.plan(dlq.Scope{Entries: []uuid.UUID{entry}}, dlq.OperationOptions{Target: dlq.TargetGroup})
				r.command(o.UUID, dlq.Start)
				r.step()
			}
			e := r.sent()[0]
			var subject string
			if err := r.subject.pool.QueryRow(t.Context(), `select subject_id from postrider.dlq_entry where dlq_entry_uuid = $1`, entry).Scan(&subject); err != nil {
				t.Fatal(err)
			}
			read, ok := dialect.ParseFailedRecord(headerOf(e, dlq.HeaderReplayOrigin))
			if want := (dialect.FailedRecord{Topic: "orders", Partition: 3, Offset: 5, Timestamp: time.UnixMilli(dlqtest.Start.UnixMilli()), Group: "billing"}); !ok || read != want || headerOf(e, dlq.HeaderReplayOrigin) != subject {
				t.Fatalf("%s: %s, want %+v, as %s", way, headerOf(e, dlq.HeaderReplayOrigin), want, subject)
			}
			// The group reads it in its retry topic and fails again; its letter names the origin, as package consumer does.
			again := dlq.Decode(givenUpBy(t, "billing", 5, dlq.Place{Topic: "orders.billing.retry", Offset: 1},
				message.Header{Name: message.HeaderEventID, Value: []byte(e.EventID.String())}, message.Header{Name: dlq.HeaderReplayID, Value: []byte(headerOf(e, dlq.HeaderReplayID))}))
			second := uuid.Nil
			if quick {
				second = r.record(again)
			}
			r.deliverAndForget(1)
			r.follow()
			if !quick {
				second = r.record(again)
			}
			first, err := r.investigations.Show(t.Context(), entry)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.investigations.Show(t.Context(), second)
			if err != nil || got.Status != dlq.Pending || got.Subject != first.Subject || got.Letters[0].OriginTopic != "orders" || *got.Letters[0].OriginOffset != 5 {
				t.Fatalf("%s: %+v, %v", way, got, err)
			}
			if quick && (second != entry || got.Occurrences != 2) || !quick && (got.PredecessorUUID != entry || first.Status != dlq.ManuallyResolved) {
				t.Errorf("%s, quick %v: %+v after %+v", way, quick, got, first)
			}
			if done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{second}, Target: dlq.TargetGroup, Actor: "ada"}); err != nil || len(done.Entries) != 1 {
				t.Fatalf("once more: %+v, %v", done, err)
			}
			if e := r.sent()[0]; headerOf(e, dlq.HeaderReplayOrigin) != subject {
				t.Errorf("once more: %+v", e.Headers)
			}
		}
	}
}
