package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/relay"
)

// writtenAt is a timestamp with the microseconds that PostgreSQL keeps.
var writtenAt = time.Date(2021, 3, 4, 5, 6, 7, 891234000, time.UTC)

// place shows the partition and the timestamp of an event.
func place(e relay.Event) string {
	s := "none"
	if e.Partition != nil {
		s = fmt.Sprint(*e.Partition)
	}
	return s + " " + e.Timestamp.UTC().Format(time.RFC3339Nano)
}

// TestPlaceOfARecord: what the writer says about the partition and the timestamp of a record reaches the relay by each way
// that an event can take, and a redrive of it.
func TestPlaceOfARecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := "3 " + writtenAt.Format(time.RFC3339Nano)
	is := func(how, got string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", how, got, want)
		}
	}
	const write = `insert into postrider.outbox_event (topic, key, payload, headers, partition, timestamp) values ('t', 'k', 'p', '{"a": "b"}', 3, $1)`
	f.insert("plain")
	for range 3 {
		f.exec(write, writtenAt)
	}
	hold := f.keyHold("k", 0)
	read := f.pass(relay.Receipt{Holds: []relay.HoldChange{hold}, Exceptions: append(parked(hold.ID, 2, 3), exhausted(4)...)})
	if got := place(read[0]); got != "none 0001-01-01T00:00:00Z" {
		t.Errorf("an ordinary event: %s", got)
	}
	for _, e := range read[1:] {
		is("read", place(e))
		if string(e.Headers) != `{"a": "b"}` {
			t.Errorf("the headers are %s", e.Headers)
		}
	}
	take := func(how string) {
		t.Helper()
		taken, err := f.leader().Take(t.Context(), relay.Taking{Bytes: 1, Holds: []relay.TakingHold{{ID: hold.ID, Events: 2}}})
		f.done(err)
		for _, x := range taken {
			is(how, place(x.Event))
		}
		f.change(relay.Receipt{Putback: takenIDs(taken)})
	}
	take("taken")
	f.exec(`update postrider.outbox_receipt set at = at - interval '1 day'`)
	f.exec(`select postrider.outbox_purge_events('1 hour', 1000)`)
	if n := value[int](f, `select count(*) from postrider.outbox_event`); n != 0 {
		t.Fatalf("retention left %d events", n)
	}
	take("taken, with its row gone")
	claim := f.letters(10)
	is("a letter's", place(claim.Events()[0]))
	f.done(claim.Settle(t.Context(), sent(nil, 4)))
	f.done(f.trySkip(2, "not needed"))
	claim = f.letters(10)
	is("skipped by hand", place(claim.Events()[0]))
	claim.Abandon()
	if got := value[string](f, `select string_agg(distinct partition || ' ' || timestamp, ',') from postrider.v_outbox_event`); got == "" {
		t.Error("the view does not show them")
	}
	// Sent again as a new event, by the desk: a topic of its own has partitions of its own.
	for topic, want := range map[string]string{"t": "3", "other": "none"} {
		f.exec(`update postrider.outbox_exception set obeyed = null where id = 4`)
		answer := value[string](f, `select o.answer from postrider.outbox_exception x, postrider.outbox_obey_redrive(x, null, jsonb_build_object('target', $1::text,
			'new_event', $2::text, 'redrive', 'r', 'max_hops', 9)) o where x.id = 4`, topic, uuid.NewString())
		if answer != "new" {
			t.Fatalf("the redrive was answered with %s", answer)
		}
		page := f.read(f.leader(), nil, f.leader().position)
		if got := place(page.Events[len(page.Events)-1]); got != want+" "+writtenAt.Format(time.RFC3339Nano) {
			t.Errorf("sent again to %s: %s, want %s", topic, got, want)
		}
	}
}

// TestPlacesOfHalf: an event may have a partition alone, or a timestamp alone, and no headers.
func TestPlacesOfHalf(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, partition) values ('t', 0)`)
	f.exec(`insert into postrider.outbox_event (topic, timestamp) values ('t', '1970-01-01T00:00:00Z')`)
	page := f.read(f.leader(), nil, 0)
	for i, want := range []string{"0 0001-01-01T00:00:00Z", "none 1970-01-01T00:00:00Z"} {
		if got := place(page.Events[i]); got != want || page.Events[i].Headers != nil {
			t.Errorf("event %d: %s with headers %s, want %s", i+1, got, page.Events[i].Headers, want)
		}
	}
}

// TestPlacesThatAreRefused: a partition below 0, and a time that no record can have.
func TestPlacesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for sql, constraint := range map[string]string{
		`insert into postrider.outbox_event (topic, partition) values ('t', -1)`:                                          "outbox_event_partition_valid",
		`insert into postrider.outbox_event (topic, timestamp) values ('t', 'infinity')`:                                  "outbox_event_timestamp_range",
		`insert into postrider.outbox_event (topic, timestamp) values ('t', timestamptz '1970-01-01Z' - interval '1 ms')`: "outbox_event_timestamp_range",
	} {
		f.violates(f.try(sql), "23514", constraint)
	}
	f.exec(`insert into postrider.outbox_event (topic, partition, timestamp) values ('t', 0, '1970-01-01Z')`)
}
