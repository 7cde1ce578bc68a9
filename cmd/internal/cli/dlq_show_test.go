package cli

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// What a person looks up in a tracing system stands among the first lines.
func TestShowNamesTheTrace(t *testing.T) {
	t.Parallel()
	const id = "0af7651916cd43dd8448eb211c80319c"
	for snapshot, want := range map[string]string{`{"trace_id": "` + id + `"}`: id, `{}`: "", `{"trace_id": "\u001b[2J"}`: ""} {
		var out strings.Builder
		if err := showEntry(&out, dlq.Detail{Entry: dlq.Entry{Snapshot: []byte(snapshot)}}, nil); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(out.String(), "\n\n")
		if named := strings.Contains(head, "Trace"); named != (want != "") || !strings.Contains(head, want) {
			t.Errorf("%s:\n%s", snapshot, head)
		}
	}
}

// TestShowFitsAScreen: an investigation with a long message and many headers is some forty lines, says how to see the rest,
// and ends with what to do.
func TestShowFitsAScreen(t *testing.T) {
	t.Parallel()
	entry := dlq.Entry{UUID: uuid.MustParse("0198c0de-0000-7000-8000-000000000001"), GroupUUID: uuid.MustParse("0198c0de-0000-7000-8000-000000000002"),
		Status: dlq.Pending, Subject: dlq.Subject{Type: dlq.SubjectEvent, ID: "7"}}
	payload, headers := "["+strings.Repeat("1,", 500)+"1]", "["+strings.Repeat(`["a\u001b","b"],`, 50)+`["a","b"]]`
	entry.Snapshot = []byte(`{"key": "k", "key_kind": "inline", "payload_kind": "inline", "payload_bytes": 1003, "payload": ` + payload + `,
		"headers": ` + headers + `, "consumer_group": "billing", "error": {"stack": "a\nb"}}`)
	var out strings.Builder
	if err := showEntry(&out, dlq.Detail{Entry: entry}, nil); err != nil {
		t.Fatal(err)
	}
	contains(t, out.String(), "Failing group", "billing", `Key`, `"k"`, "… 43 more headers", "Payload, inline, 1003 bytes", "more lines: -o json has them", "Stack trace, 2 lines",
		"postrider dlq groups "+entry.GroupUUID.String(), "postrider dlq requeue "+entry.UUID.String())
	if n := strings.Count(out.String(), "\n"); n > 45 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	entry.Status, entry.Subject.Type = dlq.Pending, dlq.SubjectTask
	entry.Snapshot = []byte(`{"task": {"state": "error"}, "template": {"namespace_name": "demo", "task_name": "ship", "version": "1.0.0"},
		"steps": [` + strings.Repeat(`{"step_name": "pack", "status": "complete"},`, 20) + `{"step_name": "hand over", "status": "error", "last_error": "lost\u001b"}]}`)
	out.Reset()
	if err := showEntry(&out, dlq.Detail{Entry: entry}, nil); err != nil || !strings.Contains(out.String(), "postrider task show 7") ||
		!strings.Contains(out.String(), "demo/ship@1.0.0") || !strings.Contains(out.String(), "… 5 more steps") || strings.Contains(out.String(), "requeue") {
		t.Errorf("of a task: %v\n%s", err, out.String())
	}
}
