package app

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// TestLettersSayTheirDesk: the letters of the desk's own outbox and of a source that obeys it name the desk, those of a source that obeys
// none yet do not. Another desk that reads the same topic with a group of its own opens nothing but the last.
func TestLettersSayTheirDesk(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"main.a", "orders.a", "billing.a"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	for _, topic := range []string{"postrider.dlq", "postrider.consumer.dlq"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	dbs, conns := map[string]*pgtest.DB{}, map[string]*pgx.Conn{}
	for _, name := range []string{"main", "orders", "billing", "other"} {
		dbs[name], conns[name] = newSource(t)
	}
	desk := pgtest.Value[string](t, conns["main"], `select source_uuid::text from postrider.outbox_source`)
	pgtest.Exec(t, conns["orders"], `update postrider.outbox_source set desk = $1`, desk)

	file := newFleetFile(t, dbs["main"].URL, broker.Addrs...)
	text := "sources:\n  - " + sourceLine("orders", dbs["orders"].URL) + "\n  - " + sourceLine("billing", dbs["billing"].URL) + "\n"
	if err := os.WriteFile(file.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := file.load()
	if err != nil {
		t.Fatal(err)
	}
	run(t, Options{Config: c})
	for _, name := range []string{"main", "orders", "billing"} { // refused for its headers
		pgtest.Exec(t, conns[name], `insert into postrider.outbox_event (topic, headers) values ($1, '{"postrider-x": "y"}')`, name+".a")
	}
	pgtest.WaitFor(t, conns["main"], `select count(*) = 3 from postrider.dlq_entry`)
	got := map[string]string{}
	for _, r := range broker.ReadAll(t, "postrider.dlq", 3) {
		source, desk := "main", ""
		for _, h := range r.Headers {
			switch h.Key {
			case message.HeaderSource:
				source = string(h.Value)
			case message.HeaderDesk:
				desk = string(h.Value)
			}
		}
		got[source] = desk
	}
	if got["main"] != desk || got["orders"] != desk || got["billing"] != "" || len(got) != 3 {
		t.Errorf("the letters name the desks %v, want %s for main and orders", got, desk)
	}

	other := newFleetFile(t, dbs["other"].URL, broker.Addrs...)
	if err := os.WriteFile(other.path, []byte("dlq: {group: other}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = other.load()
	if err != nil {
		t.Fatal(err)
	}
	run(t, Options{Config: c, Roles: []Role{Collector}})
	client := broker.Admin(t)
	eventually(t, "all letters are read", func() (bool, string) {
		offsets, err := client.FetchOffsets(t.Context(), "other")
		if err != nil {
			return false, err.Error()
		}
		o, there := offsets.Lookup("postrider.dlq", 0)
		return there && o.At == 3, ""
	})
	if all := pgtest.Column[string](t, conns["other"], `select source from postrider.dlq_entry`); !slices.Equal(all, []string{"billing"}) {
		t.Errorf("the other desk has investigations of %q", all)
	}
}

// TestASourceOfAnotherDesk is carried, and said by name as long as it obeys the other one.
func TestASourceOfAnotherDesk(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t)
	broker.CreateTopic(t, "orders.a", 1, nil)
	desk, _ := newSource(t)
	orders, conn := newSource(t)
	pgtest.Exec(t, conn, `update postrider.outbox_source set desk = 'south'`)
	file := newFleetFile(t, desk.URL, broker.Addrs...)
	file.write(t, sourceLine("orders", orders.URL))
	var log logtest.Buffer
	a := file.run(t, &log)
	waitStates(t, a, map[string]SourceState{"orders": SourceLeading})
	enqueue(t, conn, outbox.Message{Topic: "orders.a", Payload: []byte("x")})
	broker.ReadAll(t, "orders.a", 1)
	const line = "\npostrider_source_other_desk{source=\"orders\"} 1\n"
	if _, metrics := get(t, a, "/metrics"); !strings.Contains(metrics, line) {
		t.Error("the metrics do not say it")
	}
	if !strings.Contains(log.String(), `"desk":"south"`) {
		t.Error("the log does not name the desk")
	}
	pgtest.Exec(t, conn, `update postrider.outbox_source set desk = null`)
	eventually(t, "it is said no more when it was handed over", func() (bool, string) {
		_, metrics := get(t, a, "/metrics")
		return !strings.Contains(metrics, line), metrics
	})
}
