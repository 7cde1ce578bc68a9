package postgres

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// TestARedriveKeepsItsIdentity: a message that anything gave up, and however often, is sent again as what inboxes know it by
// since it was first sent, for the group that failed. The letter says the same to a replay.
func TestARedriveKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	event := dlqtest.EventID(77).String()
	spring := []message.Header{h("kafka_dlt-original-topic", "orders"), h("kafka_dlt-original-partition", "\x00\x00\x00\x03"),
		h("kafka_dlt-original-offset", "\x00\x00\x00\x00\x00\x00\x00\x2a"), h("kafka_dlt-original-timestamp", "\x00\x00\x01\x8b\xcf\xe5\x68\x7b"),
		h("kafka_dlt-original-consumer-group", "billing")}
	foreign := func(own ...message.Header) dlq.Record {
		return dlq.Record{Topic: "orders-dlt", Offset: 9, Timestamp: dlqtest.Start, Value: []byte("v"), Headers: append(own, spring...)}
	}
	for name, c := range map[string]struct {
		letter       dlq.Record
		of, group    string
		afterTheNext func(e sent) dlq.Record
	}{
		"given up by the relay": {dlqtest.Event(1, 1), "event:" + dlqtest.EventID(1).String(), "", nil},
		"an event that a consumer gave up": {givenUpBy(t, "billing", 5, dlq.Place{}, h(message.HeaderEventID, event)), "event:" + event, "billing",
			func(e sent) dlq.Record {
				return givenUpBy(t, "billing", 6, dlq.Place{}, h(message.HeaderEventID, event), h(message.HeaderRedriveOf, headerOf(e, message.HeaderRedriveOf)),
					h(message.HeaderRedriveFor, "billing"), h(dlq.HeaderReplayID, headerOf(e, dlq.HeaderReplayID)))
			}},
		"a record that a consumer gave up": {givenUpBy(t, "billing", 5, dlq.Place{}), "record:orders/3/5@1772366400000", "billing",
			func(e sent) dlq.Record {
				return givenUpBy(t, "billing", 6, dlq.Place{}, h(message.HeaderEventID, message.RedriveEventID(headerOf(e, message.HeaderRedriveOf)).String()), h(message.HeaderRedriveOf, headerOf(e, message.HeaderRedriveOf)),
					h(dlq.HeaderReplayID, headerOf(e, dlq.HeaderReplayID)))
			}},
		"a record that Spring gave up": {foreign(), "record:orders/3/42@1700000000123", "billing", func(e sent) dlq.Record {
			r := foreign(h(message.HeaderEventID, message.RedriveEventID(headerOf(e, message.HeaderRedriveOf)).String()), h(message.HeaderRedriveOf, headerOf(e, message.HeaderRedriveOf)), h(dlq.HeaderReplayID, headerOf(e, dlq.HeaderReplayID)))
			r.Offset, r.Headers[5].Value = 10, []byte("\x00\x00\x00\x00\x00\x00\x00\x2b") // read anew in its topic
			return r
		}},
		"an event that Spring gave up":       {foreign(h(message.HeaderEventID, event)), "event:" + event, "billing", nil},
		"an event in a letter of no dialect": {dlq.Record{Topic: "own-dlq", Timestamp: dlqtest.Start, Headers: []message.Header{h(message.HeaderEventID, event)}}, "event:" + event, "", nil},
		"what says to be something odd":      {foreign(h(message.HeaderRedriveOf, "event:x"), h(message.HeaderEventID, event)), "event:" + event, "billing", nil},
	} {
		r := newRedriving(t)
		check := func(letter dlq.Record) sent {
			t.Helper()
			l := dlq.Decode(letter)
			if l.FirstSentAs() != c.of || l.FailedGroup() != c.group {
				t.Errorf("%s: a replay sends it as %s, for %q", name, l.FirstSentAs(), l.FailedGroup())
			}
			var entry uuid.UUID
			if l.Subject.Type == dlq.SubjectEvent {
				entry = r.die(1, nil)
			} else {
				entry = r.record(l)
			}
			done, err := r.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Target: "elsewhere", Actor: "ada"})
			if err != nil || len(done.Entries) != 1 {
				t.Fatalf("%s: %+v, %v", name, done, err)
			}
			all := r.sent()
			e := all[len(all)-1]
			if headerOf(e, message.HeaderRedriveOf) != c.of || headerOf(e, message.HeaderRedriveFor) != c.group {
				t.Errorf("%s: %q", name, e.Headers)
			}
			return e
		}
		e := check(c.letter)
		if c.afterTheNext != nil {
			again := c.afterTheNext(e)
			r.deliver(1)
			check(again)
		}
	}
}

// TestRedrivesAreWrittenByPostrider: the relay believes what a message was first sent as in these rows alone.
func TestRedrivesAreWrittenByPostrider(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.redrive(r.die(1, nil))
	var kinds []string
	rows, err := r.subject.pool.Query(t.Context(), `select kind from postrider.outbox_event where id > 1000`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var kind string
		if err := rows.Scan(&kind); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kind)
	}
	if !slices.Equal(kinds, []string{"redrive"}) {
		t.Errorf("%q", kinds)
	}
}
