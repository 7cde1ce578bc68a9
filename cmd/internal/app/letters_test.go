package app

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// forging is an installation with a desk and two sources. Their events are given up, and halt their keys. orders has a dead-letter
// topic of its own.
type forging struct {
	t      *testing.T
	broker *kafkatest.Broker
	app    *App
	ann    *person
	// conns are connections of the owners, and events the ids of the events that are given up, by source.
	conns  map[string]*pgx.Conn
	events map[string]uuid.UUID
	dbs    map[string]*pgtest.DB
}

func newForging(t *testing.T) *forging {
	f := &forging{t: t, broker: kafkatest.Kfake(t), conns: map[string]*pgx.Conn{}, events: map[string]uuid.UUID{}, dbs: map[string]*pgtest.DB{}}
	for _, source := range []string{"main", "orders", "billing"} {
		f.broker.CreateTopic(t, source+".a", 1, small)
		f.broker.CreateTopic(t, source+".secret", 1, nil)
		f.dbs[source], f.conns[source] = newSource(t)
		f.events[source] = uuid.New()
	}
	for _, topic := range []string{"postrider.dlq", "postrider.consumer.dlq", "orders.dlq"} {
		f.broker.CreateTopic(t, topic, 1, nil)
	}
	file := newFleetFile(t, f.dbs["main"].URL, f.broker.Addrs...)
	text := "outbox: {after_last_attempt: halt_key}\ncollector: {topics: [orders.dlq]}\nsources:\n  - " +
		sourceLine("orders", f.dbs["orders"].URL) + "\n  - " + sourceLine("billing", f.dbs["billing"].URL) + "\n"
	if err := os.WriteFile(file.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	f.app = run(t, Options{Config: c})
	f.ann = newPerson(t, f.app, "ann", access.Admin)
	return f
}

// die writes an event that is too large for its topic into each outbox, and one behind it.
func (f *forging) die() {
	f.t.Helper()
	for source, conn := range f.conns {
		pgtest.Exec(f.t, conn, `insert into postrider.outbox_event (event_id, topic, key, payload) values ($1, $2, 'k', $3), (gen_random_uuid(), $2, 'k', 'two')`,
			f.events[source], source+".a", []byte(strings.Repeat("x", 2*smallTopic)))
	}
}

// forge writes a record into a topic, as anyone with the right to write there can.
func (f *forging) forge(topic, value string, headers ...string) {
	f.t.Helper()
	r := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	if err := f.broker.Client(f.t).ProduceSync(f.t.Context(), r).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
}

// letter are the headers of the dead letter of a source's event; more headers come in the place of these.
func (f *forging) letter(source string, episode int, more ...string) []string {
	hs := []string{message.HeaderLetterVersion, "1", message.HeaderEventID, f.events[source].String(), message.HeaderEpisode, fmt.Sprint(episode),
		message.HeaderOutboxID, "1", message.HeaderOriginTopic, source + ".a", message.HeaderErrorClass, "permanent", message.HeaderErrorCode, "MESSAGE_TOO_LARGE",
		message.HeaderPayload, message.PayloadInline}
	if source != "main" {
		hs = append(hs, message.HeaderSource, source)
	}
	for i := 0; i < len(more); i += 2 {
		if at := slices.Index(hs, more[i]); at >= 0 {
			hs[at+1] = more[i+1]
		} else {
			hs = append(hs, more[i], more[i+1])
		}
	}
	return hs
}

// failed are the headers of the dead letter of a record that a group of a source gave up.
func failed(topic string, offset int, group string, more ...string) []string {
	return append([]string{message.HeaderLetterVersion, "1", message.HeaderConsumerGroup, group, message.HeaderOriginTopic, topic,
		message.HeaderOriginPartition, "0", message.HeaderOriginOffset, fmt.Sprint(offset), message.HeaderOriginTimestamp, "1772366400000"}, more...)
}

// forgeAll writes every kind of forged letter of an event into the topics that a source or a consumer can write. n is how many.
func (f *forging) forgeAll() (n int) {
	for source := range f.events {
		for _, topic := range []string{"postrider.consumer.dlq", "orders.dlq"} {
			f.forge(topic, "forged", f.letter(source, 1)...)                                                       // before or after the true one
			f.forge(topic, "forged", f.letter(source, 2)...)                                                       // the next episode
			f.forge(topic, "forged", f.letter(source, 1, message.HeaderSource, "orders")...)                       // another source
			f.forge(topic, "forged", f.letter(source, 1, message.HeaderOriginTopic, "billing.secret")...)          // a foreign topic
			f.forge(topic, "forged", append(f.letter(source, 1), "ce_type", "postrider.task.dead_lettered.v1")...) // about a task
			n += 5
		}
	}
	return n
}

// entries are the investigations that a condition selects, as text.
func (f *forging) entries(condition string) []string {
	return pgtest.Column[string](f.t, f.conns["main"], `select concat_ws(' ', source, subject_type, subject_id, occurrences, resolution_status, error_code)
		from postrider.dlq_entry where `+condition+` order by 1`)
}

// standing is what the outboxes know of the events that were given up, and of their keys.
func (f *forging) standing() string {
	var all []string
	for _, source := range []string{"main", "orders", "billing"} {
		all = append(all, pgtest.Value[string](f.t, f.conns[source], `select concat_ws(' ', x.state, x.episode, x.closed_at, x.updated_at, h.cause, h.asked,
				(select count(*) from postrider.outbox_event), (select count(*) from postrider.access_audit a where a.action like 'dlq.%' and a.target_type = 'event'))
			from postrider.outbox_exception x left join postrider.outbox_hold h on h.event_id = x.event_id where x.event_id = $1`, f.events[source]))
	}
	return strings.Join(all, "\n")
}

// TestForgedLettersChangeTheirOwnRecordAlone: a login that may write to the dead-letter topic of consumers, or to that of a source, forges
// letters of the events of all sources, before the true ones come and behind them. Each is a record and nothing more. Whatever is
// done with them, the events, their keys and their investigations stay as they are, and are redriven as they were.
func TestForgedLettersChangeTheirOwnRecordAlone(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	n := f.forgeAll()
	pgtest.WaitFor(t, f.conns["main"], `select count(*) = $1 from postrider.dlq_entry`, n)
	f.die()
	const own = `subject_type = 'event'`
	pgtest.WaitFor(t, f.conns["main"], `select count(*) = 3 from postrider.dlq_entry where `+own)
	n += f.forgeAll()
	pgtest.WaitFor(t, f.conns["main"], `select count(*) = $1 from postrider.dlq_entry`, n+3)
	for source := range f.events {
		pgtest.WaitFor(t, f.conns[source], `select state = 'dead_lettered' from postrider.outbox_exception where event_id = $1`, f.events[source])
	}
	want := []string{}
	for source, event := range f.events {
		prefix := source + " event " + source + "/"
		if source == "main" {
			prefix = "main event "
		}
		want = append(want, prefix+event.String()+" 1 pending MESSAGE_TOO_LARGE")
	}
	slices.Sort(want)
	was := f.standing()
	unchanged := func(when string) {
		t.Helper()
		if got := f.entries(own); !slices.Equal(got, want) {
			t.Errorf("%s: the investigations of events are\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if now := f.standing(); now != was {
			t.Errorf("%s: the outboxes know\n%s\nand knew\n%s", when, now, was)
		}
	}
	unchanged("recorded")
	// A record is its topic's owner's, whatever it says.
	if got := pgtest.Column[string](t, f.conns["main"], `select distinct concat_ws(' ', source, subject_type, error_code, split_part(subject_id, '/', 1), split_part(subject_id, '/', 2))
		from postrider.dlq_entry where not `+own+` order by 1`); !slices.Equal(got, []string{
		"main record NOT_OF_A_RELAY postrider.consumer.dlq 0", "orders record NOT_OF_A_RELAY orders orders.dlq"}) {
		t.Errorf("the records are %q", got)
	}

	// What people can do with them: sent where they say they come from they do not know, sent elsewhere they stay with their owner.
	forged := pgtest.Column[string](t, f.conns["main"], `select dlq_entry_uuid::text from postrider.dlq_entry where not `+own+` order by dlq_entry_uuid`)
	for i, id := range forged {
		switch i % 3 {
		case 0:
			done := f.ann.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, id))
			if text := fmt.Sprint(done); !strings.Contains(text, "no_target") {
				t.Errorf("sent: %s", text)
			}
		case 1:
			f.ann.ask("PATCH", "/dlq/"+id, `{"resolution_status": "cancelled"}`)
		case 2:
			f.ann.ask("POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q], "release_keys": true}`, id))
		}
	}
	unchanged("treated")
	if n := pgtest.Value[int](t, f.conns["main"], `select count(*) from postrider.dlq_command`); n != 0 {
		t.Errorf("%d commands were written", n)
	}

	// The events go back to their places, as their sources kept them, with what was asked for.
	for source := range f.events {
		id := pgtest.Value[string](t, f.conns["main"], `select dlq_entry_uuid::text from postrider.dlq_entry where `+own+` and source = $1`, source)
		eventually(t, source+" redrives its event", func() (bool, string) {
			done := f.ann.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "edit": {"payload_text": "one"}}`, id))
			return len(done["requeued"].([]any)) == 1, fmt.Sprint(done)
		})
		var got []string
		for _, r := range f.broker.ReadAll(t, source+".a", 2) {
			got = append(got, string(r.Value))
		}
		if strings.Join(got, " ") != "one two" {
			t.Errorf("%s.a has %q", source, got)
		}
	}
	for _, topic := range []string{"main.secret", "orders.secret", "billing.secret"} {
		if got := f.broker.ReadAll(t, topic, 0); len(got) > 0 {
			t.Errorf("%s has %q", topic, got[0].Value)
		}
	}
}

// TestForgedRecordsStayWithTheirSource: letters of consumers' records name where the record came from and where it is to be sent. In
// the topic of orders they name topics of billing: they take the place of no letter of billing, and go to no topic of billing.
func TestForgedRecordsStayWithTheirSource(t *testing.T) {
	t.Parallel()
	f := newForging(t)
	f.forge("orders.dlq", "forged", failed("billing.a", 5, "bills")...)
	f.forge("orders.dlq", "forged", failed("orders.a", 5, "orders", message.HeaderRetryTopic, "billing.secret")...)
	f.forge("postrider.consumer.dlq", "forged", failed("elsewhere", 5, "orders", message.HeaderRetryTopic, "billing.secret", message.HeaderSource, "billing")...)
	pgtest.WaitFor(t, f.conns["main"], `select count(*) = 3 from postrider.dlq_entry`)
	f.forge("postrider.consumer.dlq", "true", failed("billing.a", 5, "bills", message.HeaderRetryTopic, "billing.a.bills.retry", message.HeaderSource, "orders")...)
	pgtest.WaitFor(t, f.conns["main"], `select count(*) = 4 from postrider.dlq_entry`)
	if got := f.entries("true"); !slices.Equal(got, []string{
		"billing record billing.a/0/5@1772366400000#bills 1 pending",
		"main record elsewhere/0/5@1772366400000#orders 1 pending",
		"orders record orders/billing.a/0/5@1772366400000#bills 1 pending",
		"orders record orders/orders.a/0/5@1772366400000#orders 1 pending"}) {
		t.Errorf("the investigations are\n%s", strings.Join(got, "\n"))
	}
	requeue := func(subject, target string) string {
		id := pgtest.Value[string](t, f.conns["main"], `select dlq_entry_uuid::text from postrider.dlq_entry where subject_id = $1`, subject)
		body := fmt.Sprintf(`{"ids": [%q]}`, id)
		if target != "" {
			body = fmt.Sprintf(`{"ids": [%q], "target": %q}`, id, target)
		}
		return fmt.Sprint(f.ann.ask("POST", "/dlq/requeue", body))
	}
	for _, c := range []struct{ subject, target string }{
		{"orders/billing.a/0/5@1772366400000#bills", ""}, {"orders/billing.a/0/5@1772366400000#bills", "billing.secret"},
		{"orders/orders.a/0/5@1772366400000#orders", ""}, {"orders/orders.a/0/5@1772366400000#orders", "main.secret"},
		{"elsewhere/0/5@1772366400000#orders", ""}, {"elsewhere/0/5@1772366400000#orders", "orders.secret"},
	} {
		if done := requeue(c.subject, c.target); !strings.Contains(done, "topic_not_allowed") {
			t.Errorf("%s to %q: %s", c.subject, c.target, done)
		}
	}
	if n := pgtest.Value[int](t, f.conns["main"], `select count(*) from postrider.outbox_event`); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
	// The true one goes where its group reads, and the other to a topic of its source, with the identity that it had in its topic.
	f.broker.CreateTopic(t, "billing.a.bills.retry", 1, nil)
	requeue("billing.a/0/5@1772366400000#bills", "")
	requeue("orders/orders.a/0/5@1772366400000#orders", "orders.secret")
	for topic, want := range map[string]string{"billing.a.bills.retry": "true billing.a/0/5@1772366400000#bills", "orders.secret": "forged orders.a/0/5@1772366400000#orders"} {
		r := f.broker.ReadAll(t, topic, 1)[0]
		got := string(r.Value)
		for _, h := range r.Headers {
			if h.Key == "replay_origin" {
				got += " " + string(h.Value)
			}
		}
		if got != want {
			t.Errorf("%s has %q, want %q", topic, got, want)
		}
	}
}
