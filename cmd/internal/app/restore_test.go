package app

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// serveUntil starts an app, waits until it is ready, and returns what stops it.
func serveUntil(t *testing.T, c config.Config) (stop func()) {
	t.Helper()
	a, err := New(t.Context(), Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	waitReady(t, a)
	return stop
}

// TestAfterARestore walks what docs/restoring.md says: a database that was set back to a point in time, beside a Kafka
// that was not. What waited at that time goes out twice with the same id, what was written later is in Kafka alone, and
// its investigations come back when the collector reads again, each letter once.
func TestAfterARestore(t *testing.T) {
	t.Parallel()
	db, restored, admin := pgtest.New(t), pgtest.NewEmpty(t), pgtest.NewEmpty(t).Conn(t)
	broker := kafkatest.Kfake(t)
	for _, topic := range []string{"orders", "postrider.dlq", "postrider.lifecycle"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	// write writes good events of these numbers and one that is given up, on a connection that does not stay.
	write := func(from, to int) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), db.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload) select 'orders', 'k', n::text::bytea from generate_series($1::int, $2::int) n`, from, to); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic, key, headers) values ('orders', 'bad', '{"priority": 5}')`); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stands := func(d *pgtest.DB, published, entries, letters int) {
		t.Helper()
		waitRow(t, d.Conn(t), fmt.Sprintf("%d published, %d investigations of %d letters", published, entries, letters), fmt.Sprintf(
			`select (select count(*) from postrider.v_outbox_event where state = 'published') = %d and (select count(*) from postrider.dlq_entry) = %d and (select count(*) from postrider.dlq_letter) = %d`,
			published, entries, letters))
	}
	do := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}

	stop := serveUntil(t, settings(t, db.URL, broker.Addrs...))
	write(1, 5)
	stands(db, 5, 1, 1)
	stop()
	write(6, 8) // before the point in time, and sent after it
	do(fmt.Sprintf(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '%s'`, db.Name))
	do(fmt.Sprintf(`drop database %q with (force)`, restored.Name))
	do(fmt.Sprintf(`create database %q template %q`, restored.Name, db.Name))
	stop = serveUntil(t, settings(t, db.URL, broker.Addrs...))
	stands(db, 8, 2, 2)
	write(9, 9) // after it
	stands(db, 9, 3, 3)
	stop()

	// The letter that is given up once more is behind all others: when it is read, the group has read everything.
	stop = serveUntil(t, settings(t, restored.URL, broker.Addrs...))
	stands(restored, 8, 2, 2)
	stop()
	again := settings(t, restored.URL, broker.Addrs...)
	again.DLQ.Group = "after-the-restore"
	serveUntil(t, again)
	stands(restored, 8, 3, 3)

	conn := restored.Conn(t)
	const records = 5 + 3 + 1 + 3
	times, alone := map[string]int{}, map[string]bool{}
	for _, r := range broker.ReadAll(t, "orders", records) {
		n := string(r.Value)
		times[n]++
		for _, h := range r.Headers {
			if h.Key != "postrider-event-id" {
				continue
			}
			var there bool
			if err := conn.QueryRow(t.Context(), `select exists (select from postrider.outbox_event where event_id = $1::text::uuid and payload = $2)`, string(h.Value), r.Value).Scan(&there); err != nil {
				t.Fatal(err)
			}
			alone[n] = !there
		}
	}
	for n := 1; n <= 9; n++ {
		want := map[bool]int{true: 2, false: 1}[n >= 6 && n <= 8]
		if name := fmt.Sprint(n); times[name] != want || alone[name] != (n == 9) {
			t.Errorf("%s is %d times in the topic, want %d; in Kafka alone: %v", name, times[name], want, alone[name])
		}
	}
	if got := len(broker.ReadAll(t, "postrider.dlq", 4)); got != 4 {
		t.Errorf("%d letters are in the dead-letter topic, want 4: one of them twice", got)
	}
}
