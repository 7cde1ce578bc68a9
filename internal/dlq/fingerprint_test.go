package dlq

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/postrider/postrider/message"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"":                                     "",
		"  spaces \t\n and\r\nmore  ":          "spaces and more",
		"31 minutes in waiting_for_retry":      "# minutes in waiting_for_retry",
		"dial tcp 10.0.0.1:9092: i/o timeout":  "dial tcp #: i/o timeout",
		"broker kafka-2.example.com:9092 gone": "broker kafka-#.example.com:# gone",
		"order 0198c0de-9999-7222-8333-444455556666 failed":                       "order # failed",
		"order_0198C0DE-9999-7222-8333-444455556666-x failed":                     "order_#-x failed",
		"0198c0de-9999-7222-8333-4444555566667 is one too long":                   "# is one too long",
		"commit 9f8a12bc not found":                                               "commit # not found",
		"deadbeef and facade are words":                                           "deadbeef and facade are words",
		"nil at 0xc000123456":                                                     "nil at #",
		"nil at 0x1f":                                                             "nil at #",
		"ulid 01ARZ3NDEKTSV4RRFFQ69G5FAV":                                         "ulid #",
		"at 2026-03-04T05:06:07.89Z it broke":                                     "at <time> it broke",
		"at 2026-03-04 05:06:07 it broke":                                         "at <time> # it broke",
		"took 1.5s, 12ms or 3h":                                                   "took <duration>, <duration> or <duration>",
		`field "amount" of 'order' is bad`:                                        `field "…" of '…' is bad`,
		`header "priority": names beginning with x- are ours, not "y"`:            `header "priority": names beginning with x- are ours, not "…"`,
		"can't open 'x', won't try":                                               "can't open '…', won't try",
		`an "open quote`:                                                          `an "open quote`,
		"v2 API returned 503.":                                                    "v# API returned 503.",
		"größe 12 überschritten":                                                  "größe # überschritten",
		"key=value&n=17":                                                          "key=value&n=#",
		"took 1m30s and 12.5MB":                                                   "took <duration> and <size>",
		"1,048,588 bytes, -5 left, 1.5e-3 of 1,2":                                 "# bytes, # left, # of #,#",
		"404: not found":                                                          "404: not found",
		"17: not found":                                                           "#: not found",
		"HTTP 503 from a:8080, HTTP/1.1 404, status=409":                          "HTTP 503 from a:#, HTTP/# 404, status=409",
		"x (404 Not Found), x: 500 (Internal Server Error)":                       "x (404 Not Found), x: 500 (Internal Server Error)",
		"exit code 137, error code 11000, code 12345":                             "exit code 137, error code 11000, code #",
		"failed (SQLSTATE 23505)":                                                 "failed (SQLSTATE 23505)",
		"SQL state [42P01]; error code [0]":                                       "SQL state [42P01]; error code [0]",
		"Error 1062 (23000): Duplicate entry 'x' for key 'y'":                     "Error 1062 (23000): Duplicate entry '…' for key '…'",
		"ORA-00001: no, E11000 dup, [Errno -2] no, errno: 111":                    "ORA-00001: no, E11000 dup, [Errno -2] no, errno: 111",
		"Key (a, b)=(1, x y) already exists":                                      "Key (a, b)=(…) already exists",
		"Failing row contains (1, null, 2026-01-01).":                             "Failing row contains (…).",
		"Value (twelve) is bad, name (x) stays":                                   "Value (…) is bad, name (x) stays",
		"order SKU-17, A_B-9: no UTF-x, x-17":                                     "order #, #: no UTF-x, x-#",
		"dial [::1]:80 and (host:80) and (a:b)":                                   "dial # and (…) and (a:b)",
		"no session V1StGXR8_Z5jdHi6B-myT":                                        "no session #",
		"Unexpected character ('n' (code 110))":                                   "Unexpected character ('…' (code #))",
		"entry 'Bob's' for key 'name'":                                            "entry '…' for key '…'",
		"Client@5fd45f6 and Client@12345678 and [B@6d06d69c":                      "Client@# and Client@# and [B@#",
		"mail to ada.l@example.org: refused":                                      "mail to <email> refused",
		"pod orders-7d9c8b6f5-x2k9p and a-7d9c8b6f5-bcdfg":                        "pod orders-# and a-#",
		"on Thu Mar 05 10:00:00 UTC 2026":                                         "on <time> <time> # # <time> #",
		"GET http://h/a?id=17&b=c: no":                                            "GET http://h/a?… no",
		"Request ID: A+b/c=; orderId=x-y, paid: no":                               "Request ID: #; orderId=#, paid: no",
		`'NoneType' object has no attribute 'amount'`:                             `'NoneType' object has no attribute 'amount'`,
		`Cannot invoke "a.B.c()" because "d" is null`:                             `Cannot invoke "a.B.c()" because "d" is null`,
		`{"id": 17, "type": "a_b", "reason": "no x 5"}`:                           `{a_b, no x #}`,
		`404 Not Found: "{"id":17,"status":404,"path":"/x/7"}"`:                   `404 Not Found: "{404}"`,
		`X{a='b', c=5} and {plain`:                                                `X{…} and {plain`,
		`[Consumer clientId=a-1, groupId=b] left`:                                 `[…] left`,
		`(1062, "Duplicate entry 'a' for key 'b'")`:                               `(1062, Duplicate entry '…' for key '…')`,
		`bad at [Source: (String)"{"a":[1"; line: 1, column: 9] (through a["b"])`: `bad at [Source] (through a["…"])`,
	} {
		if got := Normalise(message); got != want {
			t.Errorf("%q became %q, want %q", message, got, want)
		}
	}
	long := Normalise(strings.Repeat("ä", 500))
	if len(long) > maxNormalised || !utf8.ValidString(long) {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

// FuzzNormalise: the result is bounded and storable, and what was normalised stays as it is where it was not cut.
func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"", "a 1 b", "'quoted' 12:34", strings.Repeat("x1", 300), "\x00\xff", "0198c0de-9999-7222-8333-444455556666"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		message = storableText(message, maxMessageBytes)
		got := Normalise(message)
		if len(got) > maxNormalised || storableText(got, maxNormalised) != got || strings.Contains(got, "  ") {
			t.Errorf("%q became %q", message, got)
		}
		if spread := Normalise(" " + strings.ReplaceAll(message, " ", "  ") + " "); spread != got {
			t.Errorf("%q became %q, with more spaces %q", message, got, spread)
		}
	})
}

