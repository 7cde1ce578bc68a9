package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// set returns a record with a header set anew.
func set(r dlq.Record, name, value string) dlq.Record {
	hs := []message.Header{}
	for _, h := range r.Headers {
		if h.Name != name {
			hs = append(hs, h)
		}
	}
	r.Headers = append(hs, message.Header{Name: name, Value: []byte(value)})
	return r
}

func TestJudge(t *testing.T) {
	t.Parallel()
	event := dlqtest.Event(3, 1)
	event.Topic = source
	reference := set(event, message.HeaderPayload, message.PayloadReference)
	reference.Value = nil
	tombstone := set(event, message.HeaderPayload, message.PayloadTombstone)
	tombstone.Value = nil
	tombstone = set(tombstone, message.HeaderPayloadBytes, "")
	shared := dlq.Record{Headers: []message.Header{{Name: "__dlq.errors.topic", Value: []byte("orders")},
		{Name: "__dlq.errors.partition", Value: []byte("0")}, {Name: "__dlq.errors.offset", Value: []byte("1")}}}
	for name, c := range map[string]struct {
		record dlq.Record
		change func(*Options)
		skip   Skip
		target string
	}{
		"ours":                 {record: event, target: "orders"},
		"to a topic":           {record: event, change: func(o *Options) { o.To = "sandbox" }, target: "sandbox"},
		"tombstone":            {record: tombstone, target: "orders"},
		"foreign":              {record: foreign(1, nil), target: "payments"},
		"reference":            {record: reference, skip: PayloadGone},
		"share group":          {record: shared, skip: PayloadGone},
		"task":                 {record: dlqtest.Task(1, 1), skip: TaskSubject},
		"no headers":           {record: dlq.Record{Value: []byte("x")}, skip: Undecodable},
		"no headers, to topic": {record: dlq.Record{Value: []byte("x")}, change: func(o *Options) { o.To = "sandbox" }, target: "sandbox"},
		"home-made, to topic": {record: dlq.Record{Key: []byte("k"), Value: []byte("x"), Headers: []message.Header{{Name: "why", Value: []byte("because")}}},
			change: func(o *Options) { o.To = "sandbox" }, target: "sandbox"},
		"broken":              {record: set(event, message.HeaderEventID, "x"), skip: Undecodable},
		"broken, to a topic":  {record: set(event, message.HeaderEventID, "x"), change: func(o *Options) { o.To = "sandbox" }, skip: Undecodable},
		"from the source":     {record: set(event, message.HeaderOriginTopic, source), skip: SourceTopic},
		"no origin":           {record: set(foreign(1, nil), "kafka_dlt-original-topic", "no topic!"), skip: NoTarget},
		"no origin, to topic": {record: set(foreign(1, nil), "kafka_dlt-original-topic", "no topic!"), change: func(o *Options) { o.To = "sandbox" }, target: "sandbox"},
		"no retry topic":      {record: event, change: func(o *Options) { o.To = ToRetry }, skip: NoRetryTopic},
		"bad retry topic":     {record: set(event, message.HeaderRetryTopic, "x y"), change: func(o *Options) { o.To = ToRetry }, skip: NoRetryTopic},
		"retry topic":         {record: set(foreign(1, nil), message.HeaderRetryTopic, "payments.billing.retry"), change: func(o *Options) { o.To = ToRetry }, target: "payments.billing.retry"},
		"two hops":            {record: set(event, message.HeaderHops, "2"), target: "orders"},
		"three hops":          {record: set(event, message.HeaderHops, "3"), skip: TooManyHops},
		"more are allowed":    {record: set(event, message.HeaderHops, "3"), change: func(o *Options) { o.MaxHops = 4 }, target: "orders"},
		"unreadable headers":  {record: set(event, message.HeaderInvalidHeaders, `{"a": 1}`), skip: UnreadableHeaders},
		"repaired":            {record: set(event, message.HeaderInvalidHeaders, `{"a": 1}`), change: func(o *Options) { o.Repair = &dlq.Repair{None: true} }, target: "orders"},
		"wired":               {record: set(event, message.HeaderWire, message.WireDebezium), skip: Wired},
		"wired, to a topic":   {record: set(event, message.HeaderWire, message.WireDebezium), change: func(o *Options) { o.To = "sandbox" }, target: "sandbox"},
		"of another program":  {record: set(foreign(1, nil), message.HeaderInvalidHeaders, `{"a": 1}`), target: "payments"},
		"hops that are none":  {record: set(event, message.HeaderHops, "-9 \x1b[2J"), target: "orders"},
	} {
		o := optionsOf(c.change)
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		v := o.decide(&c.record, time.Time{}, time.Time{}, "1")
		if !v.wanted || v.skip != c.skip || v.message.Topic != c.target {
			t.Errorf("%s: wanted %v, skip %q, target %q; want %q, %q", name, v.wanted, v.skip, v.message.Topic, c.skip, c.target)
		}
		if c.skip == "" && (!bytes.Equal(v.message.Value, c.record.Value) || (v.message.Value == nil) != (c.record.Value == nil) ||
			(v.message.Key == nil) != (c.record.Key == nil)) {
			t.Errorf("%s: the message is %q", name, v.message.Value)
		}
	}
	for _, s := range []Skip{Undecodable, PayloadGone, PayloadRefused, TaskSubject, NoTarget, NoRetryTopic, SourceTopic, UnreadableHeaders, Wired, TooManyHops, SentAgain, Refused} {
		if s.Explain() == string(s) || s.Explain() == "" {
			t.Errorf("%s is not explained", s)
		}
	}
}

