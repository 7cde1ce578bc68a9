package cli

import (
	"strings"
	"testing"

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
