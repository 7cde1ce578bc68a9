package postgres

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/kafka"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// led is a rig whose events a relay carries to a broker, when it is asked to. Keys of orders halt.
type led struct {
	*redriving
	broker *kafkatest.Broker
	relay  *relay.Relay
}

func newLed(t *testing.T) *led {
	t.Helper()
	r := newRedriving(t)
	mustExec(t, r.subject.pool, `select setval('postrider.outbox_event_id_seq', 1, false)`) // nothing dies below, and no gap is to be forgotten
	broker := kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders", 1, nil)
	broker.CreateTopic(t, relay.DefaultDLQTopic, 1, nil)
	pool, err := relaypostgres.NewPool(t.Context(), r.subject.pool.Config().ConnString(), relaypostgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	publisher, err := kafka.NewPublisher(kafka.Config{Brokers: broker.Addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(publisher.Close)
	settings := func(string) relay.TopicSettings {
		return relay.TopicSettings{AfterLastAttempt: relay.PolicyHaltKey}
	}
	engine, err := relay.New(relay.Config{
		Store:     relaypostgres.NewStore(pool, relaypostgres.StoreOptions{LetterTopic: func(string) string { return relay.DefaultDLQTopic }}),
		Publisher: publisher, TopicSettings: settings, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return &led{r, broker, engine}
}

// halting writes an event that is given up for its headers, and one behind it, carries them as far as they go, and
// returns the investigation.
func (r *led) halting() uuid.UUID {
	r.t.Helper()
	mustExec(r.t, r.subject.pool, `insert into postrider.outbox_event (topic, key, payload, headers) values ('orders', 'k', 'first', '{"tenant": "acme", "priority": 5}')`)
	mustExec(r.t, r.subject.pool, `insert into postrider.outbox_event (topic, key, payload) values ('orders', 'k', 'second')`)
	if _, err := r.relay.ProcessPending(r.t.Context(), relay.ActionOptions{}); err != nil {
		r.t.Fatal(err)
	}
	letter := r.broker.ReadAll(r.t, relay.DefaultDLQTopic, 1)[0]
	if arrived := r.broker.ReadAll(r.t, "orders", 0); len(arrived) != 0 {
		r.t.Fatalf("%d events of a halted key arrived", len(arrived))
	}
	record := dlq.Record{Topic: letter.Topic, Partition: letter.Partition, Offset: letter.Offset, Timestamp: letter.Timestamp, Key: letter.Key, Value: letter.Value}
	for _, h := range letter.Headers {
		record.Headers = append(record.Headers, message.Header{Name: h.Key, Value: h.Value})
	}
	return r.record(dlq.Decode(record))
}

// arrived sends the events that are due, and returns what the topic has.
func (r *led) arrived(want int) (payloads []string) {
	r.t.Helper()
	if _, err := r.relay.ProcessRetries(r.t.Context(), relay.ActionOptions{}); err != nil {
		r.t.Fatal(err)
	}
	for _, record := range r.broker.ReadAll(r.t, "orders", want) {
		payload := string(record.Value)
		for _, h := range record.Headers {
			if h.Key == "tenant" || h.Key == "priority" {
				payload += " " + h.Key + "=" + string(h.Value)
			}
		}
		payloads = append(payloads, payload)
	}
	return payloads
}

// TestALeaderSendsWhatIsRedrivenInPlace: edited, in its place, before the events that wait behind it; then
// nothing is held any more, and the investigation is closed.
func TestALeaderSendsWhatIsRedrivenInPlace(t *testing.T) {
	t.Parallel()
	r := newLed(t)
	entry := r.halting()
	done := r.redriveAs(dlq.RedriveRequest{Entries: []uuid.UUID{entry}, Edit: &dlq.Edit{Headers: priority, Payload: []byte("mended")}})
	if len(done.Entries) != 1 {
		t.Fatalf("%+v", done)
	}
	if got := r.arrived(2); len(got) != 2 || got[0] != "mended priority=5" || got[1] != "second" {
		t.Errorf("%q arrived", got)
	}
	if f, err := r.Follow(t.Context(), 10, true); err != nil || f != (dlq.Followed{Delivered: 1}) {
		t.Errorf("%+v, %v", f, err)
	}
	if status, _ := r.status(entry); status != dlq.ManuallyResolved {
		t.Errorf("the investigation is %s", status)
	}
	if n := r.count(`select (select count(*) from postrider.outbox_hold) + (select count(*) from postrider.outbox_exception)`); n != 0 {
		t.Errorf("%d holds and exceptions are left", n)
	}
	if first := pgtest.Value[string](t, r.subject.pool, `select convert_from(payload, 'UTF8') from postrider.outbox_event where id = 1`); first != "first" {
		t.Errorf("the log has %q", first)
	}
}

// TestALeaderGoesOnWithoutWhatIsClosed: closing an investigation lets its key go, and its event may be removed.
func TestALeaderGoesOnWithoutWhatIsClosed(t *testing.T) {
	t.Parallel()
	r := newLed(t)
	entry := r.halting()
	if err := r.Resolve(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	if _, err := r.people().Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{entry}, Limit: 1, ReleaseKeys: true, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	if got := r.arrived(1); len(got) != 1 || got[0] != "second" {
		t.Errorf("%q arrived", got)
	}
	if n := r.count(`select count(*) from postrider.outbox_hold`); n != 0 {
		t.Errorf("%d holds are left", n)
	}
	mustExec(t, r.subject.pool, `update postrider.outbox_receipt set at = now() - interval '1 day'`)
	mustExec(t, r.subject.pool, `update postrider.outbox_exception set closed_at = closed_at - interval '1 day'`)
	if n := r.count(`select removed from postrider.outbox_purge_events('1 hour', 100)`); n != 1 {
		t.Errorf("retention took %d events that were delivered", n)
	}
	if n := r.count(`select removed from postrider.outbox_purge_exceptions('1 hour', 100)`); n != 1 {
		t.Errorf("retention took %d exceptions", n)
	}
}
