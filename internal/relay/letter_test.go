package relay

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/message"
)

// givenUp is an event with everything that a letter can tell.
func givenUp() Event {
	e := keyed(7, "k")
	e.Payload, e.Headers = []byte("payload"), []byte(`[["b","2"],["a",null],["b","3"]]`)
	e.Topic, e.Attempts, e.Episode = "orders", 5, 2
	e.CreatedAt = time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	e.FirstErrorAt, e.LastErrorAt = e.CreatedAt.Add(time.Second), e.CreatedAt.Add(time.Minute)
	e.LastErrorClass, e.LastErrorCode, e.LastError = string(Record), "POLICY_VIOLATION", "no"
	e.TaskUUID = uuid.MustParse("11111111-2222-3333-4444-555555555555")
	return e
}

func TestLetterSaysWhatHappened(t *testing.T) {
	t.Parallel()
	own := []string{`b="2"`, "a=null", `b="3"`}
	facts := []string{
		`postrider-letter-version="1"`,
		`postrider-event-id="00000000-0000-0000-0000-000000000007"`,
		`postrider-episode="2"`,
		`postrider-outbox-id="7"`,
		`postrider-origin-topic="orders"`,
		`postrider-attempts="5"`,
		`postrider-first-failed-at="2026-01-02T02:04:06.000000006Z"`,
		`postrider-last-failed-at="2026-01-02T02:05:05.000000006Z"`,
		`postrider-error-class="record"`,
		`postrider-error-code="POLICY_VIOLATION"`,
		`postrider-error-message="no"`,
		`postrider-created-at="2026-01-02T02:04:05.000000006Z"`,
	}
	const task = `postrider-task-uuid="11111111-2222-3333-4444-555555555555"`
	for name, c := range map[string]struct {
		change     func(*Event)
		at         fit
		key, value string
		own, rest  []string
	}{
		"whole": {func(*Event) {}, whole, `"k"`, `"payload"`, own,
			[]string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, task}},
		"whole, without a task": {func(e *Event) { e.TaskUUID = uuid.Nil }, whole, `"k"`, `"payload"`, own,
			[]string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`}},
		"whole, with a partition and a timestamp of its writer's": {func(e *Event) {
			e.Partition, e.Timestamp, e.TaskUUID = new(int32(0)), time.UnixMilli(1), uuid.Nil
		}, whole, `"k"`, `"payload"`, own,
			[]string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, `postrider-partition="0"`, `postrider-timestamp="1970-01-01T00:00:00.001Z"`}},
		"whole, empty": {func(e *Event) { e.Key, e.Payload = []byte{}, []byte{} }, whole, `""`, `""`, own,
			[]string{`postrider-payload="inline"`, `postrider-payload-bytes="0"`, task}},
		"tombstone without a key": {func(e *Event) { e.Key, e.Payload = nil, nil }, whole, "null", "null", own,
			[]string{`postrider-payload="tombstone"`, task}},
		"headers that cannot be read": {unencodable, whole, `"k"`, `"payload"`, nil,
			[]string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, `postrider-invalid-headers="{\"a\":1}"`, task}},
		"one header that cannot be read": {func(e *Event) { e.Headers = []byte(`{"tenant":"acme","priority":5,"trace":null}`) }, whole, `"k"`, `"payload"`,
			[]string{`tenant="acme"`, "trace=null"},
			[]string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, `postrider-invalid-headers="{\"tenant\":\"acme\",\"priority\":5,\"trace\":null}"`, task}},
		"pairs that cannot be read": {func(e *Event) { e.Headers = []byte(`[["a","1"],7,["b",2],["c"],["d","4"]]`) }, whole, `"k"`, `"payload"`,
			[]string{`a="1"`, `d="4"`},
			[]string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, `postrider-invalid-headers="[[\"a\",\"1\"],7,[\"b\",2],[\"c\"],[\"d\",\"4\"]]"`, task}},
		"a name of two lines": {func(e *Event) { e.Headers = []byte(`{"a\r\nb":"1","x":"y"}`) }, whole, `"k"`, `"payload"`,
			[]string{`x="y"`}, []string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, `postrider-invalid-headers="{\"a\\r\\nb\":\"1\",\"x\":\"y\"}"`, task}},
		"a count below zero": {func(e *Event) { e.Headers = []byte(`{"postrider-hops":"-5","x":"y"}`) }, whole, `"k"`, `"payload"`,
			[]string{`x="y"`}, []string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, `postrider-invalid-headers="{\"postrider-hops\":\"-5\",\"x\":\"y\"}"`, task}},
		"forged headers": {func(e *Event) { e.Headers = []byte(`{"postrider-attempts":"0","x":"y"}`) }, whole, `"k"`, `"payload"`,
			[]string{`x="y"`}, []string{`postrider-payload="inline"`, `postrider-payload-bytes="7"`, `postrider-invalid-headers="{\"postrider-attempts\":\"0\",\"x\":\"y\"}"`, task}},
		"bare, with headers that cannot be read": {func(e *Event) { e.Headers = []byte(`{"a": "` + strings.Repeat("x", 300) + `", "b": 1}`) }, bare, "null", "null", nil,
			[]string{`postrider-payload="reference"`, `postrider-payload-bytes="7"`, `postrider-key="reference"`,
				`postrider-invalid-headers="{\"a\": \"` + strings.Repeat("x", 256-7) + `"`, task}},
		"without payload": {func(*Event) {}, withoutPayload, `"k"`, "null", own,
			[]string{`postrider-payload="reference"`, `postrider-payload-bytes="7"`, task}},
		"a tombstone is never a reference": {func(e *Event) { e.Payload = nil }, withoutPayload, `"k"`, "null", own,
			[]string{`postrider-payload="tombstone"`, task}},
		"bare": {func(*Event) {}, bare, "null", "null", nil,
			[]string{`postrider-payload="reference"`, `postrider-payload-bytes="7"`, `postrider-key="reference"`, task}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := with(givenUp(), c.change)
			m := letterAt(&e, "", "", "dlq", c.at)
			if got := [2]string{bytesOrNull(m.Key), bytesOrNull(m.Value)}; got != [2]string{c.key, c.value} {
				t.Errorf("key and value are %v, want %s and %s", got, c.key, c.value)
			}
			want := strings.Join(append(append(append([]string{}, c.own...), facts...), c.rest...), "\n")
			if got := strings.Join(describeHeaders(m.Headers), "\n"); got != want {
				t.Errorf("headers:\n%s\nwant:\n%s", got, want)
			}
			if m.Topic != "dlq" || m.ID != (MessageID{EventID: e.EventID, Episode: 2, Letter: true}) {
				t.Errorf("letter for %q with id %+v", m.Topic, m.ID)
			}
		})
	}
}

func TestLetterIsAsWholeAsFits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start, want fit
		fits        func(*Message) bool
	}{
		"everything fits":           {whole, whole, func(*Message) bool { return true }},
		"the payload does not":      {whole, withoutPayload, func(m *Message) bool { return m.Value == nil }},
		"nor the key":               {whole, bare, func(m *Message) bool { return m.Key == nil }},
		"nothing does: bare":        {whole, bare, func(*Message) bool { return false }},
		"never more than was asked": {withoutPayload, withoutPayload, func(*Message) bool { return true }},
		"bare is the end":           {bare, bare, func(*Message) bool { return false }},
	} {
		e := givenUp()
		m, got := letter(&e, "", "", "dlq", c.start, func(m *Message, _ int) *Outcome {
			if c.fits(m) {
				return nil
			}
			return &Outcome{Class: Permanent}
		})
		if got != c.want {
			t.Errorf("%s: fit %d, want %d", name, got, c.want)
		}
		if (m.Value == nil) != (c.want >= withoutPayload) || (m.Key == nil) != (c.want == bare) {
			t.Errorf("%s: key %q, value %q", name, m.Key, m.Value)
		}
	}
}

// TestBareLetterIsSmall: a bare letter that were refused for its size would hold all dead letters.
func TestBareLetterIsSmall(t *testing.T) {
	t.Parallel()
	e := givenUp()
	e.Topic, e.LastError = strings.Repeat("t", 249), strings.Repeat("because ", 10000)
	e.LastErrorCode, e.ID, e.Attempts, e.Episode = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 1<<62, 1<<31-1, 1<<31-1
	e.Key, e.Payload = bytes.Repeat([]byte("k"), 1<<20), bytes.Repeat([]byte("p"), 1<<20)
	e.Headers = []byte(`{"a": 1, "b": "` + strings.Repeat("x", 1<<20) + `"}`)
	m := letterAt(&e, "", "", "dlq", bare)
	size := 0
	for _, h := range m.Headers {
		size += len(h.Name) + len(h.Value) + 4
	}
	if size > 2200 {
		t.Errorf("the headers of a bare letter are %d bytes", size)
	}
}

func TestCappedKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "text"), rapid.IntRange(0, 40).Draw(t, "limit")
		got := capped(s, n)
		if len(got) > n && len(s) > n || !utf8.ValidString(got) || !strings.HasPrefix(s, got) || len(s) <= n && got != s {
			t.Fatalf("capped(%q, %d) = %q", s, n, got)
		}
	})
}

// TestLetterKeepsTheHops: the letter of a redriven event counts on, however much of the event it carries, and has the
// count once, or no collector could read it.
func TestLetterKeepsTheHops(t *testing.T) {
	t.Parallel()
	e := givenUp()
	e.Headers = []byte(`[["postrider-hops","2"],["b","2"],["postrider-hops","1"],["postrider-hops","x"]]`)
	for _, fits := range []fit{whole, withoutPayload, bare} {
		m := letterAt(&e, "", "", "dead", fits)
		var got []string
		for _, h := range m.Headers {
			if h.Name == message.HeaderHops {
				got = append(got, string(h.Value))
			}
		}
		if len(got) != 1 || got[0] != "2" {
			t.Errorf("fit %d: hops %q, want 2", fits, got)
		}
	}
	e.Headers = []byte(`[["b","2"]]`)
	for _, h := range letterAt(&e, "", "", "dead", whole).Headers {
		if h.Name == message.HeaderHops {
			t.Errorf("one that was never redriven has %s hops", h.Value)
		}
	}
}
