package dlq

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var errRefused = errors.New("refused \x00")

func TestUnstorable(t *testing.T) {
	t.Parallel()
	whole := Decode(ourRecord())
	l := Unstorable(whole, errRefused)
	if l.ID != whole.ID || l.Subject != whole.Subject {
		t.Errorf("identity changed to %s, %v: a copy of the letter would open another investigation", l.ID, l.Subject)
	}
	if l.Dialect != DialectUnknown || l.Reason != Unclassified || l.Headers != nil || l.OriginTopic != "" || l.ErrorClass != "" {
		t.Errorf("not reduced: %+v", l)
	}
	if string(l.Key) != "customer-7" || string(l.Payload) != `{"n":1}` || *l.PayloadBytes != 7 {
		t.Errorf("bytes lost: %+v", l)
	}
	if l.ErrorCode != CodeUnstorable || !strings.HasSuffix(l.ErrorMessage, "refused \uFFFD") {
		t.Errorf("error %q %q", l.ErrorCode, l.ErrorMessage)
	}
	var s map[string]any
	if err := json.Unmarshal(Snapshot(l), &s); err != nil {
		t.Fatal(err)
	}
	if s["payload"] != nil || s["key"] != nil || s["headers"] != nil {
		t.Errorf("snapshot shows more than sizes: %v", s)
	}
	if want := "the payload has 7 bytes, left out; the whole is in dlq_letter.payload of letter " + l.ID; s["payload_truncated"] != want {
		t.Errorf("note %q", s["payload_truncated"])
	}
}

func TestWithoutBytes(t *testing.T) {
	t.Parallel()
	l := withoutBytes(Decode(ourRecord()), errRefused)
	if l.Key != nil || l.KeyKind != Reference || l.Payload != nil || l.PayloadKind != Reference || *l.PayloadBytes != 7 {
		t.Errorf("got %+v", l)
	}
	if want := `"payload_truncated":"the payload is not in the letter, it is in the record of topic postrider.dlq, partition 3, offset 42, as long as that keeps it"`; !strings.Contains(string(Snapshot(l)), want) {
		t.Errorf("snapshot %s", Snapshot(l))
	}
	null := withoutBytes(Decode(Record{}), errRefused)
	if null.KeyKind != Tombstone || null.PayloadKind != Tombstone {
		t.Errorf("a null became %s and %s", null.KeyKind, null.PayloadKind)
	}
}
