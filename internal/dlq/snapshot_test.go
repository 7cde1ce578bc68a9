package dlq

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/postrider/postrider/message"
)

func snapshotOf(t *testing.T, l Letter) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(Snapshot(l), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	got := string(Snapshot(Decode(ourRecord())))
	want := `{"event_id":"` + anEvent + `","episode":2,"outbox_id":991,"task_uuid":"` + aTask + `","topic":"orders",` +
		`"key":"customer-7","key_kind":"inline","payload":{"n":1},"payload_kind":"inline","payload_encoding":"json","payload_bytes":7,` +
		`"headers":[["trace","abc"],["trace","def"],["gone",null]],"attempts":5,` +
		`"created_at":"2026-03-04T04:00:00Z","first_failed_at":"2026-03-04T05:00:00.5Z","last_failed_at":"2026-03-04T05:06:00Z",` +
		`"error":{"class":"record","code":"INVALID_RECORD","message":"the broker refused it"},` +
		`"dead_letter":{"letter_id":"event:` + anEvent + `:2","topic":"postrider.dlq","partition":3,"offset":42,"at":"2026-03-04T05:06:07.89Z"}}`
	if got != want {
		t.Errorf("Snapshot:\n got %s\nwant %s", got, want)
	}
}

func TestSnapshotBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", MaxSnapshotBytes) // twice the limit
	for name, test := range map[string]struct {
		payload   []byte
		shown, as string
		truncated bool
	}{
		"null":             {nil, `null`, ``, false},
		"empty":            {[]byte{}, `""`, `text`, false},
		"JSON null":        {[]byte(`null`), `null`, `json`, false},
		"JSON, compacted":  {[]byte("{ \"a\" : [1, \"<&>\"] }\n"), `{"a":[1,"<&>"]}`, `json`, false},
		"text":             {[]byte("hello {"), `"hello {"`, `text`, false},
		"bytes":            {[]byte{0xff, 0}, `{"base64":"/wA="}`, `base64`, false},
		"text with NUL":    {[]byte("a\x00"), `{"base64":"YQA="}`, `base64`, false},
		"JSON, not jsonb":  {[]byte(`"\u0000"`), `"\"\\u0000\""`, `text`, false},
		"like our base64":  {[]byte(`{"base64":"x"}`), `{"base64":"x"}`, `json`, false},
		"long text":        {[]byte(long), `"` + strings.Repeat("ä", MaxSnapshotBytes/2) + `"`, `text`, true},
		"long text, split": {[]byte("a" + long), `"a` + strings.Repeat("ä", MaxSnapshotBytes/2-1) + `"`, `text`, true},
		"long JSON":        {[]byte(`"` + strings.Repeat("x", MaxSnapshotBytes) + `"`), `"\"` + strings.Repeat("x", MaxSnapshotBytes-1) + `"`, `text`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s struct {
				Payload   json.RawMessage `json:"payload"`
				Encoding  string          `json:"payload_encoding"`
				Truncated string          `json:"payload_truncated"`
			}
			l := Decode(Record{Topic: "t", Offset: 5, Value: test.payload})
			if err := json.Unmarshal(Snapshot(l), &s); err != nil {
				t.Fatal(err)
			}
			if string(s.Payload) != test.shown || s.Encoding != test.as {
				t.Errorf("shown as %s: %.80s…, want %s: %.80s…", s.Encoding, s.Payload, test.as, test.shown)
			}
			if (s.Truncated != "") != test.truncated {
				t.Errorf("note %q", s.Truncated)
			}
		})
	}
}

func TestSnapshotLongBytes(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte{0xff}, MaxSnapshotBytes+1)
	many := make([]message.Header, 1000)
	for i := range many {
		many[i] = header("h", strings.Repeat("v", 100))
	}
	s := snapshotOf(t, Decode(Record{Topic: "t", Offset: 5, Key: long, Value: long, Headers: many}))
	payload := s["payload"].(map[string]any)["base64"].(string)
	if len(payload) != (MaxSnapshotBytes+2)/3*4 {
		t.Errorf("%d characters of base64", len(payload))
	}
	if want := "the payload has 65537 bytes, cut to the first 65536; the whole is in dlq_letter.payload of letter record:t/0/5"; s["payload_truncated"] != want {
		t.Errorf("note %q", s["payload_truncated"])
	}
	if want := "the key has 65537 bytes, cut to the first 65536; the whole is in dlq_letter.key of letter record:t/0/5"; s["key_truncated"] != want {
		t.Errorf("note %q", s["key_truncated"])
	}
	if s["headers"] != nil || !strings.HasPrefix(s["headers_truncated"].(string), "1000 headers of ") {
		t.Errorf("headers %v", s["headers_truncated"])
	}
}

func TestSnapshotReference(t *testing.T) {
	t.Parallel()
	r := with(with(ourRecord(), message.HeaderPayload, message.PayloadReference), message.HeaderKey, message.KeyReference)
	r.Key, r.Value = nil, nil
	s := snapshotOf(t, Decode(r))
	if want := "the payload is not in the letter, it is in outbox_event under id 991"; s["payload_truncated"] != want {
		t.Errorf("note %q", s["payload_truncated"])
	}
	if want := "the key is not in the letter, it is in outbox_event under id 991"; s["key_truncated"] != want {
		t.Errorf("note %q", s["key_truncated"])
	}
	if s["payload"] != nil || s["key"] != nil || s["payload_bytes"] != 7.0 {
		t.Errorf("snapshot %v", s)
	}
}

func TestStorableJSON(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`{"a":[1,-2.5e10,true,null,"x"]}`:  true,
		`"\ud83d\ude00 \\u0000 \" \u00e4"`: true,
		`1`:                                true,
		`1e400`:                            true,
		strings.Repeat("1", 400):           true,
		strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100): true,
		`"[[{{"`:                   true,
		`{"a":1}}`:                 false,
		`"\u0000"`:                 false,
		`{"\u0000":1}`:             false,
		`"\ud83d"`:                 false,
		`"\ud83dx"`:                false,
		`"\ud83d\n"`:               false,
		`"\ud83d\ud83d"`:           false,
		`"\ude00\ud83d"`:           false,
		`1e401`:                    false,
		`1E-401`:                   false,
		`[1e99999999999999999999]`: false,
		strings.Repeat("1", 401):   false,
		strings.Repeat("[", 101) + "1" + strings.Repeat("]", 101): false,
		"\"\xff\"": false,
		``:         false,
	} {
		if got := storableJSON([]byte(raw)); got != want {
			t.Errorf("storableJSON(%.60q) = %v", raw, got)
		}
	}
}

func TestStorableText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in    string
		limit int
		want  string
	}{
		{"plain", 10, "plain"},
		{"plain", 3, "pla"},
		{"aä", 2, "a"},
		{"a\x00b", 10, "a\uFFFDb"},
		{"\xff\xff\xff", 10, "\uFFFD"},
		{"\xffab", 3, "\uFFFD"},
		{"\xffab", 2, ""},
		{"\x80\x80\x80\x80\x80\x80", 5, "\uFFFD"},
		{"", 5, ""},
		{"€", 2, ""},
		{"€", 0, ""},
	} {
		if got := storableText(test.in, test.limit); got != test.want {
			t.Errorf("storableText(%q, %d) = %q, want %q", test.in, test.limit, got, test.want)
		}
	}
}