func letterFor(code, class, message, topic string) *Letter {
	return &Letter{ErrorCode: code, ErrorClass: class, ErrorMessage: message, OriginTopic: topic, DLQTopic: "postrider.dlq", Reason: Unclassified}
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	base := FingerprintOf(letterFor("INVALID_RECORD", "record", "row 17 refused", "orders"))
	if same := FingerprintOf(letterFor("INVALID_RECORD", "record", "row  18 refused", "orders")); same != base {
		t.Errorf("%+v is not %+v", same, base)
	}
	if !strings.HasPrefix(base.ID, "1:") || len(base.ID) != 34 {
		t.Errorf("fingerprint %q", base.ID)
	}
	// The id is stored, and compared with ids from other versions of this program.
	if base.ID != "1:66eae3f955f53de39b9b8e6660d2193e" {
		t.Errorf("the rule of version %d has changed: %s; make it another version", FingerprintVersion, base.ID)
	}
	template := letterFor("INVALID_RECORD", "record", "row 17 refused", "")
	template.Template = "orders"
	seen := map[string]string{base.ID: "base"}
	for name, l := range map[string]*Letter{
		"code":      letterFor("OTHER", "record", "row 17 refused", "orders"),
		"no code":   letterFor("", "record", "row 17 refused", "orders"),
		"class":     letterFor("INVALID_RECORD", "permanent", "row 17 refused", "orders"),
		"message":   letterFor("INVALID_RECORD", "record", "row 17 is refused", "orders"),
		"topic":     letterFor("INVALID_RECORD", "record", "row 17 refused", "payments"),
		"no topic":  letterFor("INVALID_RECORD", "record", "row 17 refused", ""),
		"DLQ topic": letterFor("INVALID_RECORD", "record", "row 17 refused", "postrider.dlq"),
		"shifted":   letterFor("INVALID_RECORDr", "ecord", "row 17 refused", "orders"),
		"template":  template,
	} {
		id := FingerprintOf(l).ID
		if other, taken := seen[id]; taken {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[id] = name
	}
}

func TestFingerprintsAreExplained(t *testing.T) {
	t.Parallel()
	p := FingerprintOf(letterFor("INVALID_RECORD", "record", "row 17 refused", "orders")).Parts
	want := []string{"error code: INVALID_RECORD", "error class: record", "message, without what varies: row # refused", "topic: orders"}
	if !slices.Equal(p.Explain(), want) {
		t.Errorf("%q", p.Explain())
	}
	bare := FingerprintOf(letterFor("", "", "", "")).Parts
	want = []string{"reason, as there is no error code: unclassified", "dead-letter topic, as no other is known: postrider.dlq"}
	if !slices.Equal(bare.Explain(), want) {
		t.Errorf("%q", bare.Explain())
	}
}

// TestTitles: two investigations of a group have one title, which names no value of either.
func TestTitles(t *testing.T) {
	t.Parallel()
	wrapped := letterFor("X", "record", "refused", "orders")
	wrapped.Root = Root{Wraps: true, Class: "java.lang.IllegalStateException", Message: "stock of 17 is negative"}
	for want, l := range map[string]*Letter{
		"Order … not found":         letterFor("NOT_FOUND", "record", "order 4711 not found", "orders"),
		"Order … of … failed after": letterFor("", "", "order 0198c0de-9999-7222-8333-444455556666 of 2026-03-04T05:06:07Z failed after", "orders"),
		"Took …, … to ada":          letterFor("", "", "took 1.5s, 12MB to ada", "orders"),
		`Header "priority" must be a string, null, or {…}`: letterFor("INVALID_HEADERS", "permanent",
			`invalid outbox event: header "priority" must be a string, null, or {"base64": "…"}`, "orders"),
		"java.lang.IllegalStateException: stock of … is negative": wrapped,
		"pq: gone":              letterFor("", "", "pq: gone", "orders"),
		"Größe … überschritten": letterFor("", "", "größe 12 überschritten", "orders"),
		"INVALID_RECORD":        letterFor("INVALID_RECORD", "record", "", "orders"),
		"Unclassified":          letterFor("", "", "", "orders"),
	} {
		if got := FingerprintOf(l).Parts.Title(); got != want {
			t.Errorf("%q has the title %q, want %q", l.ErrorMessage, got, want)
		}
	}
}

func TestWord(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ code, message, want string }{
		{"", "network timeout", "network"},
		{"", "Network: timeout", "network"},
		{"", "503 service unavailable", "503"},
		{"", "404: not found", "404"},
		{"", `{"error":"x"}`, "x"},
		{"", "-17,5 is bad", "17"},
		{"", "…", "unknown"},
		{"", "'x' is missing", "is"},
		{"", "", "unknown"},
		{"", "17 42", "17"},
		{"INVALID_RECORD", "network timeout", "invalid_record"},
	} {
		if got := Word(test.code, test.message); got != test.want {
			t.Errorf("%q, %q: %q, want %q", test.code, test.message, got, test.want)
		}
	}
}

// BenchmarkFingerprint is what each new investigation costs the collector's process.
func BenchmarkFingerprint(b *testing.B) {
	l := letterFor("INVALID_RECORD", "record", "order 0198c0de-9999-7222-8333-444455556666: dial tcp 10.0.0.1:9092: i/o timeout after 30s", "orders")
	l.Headers = []message.Header{}
	b.ReportAllocs()
	for b.Loop() {
		FingerprintOf(l)
	}
}