// TestPlaceOfTheRecord: an event whose writer chose partition and timestamp goes there again, and to no such place of another
// topic.
func TestPlaceOfTheRecord(t *testing.T) {
	t.Parallel()
	event := set(set(dlqtest.Event(3, 1), message.HeaderPartition, "2"), message.HeaderTimestamp, "2021-03-04T05:06:07.891Z")
	for to, want := range map[string]string{ToOriginal: "2 2021-03-04T05:06:07.891Z", "sandbox": "none 0001-01-01T00:00:00Z"} {
		o := optionsOf(func(o *Options) { o.To = to })
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		m := o.decide(&event, time.Time{}, time.Time{}, "1").message
		got := "none"
		if m.Partition != nil {
			got = fmt.Sprint(*m.Partition)
		}
		if got += " " + m.Timestamp.UTC().Format(time.RFC3339Nano); got != want {
			t.Errorf("to %q: %s, want %s", to, got, want)
		}
	}
}

// TestForeignHeaderNames: a record of another program is sent again as it was, whatever its headers are called.
func TestForeignHeaderNames(t *testing.T) {
	t.Parallel()
	r := foreign(1, nil)
	r.Headers = append(r.Headers, message.Header{Name: "a\r\nb", Value: []byte("1")}, message.Header{Name: "", Value: []byte("2")})
	o := optionsOf(nil)
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	v := o.decide(&r, time.Time{}, time.Time{}, "1")
	for _, want := range r.Headers[len(r.Headers)-2:] {
		if !slices.ContainsFunc(v.message.Headers, func(h message.Header) bool { return h.Name == want.Name && string(h.Value) == string(want.Value) }) {
			t.Errorf("header %q is not among %q, %s", want.Name, v.message.Headers, v.skip)
		}
	}
}

