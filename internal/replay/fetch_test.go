package replay

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// originals has records by their offset; every question stays without an answer the first time.
type originals struct {
	records map[int64]dlq.Original
	asked   map[int64]int
	most    int
}

func (o *originals) Fetch(_ context.Context, places []dlq.Place) []dlq.Original {
	o.most = max(o.most, len(places))
	all := make([]dlq.Original, len(places))
	for i, p := range places {
		if o.asked[p.Offset]++; o.asked[p.Offset]%2 == 1 {
			all[i] = dlq.Original{State: dlq.OriginalUnanswered, Retention: -1}
			continue
		}
		r, there := o.records[p.Offset]
		if !there {
			r.State = dlq.OriginalDeleted
		}
		r.Retention = -1
		all[i] = r
	}
	return all
}

// pointing is a letter of Kafka Streams about a record that it does not have.
func pointing(offset int64) dlq.Record {
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	return dlq.Record{Headers: []message.Header{h("__streams.errors.exception", "RecordTooLarge"), h("__streams.errors.topic", "payments"),
		h("__streams.errors.partition", "0"), h("__streams.errors.offset", fmt.Sprint(offset))}}
}

// TestReplayFetchesWhatLettersPointTo: the message is read from its record, waiting for brokers that do not answer, and
// never more than a few at once. What is gone or may not be read is left alone, and what came back is sent once.
func TestReplayFetchesWhatLettersPointTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLetters(2, "payments")
		l.chunk = 1000
		event := uuid.MustParse("00000000-0000-4000-8000-000000000007")
		o := &originals{records: map[int64]dlq.Original{}, asked: map[int64]int{}}
		for n := range int64(150) {
			l.add(int32(n%2), pointing(n))
			o.records[n] = dlq.Original{State: dlq.OriginalFetched, Key: fmt.Append(nil, "k", n), Value: fmt.Append(nil, "v", n),
				Headers: []message.Header{{Name: "own", Value: []byte("3")}}}
		}
		delete(o.records, 3)
		o.records[4] = dlq.Original{State: dlq.OriginalRefused}
		o.records[7] = dlq.Original{State: dlq.OriginalFetched, Value: []byte("v7"), Headers: []message.Header{{Name: message.HeaderEventID, Value: []byte(event.String())}}}
		came := foreign(1000, []byte("k")) // the message of 7 was sent again, and came back
		came.Headers = append(came.Headers, message.Header{Name: message.HeaderHops, Value: []byte("1")},
			message.Header{Name: message.HeaderRedriveOf, Value: []byte("event:" + event.String())})
		came = set(came, "kafka_dlt-original-consumer-group", "")
		l.add(1, came)
		r, err := New(Config{Cluster: l, Publisher: l, Originals: o, Options: optionsOf(nil)})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Plan(t.Context())
		if err != nil || p.Matching != 151 || p.Sending != 148 || p.Skipped[PayloadGone] != 1 || p.Skipped[PayloadRefused] != 1 || p.Skipped[SentAgain] != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		if p.Fetched != 147 { // and 7, which came back
			t.Errorf("%d were fetched", p.Fetched)
		}
		res, err := r.Run(t.Context(), p)
		if err != nil || res.Sent != 148 || res.Skipped[PayloadGone] != 1 || res.Skipped[PayloadRefused] != 1 || res.Skipped[SentAgain] != 1 || res.Remaining != 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if o.most > maxPointing {
			t.Errorf("%d messages were asked for at once", o.most)
		}
		if m := l.sent[0]; string(m.Key) != "k0" || string(m.Value) != "v0" || headerOf(&m, "own") != "3" || headerOf(&m, dlq.HeaderReplayOf) != "record:payments/0/0" {
			t.Errorf("%q %q %v", m.Key, m.Value, m.Headers)
		}
	})
}

// TestReplayWithoutOriginals: without a way to read records, letters that point to one are left alone.
func TestReplayWithoutOriginals(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "payments")
	l.add(0, pointing(1))
	if _, res, err := replayAll(t, l, optionsOf(nil)); err != nil || res.Skipped[PayloadGone] != 1 || res.Remaining != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}
