package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/examples/stage"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
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
	program := buildtest.Program(t, "examples/orders")
	group := "totals-" + topic[len(topic)-12:] // the broker may be others', too
	environment := []string{"DATABASE_URL=" + own.URL, "KAFKA_BROKERS=" + s.Brokers(), "TOPIC=" + topic, "GROUP=" + group, "DLQ_TOPIC=" + s.DLQ, "RETRY_DELAYS=200ms,1s"}
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
	for before := range 2 { // each death costs the group's session timeout
		for n := range 90 {
			w.order([]string{"ann", "bob"}[n%2], 100+n)
		}
		stage.Eventually(t, "some of these orders", pool, "true", `select (sum(orders) > $1)::text from customer_total`, 90*before)
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
	know("carl")
	w.publish("broken", "no JSON")
	w.publish("free", `{"event": "placed", "customer": "ann", "cents": 0}`)

	entries := investigations(t, s, 3)
	for _, code := range []string{"UNDECODABLE", "HANDLER_FAILED", "UNKNOWN_CUSTOMER"} {
		if entries[code] == "" {
			t.Errorf("no investigation has the code %s: %v", code, entries)
		}
	}
	stage.Eventually(t, "all orders but dora's", pool, w.total("ann", "bob", "carl"), totals)
	s.CaughtUp(group, topic)

	// A person puts the customer in and sends the message again, to this group alone. Copies of it change nothing.
	know("dora")
	late := entries["UNKNOWN_CUSTOMER"]
	s.Postrider("dlq", "requeue", late, "--target", "group")
	stage.Eventually(t, "all orders", pool, w.total("ann", "bob", "carl", "dora"), totals)
	retries, copies := consumer.RetryTopic(topic, group, 0), 0
	for _, r := range s.Broker.ReadAll(t, retries, 1) {
		for _, h := range r.Headers {
			if h.Key == "replay_id" {
				copied := &kgo.Record{Topic: retries, Key: r.Key, Value: r.Value, Headers: r.Headers}
				if err := client.ProduceSync(t.Context(), copied).FirstErr(); err != nil {
					t.Fatal(err)
				}
				copies++
			}
		}
	}
	if copies != 1 {
		t.Errorf("%d records of the retry topic are redriven, want 1", copies)
	}
	s.CaughtUp(group, topic, retries)
	stage.Eventually(t, "the investigation", s.Pool, "manually_resolved", `select resolution_status::text from postrider.dlq_entry where dlq_entry_uuid = $1::uuid`, late)

	example.Stop()
	var noted int
	if err := pool.QueryRow(t.Context(), `select count(*) from inbox_message where consumer_group = $1`, group).Scan(&noted); err != nil || noted != w.placed {
		t.Errorf("%d messages are in the inbox, %v; want %d", noted, err, w.placed)
	}
	var got string
	if err := pool.QueryRow(t.Context(), totals).Scan(&got); err != nil || got != w.total("ann", "bob", "carl", "dora") {
		t.Errorf("totals %s, %v", got, err)
	}
}

// investigations waits for so many, and returns them by their error code.
func investigations(t *testing.T, s *stage.Stage, want int) (byCode map[string]string) {
	t.Helper()
	stage.Eventually(t, "investigations", s.Pool, fmt.Sprint(want), `select count(*)::text from postrider.dlq_entry`)
	var list struct {
		Items []struct {
			UUID      string `json:"dlq_entry_uuid"`
			ErrorCode string `json:"error_code"`
		}
	}
	out := s.Postrider("dlq", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	byCode = map[string]string{}
	for _, e := range list.Items {
		byCode[e.ErrorCode] = e.UUID
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
