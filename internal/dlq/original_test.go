package dlq_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// answers answers as it is told.
type answers struct {
	answer func(context.Context, dlq.Place) dlq.Original
	asked  [][]dlq.Place
}

func (o *answers) Fetch(ctx context.Context, places []dlq.Place) (all []dlq.Original) {
	o.asked = append(o.asked, places)
	for _, p := range places {
		all = append(all, o.answer(ctx, p))
	}
	return all
}

func pointerTo(offset int64, dialect string) dlq.Record {
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	r := dlq.Record{Topic: "share-dlq", Offset: offset, Timestamp: dlqtest.Start}
	switch number := string(rune('0' + offset)); dialect {
	case "share group":
		r.Headers = []message.Header{h("__dlq.errors.topic", "orders"), h("__dlq.errors.partition", "1"), h("__dlq.errors.offset", number), h("__dlq.errors.group", "g")}
	case "streams":
		r.Headers = []message.Header{h("own", "x"), h("__streams.errors.topic", "orders"), h("__streams.errors.partition", "1"), h("__streams.errors.offset", number), h("__streams.errors.exception", "E")}
	case "consumer":
		r.Headers = []message.Header{h(message.HeaderLetterVersion, "1"), h(message.HeaderConsumerGroup, "g"), h(message.HeaderOriginTopic, "orders"), h(message.HeaderOriginPartition, "1"),
			h(message.HeaderOriginOffset, number), h(message.HeaderOriginTimestamp, dlqtest.Start.Format(time.RFC3339Nano)), h(message.HeaderPayload, message.PayloadReference), h(message.HeaderPayloadBytes, "4")}
		r.Key = []byte("k")
	case "spring":
		r.Headers = []message.Header{h("kafka_dlt-original-topic", "orders"), h("kafka_dlt-original-partition", "\x00\x00\x00\x01"), h("kafka_dlt-original-offset", "\x00\x00\x00\x00\x00\x00\x00"+string(rune(offset)))}
	}
	return r
}

func collectWith(t *testing.T, o dlq.Originals, records ...dlq.Record) (*room, []dlq.Letter) {
	t.Helper()
	r := &room{t: t}
	r.source = (&topic{records: records}).reader(len(records), &r.trace)
	r.store = newStore(&r.trace)
	c, err := dlq.NewCollector(dlq.Config{Source: r.source, Letters: r.store, Originals: o})
	if err != nil {
		t.Fatal(err)
	}
	r.collector = c
	if err := r.runOnce(len(records)); err != nil {
		t.Fatal(err)
	}
	return r, r.letters()
}

// letters are the letters that were recorded, by the offsets of their records.
func (r *room) letters() []dlq.Letter {
	all := r.store.Letters()
	slices.SortFunc(all, func(a, b dlq.Letter) int { return int(a.DLQOffset - b.DLQOffset) })
	return all
}

func TestPointersAreCompleted(t *testing.T) {
	t.Parallel()
	at := dlqtest.Start
	o := &answers{answer: func(_ context.Context, p dlq.Place) dlq.Original {
		return dlq.Original{State: dlq.OriginalFetched, Key: []byte("k"), Value: []byte("full"), Timestamp: at, Retention: time.Hour,
			Headers: []message.Header{{Name: "theirs"}, {Name: message.HeaderEventID, Value: []byte(dlqtest.EventID(7).String())}}}
	}}
	_, letters := collectWith(t, o, pointerTo(0, "share group"), pointerTo(1, "streams"), pointerTo(2, "consumer"), pointerTo(3, "spring"), dlqtest.Event(4, 1))
	if len(o.asked) != 1 || len(o.asked[0]) != 4 || o.asked[0][0] != (dlq.Place{Topic: "orders", Partition: 1}) {
		t.Fatalf("asked for %v", o.asked)
	}
	for _, l := range letters[:4] {
		if l.OriginalRecord != dlq.OriginalFetched || string(l.Key) != "k" || string(l.Payload) != "full" || l.PayloadKind != dlq.Inline || l.KeyKind != dlq.Inline || *l.PayloadBytes != 4 {
			t.Errorf("%s: %+v", l.Dialect, l)
		}
		var meta struct{ Original map[string]any }
		if err := json.Unmarshal(l.Metadata, &meta); err != nil || meta.Original["state"] != "fetched" || meta.Original["topic"] != "orders" ||
			meta.Original["gone_at"] != at.Add(time.Hour).Format(time.RFC3339Nano) {
			t.Errorf("%s: metadata %s, %v", l.Dialect, l.Metadata, err)
		}
		if own := l.Headers[0].Name; len(l.Headers) != 1 || own != "theirs" && l.Dialect != dlq.DialectStreams || own != "own" && l.Dialect == dlq.DialectStreams {
			t.Errorf("%s: headers %v", l.Dialect, l.Headers)
		}
		if l.Dialect == dlq.DialectShareGroup && l.EventID != dlqtest.EventID(7) {
			t.Errorf("event id %v", l.EventID)
		}
	}
	if letters[4].OriginalRecord != "" {
		t.Errorf("a letter with a payload: %+v", letters[4])
	}
}

