package dlq

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/message"
)

// FuzzDecode feeds Decode with records whose header n is name n of ours, or a foreign one, and checks
// that whatever comes out can be stored.
func FuzzDecode(f *testing.F) {
	f.Add("postrider.dlq", int32(0), int64(1), int64(1700000000000), []byte("k"), []byte(`{"a":1}`), "1", anEvent, "1", "991", "orders", "5", "inline", "7", "record", "broken \x00", "x", []byte("y"), byte(0))
	f.Add("dlq", int32(-1), int64(-1), int64(-1), []byte(nil), []byte(nil), "1", anEvent, "1", "991", "orders", "5", "tombstone", "", "permanent", "\xff", "", []byte(nil), byte(3))
	f.Add("dlq", int32(9), int64(9), int64(1<<62), []byte{}, []byte(`["\u0000","\ud800",1e999]`), "2", "", "", "", "", "", "", "", "", "", "\x00", []byte("\x00"), byte(1))
	f.Fuzz(func(t *testing.T, topic string, partition int32, offset, ms int64, key, value []byte,
		version, event, episode, id, origin, attempts, payload, size, class, text, name string, any []byte, nulls byte) {
		if nulls&1 != 0 {
			key = nil
		}
		if nulls&2 != 0 {
			value = nil
		}
		hs := []message.Header{
			header(message.HeaderLetterVersion, version), header(message.HeaderEventID, event), header(message.HeaderEpisode, episode),
			header(message.HeaderOutboxID, id), header(message.HeaderOriginTopic, origin), header(message.HeaderAttempts, attempts),
			header(message.HeaderPayload, payload), header(message.HeaderPayloadBytes, size), header(message.HeaderErrorClass, class),
			header(message.HeaderErrorCode, class), header(message.HeaderErrorMessage, text), header(message.HeaderLastFailedAt, name),
			{Name: name, Value: any},
		}
		if nulls&4 != 0 {
			hs = hs[1:]
		}
		r := Record{Topic: topic, Partition: partition, Offset: offset, Timestamp: time.UnixMilli(ms), Key: key, Value: value, Headers: hs}
		l := Decode(r)
		checkStorable(t, l)
		if (l.Key == nil) != (key == nil) && l.KeyKind != Reference || string(l.Key) != string(key) {
			t.Errorf("key %q became %q (%s)", key, l.Key, l.KeyKind)
		}
		if (l.Payload == nil) != (value == nil) && l.PayloadKind != Reference || string(l.Payload) != string(value) {
			t.Errorf("value %q became %q (%s)", value, l.Payload, l.PayloadKind)
		}
		reduced := Unstorable(l, errRefused)
		checkStorable(t, reduced)
		checkStorable(t, withoutBytes(reduced, errRefused))
	})
}

// checkStorable checks what the columns of dlq_letter and dlq_entry demand.
func checkStorable(t *testing.T, l Letter) {
	t.Helper()
	for what, s := range map[string]string{
		"id": l.ID, "dialect": string(l.Dialect), "dlq topic": l.DLQTopic, "origin topic": l.OriginTopic, "group": l.ConsumerGroup,
		"class": l.ErrorClass, "code": l.ErrorCode, "message": l.ErrorMessage, "subject": l.Subject.ID, "state": l.OriginalState,
		"root cause": l.Root.Cause(), "root frame": l.Root.Frame,
	} {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			t.Errorf("%s %q is no text", what, s)
		}
	}
	if l.ID == "" || len(l.ID) > 1024 || l.Subject.ID == "" || len(l.Subject.ID) > 1024 {
		t.Errorf("ids of %d and %d bytes", len(l.ID), len(l.Subject.ID))
	}
	if len(l.Root.Cause()) > maxCauseBytes || len(l.Root.Frame) > maxFrameBytes {
		t.Errorf("root cause of %d bytes at %d bytes", len(l.Root.Cause()), len(l.Root.Frame))
	}
	if len(l.ErrorMessage) > maxMessageBytes {
		t.Errorf("message of %d bytes", len(l.ErrorMessage))
	}
	for _, at := range []time.Time{l.DLQRecordAt, l.FirstFailedAt, l.LastFailedAt, l.CreatedAt} {
		if at.Year() < 1 || at.Year() > 9999 {
			t.Errorf("time %v", at)
		}
	}
	switch l.PayloadKind {
	case Inline:
		if l.Payload == nil {
			t.Error("inline without payload")
		}
	case Tombstone, Reference:
		if l.Payload != nil {
			t.Error("payload and", l.PayloadKind)
		}
	default:
		t.Errorf("payload kind %q", l.PayloadKind)
	}
	checkJSONB(t, Snapshot(l))
	checkJSONB(t, message.MarshalHeaders(l.Headers))
}

// checkJSONB checks JSON for what jsonb does not take, by a way other than storableJSON's.
func checkJSONB(t *testing.T, raw []byte) {
	t.Helper()
	if !utf8.Valid(raw) || !json.Valid(raw) {
		t.Fatalf("no JSON: %q", raw)
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return
		}
		switch v := token.(type) {
		case string:
			if strings.Contains(v, "\x00") {
				t.Errorf("NUL in %q", raw)
			}
		case json.Number:
			if _, err := v.Float64(); err != nil && len(v) > 1000 {
				t.Errorf("number %s in %q", v, raw)
			}
		}
	}
}
