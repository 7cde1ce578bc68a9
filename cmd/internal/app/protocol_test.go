package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/tasks/task"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// The shipped protocol, through the whole app: an event that fails is sent again by itself; after three failures
// its protocol is in dead_letter; a retry takes it back to the beginning and sends a new event; and a week later a
// dead-lettered one is archived by looking at it.
func TestProtocol(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	for _, topic := range []string{"protocols", "postrider.dlq", "postrider.lifecycle"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	pool, conn := db.Pool(t), db.Conn(t)
	l := postgres.On(pool)
	shipped, err := task.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range shipped {
		if _, _, err := l.ApplyTemplate(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	refuse := func(requests int) (heal func()) {
		return broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "protocols", Err: kerr.InvalidTimestamp, Count: requests}).Remove
	}
	event := func(protocol uuid.UUID) string {
		return fmt.Sprintf("from postrider.v_outbox_event where topic = 'protocols' and task_uuid = '%s'", protocol)
	}
	c := settings(t, db.URL, broker.Addrs...)
	c.Outbox.RetryBase, c.Outbox.RetryMax = 10*time.Millisecond, 10*time.Millisecond
	run(t, Options{Config: c})

	// Sent again by itself. An attempt is two requests: with others, and, under suspicion, alone.
	refuse(2)
	lucky := ledgertest.Create(t, pool, ledgertest.New{Namespace: "protocols", Name: "protocol"})
	waitRow(t, conn, "delivered by a second attempt", "select state = 'published' and exists (select from postrider.outbox_receipt r where r.returned @> id) "+event(lucky))
	if got := ledgertest.State(t, pool, lucky); got != "uploaded" {
		t.Errorf("a protocol whose event was late is %s", got)
	}

	// Three failures.
	heal := refuse(-1)
	protocol := ledgertest.Create(t, pool, ledgertest.New{Namespace: "protocols", Name: "protocol", Context: `{"document": 7}`})
	waitRow(t, conn, "dead-lettered", "select state = 'dead_lettered' and attempts = 3 "+event(protocol))
	got := ledgertest.Read(t, pool, protocol)
	var metadata struct {
		Error struct {
			Category, Reason string
			RetryCount       int `json:"retry_count"`
		}
	}
	if err := json.Unmarshal(got.Metadata, &metadata); err != nil {
		t.Fatal(err)
	}
	if e := metadata.Error; got.State != "dead_letter" || got.ErrorReason == "" || e.Category != "pipeline_failed" || e.Reason != "Maximum retries exceeded" || e.RetryCount != 3 {
		t.Errorf("the protocol is %+v, %s", got, got.Metadata)
	}
	waitRow(t, conn, "the event's investigation", fmt.Sprintf(`select count(*) = 1 from postrider.dlq_entry d join postrider.v_outbox_event e
		on d.subject_id = e.event_id::text where d.dlq_reason = 'max_retries_exceeded' and e.task_uuid = '%s'`, protocol))

	// So do the events of its task that a writer inserted by itself, at once and for later.
	inserted := ledgertest.Create(t, pool, ledgertest.New{Namespace: "protocols", Name: "protocol"})
	pgtest.Exec(t, conn, fmt.Sprintf(`insert into postrider.outbox_event (topic, key, payload, task_uuid, available_at)
		values ('protocols', 'now', 'x', '%[1]s', null), ('protocols', 'later', 'x', '%[1]s', now() + interval '1 second')`, inserted))
	for _, key := range []string{"now", "later"} {
		waitRow(t, conn, "an inserted event is dead-lettered", fmt.Sprintf("select state = 'dead_lettered' %s and key = '%s'", event(inserted), key))
		if n := pgtest.Value[int](t, conn, fmt.Sprintf("select attempts %s and key = '%s'", event(inserted), key)); n != 3 {
			t.Errorf("the event with the key %s had %d attempts, want the 3 of the template", key, n)
		}
	}

	// The investigation is found by the task, and says that the event alone does not bring the task back. A retry closes it,
	// and then it cannot be sent again by mistake.
	desk, err := NewServices(pool, config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := desk.Investigations.ShowTask(t.Context(), protocol)
	if err != nil || entry.Status != dlq.Pending || entry.TaskUUID != protocol || entry.Stopped == nil || entry.Stopped.State != "dead_letter" {
		t.Fatalf("the investigation of the task is %+v, %v", entry, err)
	}
	heal()
	retried, err := desk.Tasks.Retry(t.Context(), protocol, "ann")
	if err != nil || !slices.Equal(retried.Closed, []uuid.UUID{entry.UUID}) {
		t.Fatalf("the retry did %+v, %v; it closes %s", retried, err, entry.UUID)
	}
	if entry, err = desk.Investigations.ShowTask(t.Context(), protocol); err != nil || entry.Status != dlq.ManuallyResolved || entry.ResolvedBy != "ann" || entry.Stopped != nil {
		t.Errorf("after the retry it is %+v, %v", entry, err)
	}
	if done, err := desk.Access.EntryHistory(t.Context(), entry.UUID.String(), nil); err != nil || len(done) != 1 || done[0].Action != "dlq.resolve" {
		t.Errorf("its history is %+v, %v", done, err)
	}
	sent, err := desk.Redriver.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry.UUID}, Actor: "bob"})
	if err != nil || len(sent.Skipped) != 1 || sent.Skipped[0].Reason != dlq.NotPending {
		t.Errorf("sending its event again did %+v, %v", sent, err)
	}
	got = ledgertest.Read(t, pool, protocol)
	if got.State != "uploaded" || got.ErrorReason != "" || string(got.Metadata) != "{}" {
		t.Errorf("the retried protocol is %+v, %s", got, got.Metadata)
	}
	waitRow(t, conn, "a new event is delivered", "select count(*) = 1 "+event(protocol)+" and state = 'published'")
	if n := pgtest.Value[int](t, pool, "select count(*) "+event(protocol)); n != 2 {
		t.Errorf("%d start events were written", n)
	}
	records := broker.ReadAll(t, "protocols", 1)
	if last := records[len(records)-1]; string(last.Key) != protocol.String() {
		t.Errorf("the last record of the topic is of %s", last.Key)
	}

	// Sent again without a retry, an event leaves its task where it is, and the answer says so.
	heal = refuse(-1)
	lost := ledgertest.Create(t, pool, ledgertest.New{Namespace: "protocols", Name: "protocol"})
	waitRow(t, conn, "its investigation", fmt.Sprintf("select count(*) = 1 from postrider.dlq_entry where task_uuid = '%s'", lost))
	heal()
	entry, err = desk.Investigations.ShowTask(t.Context(), lost)
	if err != nil {
		t.Fatal(err)
	}
	sent, err = desk.Redriver.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{entry.UUID}, Edit: &dlq.Edit{Headers: []message.Header{}}, Actor: "bob"})
	if want := []dlq.StoppedTask{{UUID: lost, State: "dead_letter"}}; err != nil || len(sent.Entries) != 1 || !slices.Equal(sent.Stopped, want) {
		t.Errorf("sending its event again did %+v, %v; it leaves %v", sent, err, want)
	}
	waitRow(t, conn, "the event is delivered", fmt.Sprintf("select resolution_status = 'manually_resolved' from postrider.dlq_entry where dlq_entry_uuid = '%s'", entry.UUID))
	if got := ledgertest.State(t, pool, lost); got != "dead_letter" {
		t.Errorf("the task is %s", got)
	}

	// Archived when it is read a week later, whether or not the investigation of its event is pending.
	if entry, err = desk.Investigations.ShowTask(t.Context(), lost); err != nil || entry.Archived != nil {
		t.Errorf("before its task is archived it says %+v, %v", entry.Archived, err)
	}
	ledgertest.Age(t, pool, lost, 7*24*time.Hour+time.Minute)
	if _, err := l.Read(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if entry, err = desk.Investigations.ShowTask(t.Context(), lost); err != nil || entry.Archived == nil || entry.Archived.UUID != lost || entry.Archived.State != "archived" || entry.Archived.InArchive || entry.Archived.At.IsZero() {
		t.Errorf("after its task was archived it says %+v, %v", entry.Archived, err)
	}
	ledgertest.Put(t, pool, protocol, "dead_letter")
	ledgertest.Age(t, pool, protocol, 7*24*time.Hour+time.Minute)
	if _, err := l.Read(t.Context(), protocol); err != nil {
		t.Fatal(err)
	}
	if got := ledgertest.State(t, pool, protocol); got != "archived" {
		t.Errorf("a week later it is %s", got)
	}
}