func TestPointersThatAreNotCompleted(t *testing.T) {
	t.Parallel()
	for _, state := range dlq.OriginalStates() {
		o := &answers{answer: func(context.Context, dlq.Place) dlq.Original {
			// For OriginalFetched this is a record of another time: the topic was made anew.
			return dlq.Original{State: state, Value: []byte("x"), Timestamp: dlqtest.Start.Add(time.Hour), Retention: -1, Err: errors.New("because\x00")}
		}}
		r, letters := collectWith(t, o, pointerTo(1, "consumer"))
		want := state
		if state == dlq.OriginalFetched {
			want = dlq.OriginalOther
		}
		l := letters[0]
		var meta struct{ Original map[string]any }
		if err := json.Unmarshal(l.Metadata, &meta); err != nil {
			t.Fatal(err)
		}
		if l.OriginalRecord != want || l.Payload != nil || l.PayloadKind != dlq.Reference || meta.Original["state"] != string(want) || meta.Original["gone_at"] != nil ||
			meta.Original["error"] != "because\uFFFD" {
			t.Errorf("%s: %+v, %s", state, l, l.Metadata)
		}
		if r.source.committed != 2 {
			t.Errorf("%s: the topic stands", state)
		}
	}
}

// TestPointersDoNotStopATopic: when no broker answers, one batch waits for it, and the batches behind it do not.
func TestPointersDoNotStopATopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &answers{answer: func(ctx context.Context, _ dlq.Place) dlq.Original {
			<-ctx.Done()
			return dlq.Original{State: dlq.OriginalUnanswered, Err: ctx.Err(), Retention: -1}
		}}
		r := &room{t: t}
		r.source = (&topic{records: []dlq.Record{pointerTo(0, "share group"), pointerTo(1, "share group"), pointerTo(2, "share group")}}).reader(1, &r.trace)
		r.store = newStore(&r.trace)
		c, err := dlq.NewCollector(dlq.Config{Source: r.source, Letters: r.store, Originals: o})
		if err != nil {
			t.Fatal(err)
		}
		r.collector = c
		began := time.Now()
		for i, want := range []time.Duration{dlq.DefaultOriginalsTimeout, dlq.DefaultOriginalsTimeout} {
			if err := r.runOnce(1); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("letter %d after %v, want %v", i, took, want)
			}
		}
		time.Sleep(30 * time.Second)
		o.answer = func(context.Context, dlq.Place) dlq.Original {
			return dlq.Original{State: dlq.OriginalFetched, Value: []byte("v"), Timestamp: dlqtest.Start}
		}
		if err := r.runOnce(1); err != nil || len(o.asked) != 2 {
			t.Errorf("asked %d times, %v", len(o.asked), err)
		}
		if l := r.letters(); l[1].OriginalRecord != dlq.OriginalUnanswered || l[2].OriginalRecord != dlq.OriginalFetched {
			t.Errorf("letters %+v", l)
		}
	})
}