// TestRepair gives headers only to messages that have unreadable ones.
func TestRepair(t *testing.T) {
	t.Parallel()
	sound := dlqtest.Event(3, 1)
	broken := set(sound, message.HeaderInvalidHeaders, `{"trace": "3", "priority": 5}`)
	given := []message.Header{{Name: "priority", Value: []byte("5")}}
	for name, c := range map[string]struct {
		record dlq.Record
		repair dlq.Repair
		want   string
	}{
		"broken":          {broken, dlq.Repair{Headers: given}, "trace=3 priority=5"},
		"broken, without": {broken, dlq.Repair{None: true}, ""},
		"sound":           {sound, dlq.Repair{Headers: given}, "trace=3"},
		"sound, without":  {sound, dlq.Repair{None: true}, "trace=3"},
	} {
		o := optionsOf(func(o *Options) { o.Repair = &c.repair })
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range o.decide(&c.record, time.Time{}, time.Time{}, "1").message.Headers {
			if !message.Reserved(h.Name) && !strings.HasPrefix(h.Name, "replay_") {
				got = append(got, h.Name+"="+string(h.Value))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if o := optionsOf(func(o *Options) { o.Repair = &dlq.Repair{} }); o.Check() == nil {
		t.Error("a repair that gives nothing")
	}
}

func TestBoundsInTime(t *testing.T) {
	t.Parallel()
	at := dlqtest.Start.Add(5 * time.Second)
	r, timeless := foreign(5, nil), foreign(5, nil)
	timeless.Timestamp = time.UnixMilli(-1)
	o := optionsOf(nil)
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		record       dlq.Record
		since, until time.Time
		want         bool
	}{
		"none":               {record: r, want: true},
		"from then on":       {record: r, since: at, want: true},
		"later":              {record: r, since: at.Add(time.Millisecond)},
		"until then":         {record: r, until: at},
		"just before":        {record: r, until: at.Add(time.Millisecond), want: true},
		"no time":            {record: timeless, want: true},
		"no time, but since": {record: timeless, since: at.AddDate(-9, 0, 0)},
		"no time, but until": {record: timeless, until: at.AddDate(9, 0, 0)},
	} {
		if v := o.decide(&c.record, c.since, c.until, "1"); v.wanted != c.want {
			t.Errorf("%s: %v", name, v.wanted)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	o := optionsOf(nil)
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	r := foreign(0x0102, []byte("k"))
	r.Headers = append(r.Headers, message.Header{Name: "POSTRIDER-anything", Value: []byte("y")}, message.Header{Name: dlq.HeaderReplayID, Value: []byte("old")},
		message.Header{Name: dlq.HeaderReplayOrigin, Value: []byte("old/0/1#old")},
		message.Header{Name: "", Value: []byte("nameless")}, message.Header{Name: "own", Value: []byte{0, 0xff}})
	m := o.decide(&r, time.Time{}, time.Time{}, "1").message
	var got []string
	for _, h := range m.Headers {
		got = append(got, fmt.Sprintf("%s=%q %v", h.Name, h.Value, h.Value == nil))
	}
	id := headerOf(&m, dlq.HeaderReplayID)
	want := []string{`own="x" false`, `own="" true`, `null="" true`, `="nameless" false`, `own="\x00\xff" false`,
		`replay_of="record:payments/1/258" false`, fmt.Sprintf("replay_id=%q false", id), `replay_origin="payments/1/258#billing" false`,
		`postrider-hops="1" false`, `postrider-redrive-of="record:payments/1/258" false`, `postrider-redrive-for="billing" false`, fmt.Sprintf("postrider-event-id=%q false", headerOf(&m, message.HeaderEventID))}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("headers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !strings.HasSuffix(id, ":1") || len(id) != 38 {
		t.Errorf("replay id %q", id)
	}
}

// TestHopsProperty replays a message that comes back dead each time: its headers do not grow, its hops count, each
// replay has a replay id of its own, inboxes know the message by one id, and it ends.
func TestHopsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := optionsOf(func(o *Options) { o.MaxHops = rapid.IntRange(1, 6).Draw(t, "hops") })
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		r := foreign(1, []byte("k"))
		own := len(dlq.Decode(r).Headers)
		seen := map[string]bool{}
		first := dlq.Decode(r)
		event := ""
		for hop := 1; ; hop++ {
			r.Topic, r.Offset = source, int64(hop)
			label := strings.Repeat("n", rapid.IntRange(1, 60).Draw(t, "name")) + ":1732197240000"
			v := o.decide(&r, time.Time{}, time.Time{}, label)
			if v.skip == TooManyHops {
				if hop != o.MaxHops+1 {
					t.Fatalf("it ended after %d replays of %d", hop-1, o.MaxHops)
				}
				return
			}
			again := o.decide(&r, time.Time{}, time.Time{}, label)
			id := headerOf(&v.message, dlq.HeaderReplayID)
			if event == "" {
				event = headerOf(&v.message, message.HeaderEventID)
			}
			switch {
			case v.skip != "" || len(v.message.Headers) != own+7:
				t.Fatalf("hop %d: skip %q, headers %v", hop, v.skip, v.message.Headers)
			case headerOf(&v.message, message.HeaderHops) != fmt.Sprint(hop):
				t.Fatalf("hop %d is %s", hop, headerOf(&v.message, message.HeaderHops))
			case id != headerOf(&again.message, dlq.HeaderReplayID):
				t.Fatal("two sendings of one replay have different ids")
			case event != headerOf(&v.message, message.HeaderEventID) || headerOf(&v.message, message.HeaderRedriveOf) != first.FirstSentAs():
				t.Fatalf("hop %d: inboxes know it by %v", hop, v.message.Headers)
			case len(id) > 128 || seen[id]:
				t.Fatalf("replay id %s", id)
			}
			seen[id] = true
			// The consumer gives it up again, and writes its dialect's headers behind the message's own.
			next := foreign(1, []byte("k"))
			next.Headers = append(v.message.Headers, next.Headers[3:]...)
			next.Headers = append(next.Headers, message.Header{Name: "kafka_dlt-original-offset", Value: []byte{0, 0, 0, 0, 0, 0, 9, byte(hop)}},
				message.Header{Name: "kafka_dlt-original-topic", Value: []byte("payments")},
				message.Header{Name: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, 0}})
			r = next
		}
	})
}

