package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// redriveRig is an app, its database and its brokers, and a redriver beside it.
type redriveRig struct {
	*dlqpostgres.Redriver
	t      *testing.T
	db     *pgtest.DB
	pool   *pgxpool.Pool
	people *dlqpostgres.Investigations
	store  *dlqpostgres.Store
	broker *kafkatest.Broker
	topic  string
	ctx    context.Context // of ada
	config config.Config
}

func newRedriveRig(t *testing.T, b *kafkatest.Broker, topicConfigs map[string]string, change func(*config.Config)) *redriveRig {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	d, err := NewServices(pool, config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := &redriveRig{d.Redriver, t, db, pool, d.Investigations, d.Store, b, b.Topic(t, 3, topicConfigs),
		access.WithActor(t.Context(), access.Actor{Name: "ada"}), config.Config{}}
	c := settings(t, db.URL, b.Addrs...)
	c.DLQ.Topic = b.Topic(t, 2, nil)
	c.DLQ.Group = c.DLQ.Topic
	if change != nil {
		change(&c)
	}
	r.config = c
	waitReady(t, run(t, Options{Config: c, Roles: []Role{Relay, Collector, HTTP}}))
	return r
}

// operate runs an operator until the test ends.
func (r *redriveRig) operate() {
	r.t.Helper()
	o, err := dlq.NewOperator(dlq.OperatorConfig{Operations: r, ResolveDelivered: true, Interval: 100 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

func (r *redriveRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// write puts events of a key into the outbox.
func (r *redriveRig) write(key string, payloads ...string) {
	r.t.Helper()
	r.must(pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error {
		for _, p := range payloads {
			if _, err := outbox.Enqueue(r.t.Context(), tx, outbox.Message{Topic: r.topic, Key: []byte(key), Payload: []byte(p),
				Headers: []message.Header{{Name: "trace", Value: []byte("t-1")}}}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// pending returns the investigations that are open, when there are so many, newest first.
func (r *redriveRig) pending(want int) []dlq.Entry {
	r.t.Helper()
	var found []dlq.Entry
	eventually(r.t, fmt.Sprintf("%d open investigations", want), func() (bool, string) {
		page, err := r.people.Find(r.t.Context(), dlq.Search{Filter: dlq.Filter{Status: dlq.Pending, Limit: dlq.MaxLimit}})
		found = page.Entries
		return err == nil && int(page.Total) == want, fmt.Sprintf("there are %d, %v", page.Total, err)
	})
	return found
}

func (r *redriveRig) closed(id uuid.UUID, want dlq.Status) dlq.Entry {
	r.t.Helper()
	var e dlq.Entry
	eventually(r.t, "the investigation is "+string(want), func() (bool, string) {
		detail, err := r.people.Show(r.t.Context(), id)
		e = detail.Entry
		return err == nil && e.Status == want, fmt.Sprintf("it is %s, %v", e.Status, err)
	})
	return e
}

// redriveOne redrives an investigation; the relay may have its key in work.
func (r *redriveRig) redriveOne(id uuid.UUID) {
	r.t.Helper()
	eventually(r.t, "redriven", func() (bool, string) {
		done, err := r.Redrive(r.ctx, dlq.RedriveRequest{Entries: []uuid.UUID{id}, Actor: "ada"})
		r.must(err)
		if len(done.Skipped) == 1 && done.Skipped[0].Reason != dlq.Busy {
			r.t.Fatalf("%+v", done)
		}
		return len(done.Entries) == 1, fmt.Sprintf("%+v", done)
	})
}

// plan plans an operation on everything that is open, and starts it.
func (r *redriveRig) startOperation(options dlq.OperationOptions) uuid.UUID {
	r.t.Helper()
	o, err := r.PlanOperation(r.ctx, dlq.NewOperation{Kind: dlq.OpRedrive, Name: "incident " + uuid.NewString(), Actor: "ada", Scope: dlq.Scope{Filter: &dlq.Filter{}}, Options: options})
	r.must(err)
	_, err = r.Command(r.ctx, o.UUID, dlq.Start, "")
	r.must(err)
	return o.UUID
}

// patiently is eventually for what takes many steps on a machine that is busy.
func patiently(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	within(t, 3*time.Minute, what, done)
}

// ended waits for the end of an operation.
func (r *redriveRig) ended(id uuid.UUID) dlq.Operation {
	r.t.Helper()
	var o dlq.Operation
	patiently(r.t, "the operation is completed", func() (bool, string) {
		var err error
		o, err = r.Operation(r.t.Context(), id)
		r.must(err)
		return o.State == dlq.Completed, fmt.Sprintf("%+v", o)
	})
	return o
}

// dead makes n dead-lettered events of seven keys, and their investigations.
func (r *redriveRig) dead(n int) {
	r.t.Helper()
	var letters []dlq.Letter
	var ids []int64
	var events []uuid.UUID
	var keys, payloads [][]byte
	for i := range n {
		l := dlq.Decode(dlqtest.Event(i, 1))
		l.OriginTopic = r.topic
		letters = append(letters, l)
		ids, events, keys, payloads = append(ids, *l.OutboxID), append(events, l.EventID), append(keys, l.Key), append(payloads, l.Payload)
	}
	_, err := r.pool.Exec(r.t.Context(), `insert into postrider.outbox_exception (id, event_id, topic, key, payload, headers, kind, created_at, state, episode, copied, sent_at)
		select w.id, w.event_id, $5, w.key, w.payload, '{}', 'event', now(), 'dead_lettered', 1, true, now()
		from unnest($1::bigint[], $2::uuid[], $3::bytea[], $4::bytea[]) as w(id, event_id, key, payload)`, ids, events, keys, payloads, r.topic)
	r.must(err)
	_, err = r.pool.Exec(r.t.Context(), `select setval('postrider.outbox_event_id_seq', $1)`, n+1000)
	r.must(err)
	_, err = r.store.RecordLetters(r.t.Context(), letters)
	r.must(err)
}

func header(rec *kgo.Record, name string) string {
	for _, h := range rec.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// wantEach checks that so many redriven messages are in the topic, each once, and returns them.
func (r *redriveRig) wantEach(want int) []*kgo.Record {
	r.t.Helper()
	seen := map[string]int{}
	records := r.broker.ReadAll(r.t, r.topic, want)
	for _, rec := range records {
		seen[header(rec, dlq.HeaderReplayID)]++
	}
	if len(records) != want || len(seen) != want {
		r.t.Errorf("%d messages of %d redrives, want %d", len(records), len(seen), want)
	}
	for id, n := range seen {
		if n != 1 || id == "" {
			r.t.Errorf("replay %q was sent %d times", id, n)
		}
	}
	return records
}

// wantOnce is wantEach, and also checks that the messages of a key are in order.
func (r *redriveRig) wantOnce(want int) {
	r.t.Helper()
	last := map[string]int{}
	for _, rec := range r.wantEach(want) {
		var v struct{ N int }
		if err := json.Unmarshal(rec.Value, &v); err != nil {
			r.t.Fatalf("%s: %v", rec.Value, err)
		}
		if before, ok := last[string(rec.Key)]; ok && v.N <= before {
			r.t.Errorf("key %s: %d after %d", rec.Key, v.N, before)
		}
		last[string(rec.Key)] = v.N
	}
}

// operatorEnv tells this test binary to be an operator on a database, in a process that may be killed.
const operatorEnv = "APP_TEST_OPERATOR"

func init() {
	if url := os.Getenv(operatorEnv); url != "" {
		os.Exit(operatorMain(url))
	}
}

func operatorMain(url string) int {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err == nil {
		var d *Services
		if d, err = NewServices(pool, config.Config{}); err == nil {
			var o *dlq.Operator
			o, err = dlq.NewOperator(dlq.OperatorConfig{Operations: d.Redriver, ResolveDelivered: true, Interval: 100 * time.Millisecond,
				Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
			if err == nil {
				err = o.Run(ctx)
			}
		}
	}
	fmt.Fprintln(os.Stderr, "operator:", err)
	return 1
}

// startOperator runs an operator in a process of its own; kill ends it with SIGKILL.
func (r *redriveRig) startOperator() (kill func()) {
	r.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), operatorEnv+"="+r.db.URL)
	cmd.Stderr = os.Stderr
	r.must(cmd.Start())
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}
	r.t.Cleanup(kill)
	return kill
}
