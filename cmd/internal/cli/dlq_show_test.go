package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
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

// TestShowNamesAForeignDialect: the head says by which program's headers a dead letter was read, where that is not ours.
func TestShowNamesAForeignDialect(t *testing.T) {
	t.Parallel()
	for dialect, named := range map[dlq.Dialect]bool{dlq.DialectSpring: true, dlq.DialectPostrider: false} {
		var out strings.Builder
		if err := showEntry(&out, dlq.Detail{Letters: []dlq.Letter{{Dialect: dialect}}}, nil); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(out.String(), "\n\n")
		if strings.Contains(head, "Dialect") != named || strings.Contains(head, string(dialect)) != named {
			t.Errorf("%s:\n%s", dialect, head)
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
	entry.Snapshot = []byte(`{"payload_kind": "inline", "payload_bytes": 1, "payload": 7, "error": {"stack": "at main"}}`)
	out.Reset()
	if err := showEntry(&out, dlq.Detail{Entry: entry}, nil); err != nil {
		t.Fatal(err)
	}
	contains(t, out.String(), "Payload, inline, 1 byte\n", "Stack trace, 1 line:")
	entry.Snapshot = []byte(`{"task": {"state": "error"}, "template": {"namespace_name": "demo", "task_name": "ship", "version": "1.0.0"},
		"steps": [` + strings.Repeat(`{"step_name": "pack", "status": "complete"},`, 20) + `{"step_name": "hand over", "status": "error", "last_error": "lost\u001b"}]}`)
	out.Reset()
	if err := showEntry(&out, dlq.Detail{Entry: entry}, nil); err != nil || !strings.Contains(out.String(), "postrider task show 7") ||
		!strings.Contains(out.String(), "demo/ship@1.0.0") || !strings.Contains(out.String(), "… 5 more steps") || strings.Contains(out.String(), "requeue") {
		t.Errorf("of a task: %v\n%s", err, out.String())
	}
}

// TestNextSaysTheHeaderThatIsNeeded: the command that is recommended works. Of a message with headers that cannot be read
// it has --header; of the others it has not.
func TestNextSaysTheHeaderThatIsNeeded(t *testing.T) {
	t.Parallel()
	d := dlq.Detail{Entry: dlq.Entry{UUID: uuid.MustParse("0198c0de-0000-7000-8000-000000000001"), Status: dlq.Pending, Subject: dlq.Subject{Type: dlq.SubjectEvent, ID: "7"}},
		Letters: []dlq.Letter{{Dialect: dlq.DialectPostrider}}}
	show := func() string {
		t.Helper()
		var out strings.Builder
		if err := showEntry(&out, d, nil); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := show(); strings.Contains(text, "--header") {
		t.Errorf("headers are asked for of a message that needs none:\n%s", text)
	}
	d.Letters[0].Headers = []message.Header{{Name: message.HeaderInvalidHeaders, Value: []byte(`{"priority": 5}`)}}
	contains(t, show(), "postrider dlq requeue "+d.UUID.String()+" --header NAME=VALUE\n", "--header replaces all headers", "--header-none sends none")
	d.Status = dlq.ManuallyResolved
	if text := show(); strings.Contains(text, "--header-none") {
		t.Errorf("a closed one is not sent again:\n%s", text)
	}
}

// TestShowCutsLongKeys: a key may be as long as a message; its length is said.
func TestShowCutsLongKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 20_000)
	entry := dlq.Entry{Snapshot: []byte(`{"key": "` + long + `", "key_kind": "inline", "payload_kind": "inline"}`)}
	for name, whole := range map[string]*dlq.Letter{"as redaction lets it be seen": nil, "as it is": {Key: []byte(long)}, "as bytes": {Key: []byte(long[:9_999] + "\xff")}} {
		var out strings.Builder
		if err := showEntry(&out, dlq.Detail{Entry: entry}, whole); err != nil {
			t.Fatal(err)
		}
		contains(t, out.String(), fmt.Sprintf("… %d of 2000", maxKey), "characters are shown; -o json has all")
		if out.Len() > 2_000 {
			t.Errorf("%s: %d bytes are shown", name, out.Len())
		}
	}
}

// TestShowByTheIDOfATask: from a task there is a way to its investigation.
func TestShowByTheIDOfATask(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	store, err := app.NewServices(db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	letters := dlqtest.Letters(dlqtest.Task(2, 1))
	if _, err := store.Store.RecordLetters(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	entry, task := investigationOf(t, store, letters[0]), letters[0].Subject.ID
	contains(t, succeed(t, db, "dlq", "show", task), "Investigation  "+entry)
	contains(t, succeed(t, db, "dlq", "show", task, "--payload"), "Letter", letters[0].ID)
	contains(t, refuse(t, db, ExitFailure, "dlq", "show", uuid.NewString()), "nor one of a task", "postrider dlq list")
}

// TestDLQShowOfAnArchivedTask: an investigation says where its task went.
func TestDLQShowOfAnArchivedTask(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id := createOrder(t, db)
	task := uuid.MustParse(id)
	investigated(t, pool, task)
	if got := decode[api.Detail](t, succeed(t, db, "dlq", "show", id, "-o", "json")); got.ArchivedTask != nil {
		t.Errorf("before its task is archived it says %+v", got.ArchivedTask)
	}
	succeed(t, db, "dlq", "resolve", pgtest.Value[string](t, pool, `select dlq_entry_uuid::text from postrider.dlq_entry`))
	ledgertest.Put(t, pool, task, "cancelled")
	pgtest.Exec(t, pool, `select postrider.archive_completed_tasks(p_retention_days => 0, p_dry_run => false, p_archive_cancelled => true)`)
	got := decode[api.Detail](t, succeed(t, db, "dlq", "show", id, "-o", "json")).ArchivedTask
	if got == nil || got.TaskUUID != task || got.State != "cancelled" || !got.InArchive || got.ArchivedAt.IsZero() {
		t.Errorf("after its task was archived it says %+v", got)
	}
	contains(t, succeed(t, db, "dlq", "show", id), "Its task was archived ", "task "+id+", which ended as cancelled, is in the archive, which is only read.")
}

// TestShowRedrives: an investigation shows where its redrives stand, also a redrive that a source has not taken yet.
func TestShowRedrives(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	if out := d.run(ExitOK, "dlq show "+d.entries[0]); strings.Contains(out, "Redrives") {
		t.Errorf("it has none:\n%s", out)
	}
	d.run(ExitOK, "dlq requeue "+d.entries[0])
	out := d.run(ExitOK, "dlq show "+d.entries[0], "Redrives, the newest first:", "on its way")
	if strings.Contains(out, "has not taken it") {
		t.Errorf("the own outbox has it:\n%s", out)
	}
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: d.db.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.From("orders", dlqtest.Event(7, 1)))); err != nil {
		t.Fatal(err)
	}
	there := decode[api.EntryList](t, d.run(ExitOK, "dlq list --source orders -o json")).Items[0].ID
	d.run(ExitOK, "dlq requeue "+there)
	d.run(ExitOK, "dlq show "+there, "on its way: orders has not taken it yet")
	pgtest.Exec(t, d.db.Conn(t), `update postrider.dlq_redrive set outbox_id = 9, outcome = 'came_back', finished_at = now() where source = 'orders'`)
	d.run(ExitOK, "dlq show "+there, "came back")
}