// FuzzJudge feeds hostile records: whatever is sent has the bytes of the letter and headers that Kafka takes.
func FuzzJudge(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), "kafka_dlt-original-topic", []byte("payments"), "postrider-hops", []byte("2"))
	f.Add([]byte(nil), []byte(nil), "postrider-letter-version", []byte("1"), "x\x00\xff", []byte(nil))
	f.Fuzz(func(t *testing.T, key, value []byte, name string, one []byte, other string, two []byte) {
		r := dlq.Record{Topic: source, Key: key, Value: value, Headers: []message.Header{{Name: name, Value: one}, {Name: other, Value: two}}}
		o := optionsOf(nil)
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		v := o.decide(&r, time.Time{}, time.Time{}, "1")
		if v.skip != "" {
			return
		}
		m := &v.message
		if message.ValidTopic(m.Topic) != nil || m.Topic == source || !bytes.Equal(m.Key, key) || !bytes.Equal(m.Value, value) {
			t.Errorf("message %+v of %+v", m, r)
		}
		if n := message.Hops(m.Headers); n < 1 || n > DefaultMaxHops || len(m.Headers) > 8 {
			t.Errorf("%d hops, headers %v", n, m.Headers)
		}
	})
}

// TestEventKeepsItsID: a replayed event has the id under which inboxes know it.
func TestEventKeepsItsID(t *testing.T) {
	t.Parallel()
	l := newLetters(1, "orders")
	l.add(0, dlqtest.Event(1, 1))
	if _, _, err := replayAll(t, l, optionsOf(nil)); err != nil {
		t.Fatal(err)
	}
	m := &l.sent[0]
	if of := headerOf(m, dlq.HeaderReplayOf); of != "event:"+dlqtest.EventID(1).String() {
		t.Errorf("replay_of %s", of)
	}
	if id := headerOf(m, message.HeaderEventID); id != dlqtest.EventID(1).String() {
		t.Errorf("event id %s", id)
	}
}
