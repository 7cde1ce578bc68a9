package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

// A task's dead letter goes from the ledger by the outbox, the broker and the collector to one investigation of
// the task, also when the letter itself is too large for the dead-letter topic.
func TestTaskLettersBecomeInvestigations(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	broker.CreateTopic(t, "postrider.dlq", 2, map[string]string{"max.message.bytes": "30000"})
	broker.CreateTopic(t, "postrider.lifecycle", 2, nil)
	pool := db.Pool(t)
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"steps": [{"name": "a"}]}`})
	small := ledgertest.Create(t, pool, ledgertest.New{Context: `{"order": 7}`})
	large := ledgertest.Create(t, pool, ledgertest.New{Context: fmt.Sprintf(`{"scan": "%s"}`, strings.Repeat("x", 100_000))})
	l := postgres.On(pool)
	for _, task := range []uuid.UUID{small, large} {
		if _, err := l.DeadLetter(t.Context(), task, "the customer called", "ann"); err != nil {
			t.Fatal(err)
		}
	}
	waitReady(t, run(t, Options{Config: settings(t, db.URL, broker.Addrs...)}))
	d, err := NewServices(pool, config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	investigation := func(task uuid.UUID) (dlq.Entry, []dlq.Letter) {
		t.Helper()
		var found []dlq.Entry
		eventually(t, "an investigation", func() (bool, string) {
			page, err := d.Investigations.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Subject: dlq.Subject{Type: dlq.SubjectTask, ID: task.String()}}})
			found = page.Entries
			return err == nil && len(found) == 1, fmt.Sprintf("%d, %v", len(found), err)
		})
		detail, err := d.Investigations.Show(t.Context(), found[0].UUID)
		if err != nil || len(detail.Letters) != 1 {
			t.Fatalf("%d letters, %v", len(detail.Letters), err)
		}
		return detail.Entry, detail.Letters
	}

	entry, letters := investigation(small)
	var snapshot struct {
		Task struct {
			State   string
			Context json.RawMessage
		}
		Steps []json.RawMessage
	}
	if err := json.Unmarshal(entry.Snapshot, &snapshot); err != nil {
		t.Fatal(err)
	}
	if entry.Reason != dlq.ManualDLQ || entry.OriginalState != "pending" || entry.ErrorMessage != "the customer called" || entry.Occurrences != 1 ||
		snapshot.Task.State != "pending" || string(snapshot.Task.Context) != `{"order": 7}` || len(snapshot.Steps) != 1 {
		t.Errorf("entry %+v, snapshot %s", entry, entry.Snapshot)
	}
	if want := "task:" + small.String() + ":1:manual_dlq"; letters[0].ID != want || letters[0].Dialect != dlq.DialectPostrider {
		t.Errorf("letter %+v, want %s", letters[0], want)
	}

	// The large one arrives as a dead letter of its own, without its payload, and names the task.
	entry, letters = investigation(large)
	if entry.OriginalState != "unknown" || entry.ErrorCode != "MESSAGE_TOO_LARGE" || letters[0].PayloadKind != dlq.Reference || letters[0].OutboxID == nil {
		t.Errorf("entry %+v, letter %+v", entry, letters[0])
	}
	waitRow(t, db.Conn(t), "the row that has the payload stays", fmt.Sprintf(`select state = 'dead_lettered' and octet_length(payload) > 100000
		and closed_at is null from postrider.outbox_exception where id = %d`, *letters[0].OutboxID))

	// A letter that arrives again opens nothing.
	if _, err := pool.Exec(t.Context(), `insert into postrider.outbox_event (kind, topic, key, payload, headers)
		select kind, topic, key, payload, headers from postrider.outbox_event where topic = 'postrider.dlq' and key = convert_to($1::uuid::text, 'UTF8')`, small); err != nil {
		t.Fatal(err)
	}
	waitRow(t, db.Conn(t), "sent again", `select count(*) = 2 from postrider.v_outbox_event where topic = 'postrider.dlq' and state = 'published'`)
	after := ledgertest.Create(t, pool, ledgertest.New{})
	if _, err := l.DeadLetter(t.Context(), after, "later", ""); err != nil {
		t.Fatal(err)
	}
	investigation(after) // what came before it in its partition is recorded
	if again, _ := investigation(small); again.Occurrences != 1 {
		t.Errorf("a repeated letter counted: %+v", again)
	}
}

// An event of a task that cannot be delivered moves the task, through the whole app; what was locked then is
// moved later.
func TestUndeliverableEventMovesItsTask(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	for _, topic := range []string{"orders", "postrider.dlq", "postrider.lifecycle"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	pool, conn := db.Pool(t), db.Conn(t)
	ledgertest.AddMachine(t, pool, ledgertest.Protocol())
	ledgertest.Apply(t, pool, ledgertest.Template{Machine: "protocol"})
	free, locked := ledgertest.Create(t, pool, ledgertest.New{}), ledgertest.Create(t, pool, ledgertest.New{})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `select from postrider.tasker_tasks where task_uuid = $1 for update`, locked); err != nil {
		t.Fatal(err)
	}
	for _, task := range []uuid.UUID{free, locked} {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := outbox.Enqueue(t.Context(), tx, outbox.Message{Topic: "orders", Payload: make([]byte, 2<<20), TaskUUID: task})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	a := run(t, Options{Config: settings(t, db.URL, broker.Addrs...)})
	waitRow(t, conn, "both events have their investigation", `select count(*) = 2 from postrider.dlq_entry where subject_type = 'event' and dlq_reason = 'undeliverable'`)
	if got := ledgertest.Read(t, pool, free); got.State != "dead_letter" || !strings.Contains(got.ErrorReason, "MESSAGE_TOO_LARGE") {
		t.Errorf("the task is %+v", got)
	}
	if got := ledgertest.State(t, pool, locked); got != "uploaded" {
		t.Errorf("the locked task is %s", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "moved later", func() (bool, string) {
		state := ledgertest.State(t, pool, locked)
		return state == "dead_letter", state
	})
	eventually(t, "counted", func() (bool, string) {
		_, metrics := get(t, a, "/metrics")
		return strings.Contains(metrics, `postrider_tasks_caught_up_total{outcome="moved"} 1`), metrics
	})
}
