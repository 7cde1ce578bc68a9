package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/examples/stage"
	"github.com/postrider/postrider/migrations/pgtest"
)

func TestMain(m *testing.M) { stage.Main(m) }

const totals = `select coalesce(string_agg(concat_ws(' ', customer, orders, cents), ', ' order by customer), '') from customer_total`

// shop writes orders into the outbox and knows what they add up to.
type shop struct {
	t      *testing.T
	pool   *pgxpool.Pool
	topic  string
	placed int
	orders map[string]int
	cents  map[string]int
}

func (s *shop) order(customer string, cents int) {
	s.t.Helper()
	s.placed++
	s.publish(fmt.Sprint("o-", s.placed), fmt.Sprintf(`{"event": "placed", "customer": "%s", "cents": %d}`, customer, cents))
	s.orders[customer]++
	s.cents[customer] += cents
}

func (s *shop) publish(key, value string) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), `select postrider.outbox_publish_bytes($1::text, $2::text, $3::bytea)`, s.topic, key, []byte(value)); err != nil {
		s.t.Fatal(err)
	}
}

// total is what the example's table must be.
func (s *shop) total(customers ...string) string {
	var all []string
	for _, c := range customers {
		all = append(all, fmt.Sprintf("%s %d %d", c, s.orders[c], s.cents[c]))
	}
	return strings.Join(all, ", ")
}

func TestOrders(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	topic := s.Broker.Topic(t, 3, nil)
	s.Serve()
	own := pgtest.NewEmpty(t)
	pool := own.Pool(t)
	program := s.Build("github.com/postrider/postrider/examples/orders")
	environment := []string{"DATABASE_URL=" + own.URL, "KAFKA_BROKERS=" + s.Brokers(), "TOPIC=" + topic, "GROUP=totals", "DLQ_TOPIC=" + s.DLQ, "RETRY_DELAYS=200ms,1s"}
	example := s.Start(program, environment)
	stage.Eventually(t, "the example's tables", pool, "true", `select (to_regclass('customer_total') is not null)::text`)
	know := func(customer string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), `insert into customer values ($1)`, customer); err != nil {
			t.Fatal(err)
		}
	}
	know("ann")
	know("bob")
	w := &shop{t: t, pool: s.Pool, topic: topic, orders: map[string]int{}, cents: map[string]int{}}

	// Orders flow, and the example is killed in the midst of them.
	for range 3 {
		for n := range 60 {
			w.order([]string{"ann", "bob"}[n%2], 100+n)
		}
		stage.Eventually(t, "some orders", pool, "true", `select (count(*) > 0)::text from customer_total`)
		example.Kill()
		example = s.Start(program, environment)
	}
	stage.Eventually(t, "all orders", pool, w.total("ann", "bob"), totals)

	// Every record comes a second time, as from a relay that lost the answers to its settlements.
	records := s.Broker.ReadAll(t, topic, w.placed)
	client := s.Broker.Client(t)
	for _, r := range records {
		client.Produce(t.Context(), &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Headers: r.Headers}, nil)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// One customer becomes known while its order waits in a retry topic, another one too late.
	w.order("carl", 700)
	w.order("dora", 900)
	stage.Eventually(t, "an order that waits", pool, "true", `select true::text`)
	know("carl")
	w.publish("broken", "no JSON")
	w.publish("free", `{"event": "placed", "customer": "ann", "cents": 0}`)

	entries := investigations(t, s, 3)
	if e := entries["UNDECODABLE"]; e.Key != "broken" {
		t.Errorf("what is no JSON became %+v", entries)
	}
	stage.Eventually(t, "all orders but dora's", pool, w.total("ann", "bob", "carl"), totals)
	s.CaughtUp("totals", topic)

	// Somebody puts the customer in and sends the message again, to this group alone, and once more by mistake.
	know("dora")
	late := entries["UNKNOWN_CUSTOMER"]
	for range 2 {
		s.Postrider("dlq", "requeue", late.UUID, "--target", "group", "--yes")
	}
	stage.Eventually(t, "all orders", pool, w.total("ann", "bob", "carl", "dora"), totals)
	stage.Eventually(t, "the investigation", s.Pool, "manually_resolved", `select resolution_status::text from postrider.dlq_entry where dlq_entry_uuid = $1::uuid`, late.UUID)

	example.Stop()
	var noted int
	if err := pool.QueryRow(t.Context(), `select count(*) from inbox_message where consumer_group = 'totals'`).Scan(&noted); err != nil || noted != w.placed {
		t.Errorf("%d messages are in the inbox, %v; want %d", noted, err, w.placed)
	}
	var got string
	if err := pool.QueryRow(t.Context(), totals).Scan(&got); err != nil || got != w.total("ann", "bob", "carl", "dora") {
		t.Errorf("totals %s, %v", got, err)
	}
}

// entry is an investigation as `postrider dlq list` shows it.
type entry struct {
	UUID      string `json:"dlq_entry_uuid"`
	Key       string `json:"key"`
	ErrorCode string `json:"error_code"`
}

// investigations waits for so many, and returns them by their error code.
func investigations(t *testing.T, s *stage.Stage, want int) map[string]entry {
	t.Helper()
	stage.Eventually(t, "investigations", s.Pool, fmt.Sprint(want), `select count(*)::text from postrider.dlq_entry`)
	var list struct{ Entries []entry }
	out := s.Postrider("dlq", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	byCode := map[string]entry{}
	for _, e := range list.Entries {
		byCode[e.ErrorCode] = e
	}
	return byCode
}

func TestSettings(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"DATABASE_URL": "postgres://x", "RETRY_DELAYS": "5s,1m"}
	s, err := settingsOf(func(name string) string { return environment[name] })
	if err != nil || s.topic != "orders" || s.retention != 720*time.Hour || len(s.delays) != 2 || s.delays[1] != time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	for name, value := range map[string]string{"DATABASE_URL": "", "RETRY_DELAYS": "5", "INBOX_RETENTION": "x"} {
		_, err := settingsOf(func(asked string) string {
			if asked == name {
				return value
			}
			return environment[asked]
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: %v", name, value, err)
		}
	}
}
