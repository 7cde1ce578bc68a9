package outbox_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

func TestIdempotencyKeyIsUsedOnceInATopic(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	for way, enqueue := range enqueuers(t, pool) {
		ids := map[string]uuid.UUID{}
		for _, m := range []outbox.Message{
			{Topic: "a", Payload: []byte("1")}, {Topic: "b", Payload: []byte("2")},
			{Topic: "a", Payload: []byte("3")}, {Topic: "b", Payload: []byte("4")},
		} {
			m.IdempotencyKey = "once " + way
			id, err := enqueue(m)
			if err != nil {
				t.Fatal(err)
			}
			if first, again := ids[m.Topic]; again && id != first {
				t.Errorf("%s, topic %s: the second call returned %v, the first %v", way, m.Topic, id, first)
			}
			ids[m.Topic] = id
		}
		if ids["a"] == ids["b"] {
			t.Errorf("%s: the topics share a key", way)
		}
	}
	var written []string
	for _, r := range rows(t, pool) {
		written = append(written, r.Topic+string(r.Payload))
	}
	if slices.Sort(written); !slices.Equal(written, []string{"a1", "a1", "b2", "b2"}) {
		t.Errorf("the outbox has %v, want the first of each topic, both ways", written)
	}
}

// TestIdempotencyOfConcurrentTransactions: of eight that come at the same time one writes, and all
// learn its id.
func TestIdempotencyOfConcurrentTransactions(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	for way, enqueue := range enqueuers(t, pool) {
		ids := make([]uuid.UUID, 8)
		errs := make([]error, len(ids))
		var start, end sync.WaitGroup
		start.Add(1)
		for n := range ids {
			end.Go(func() {
				start.Wait()
				ids[n], errs[n] = enqueue(outbox.Message{Topic: "t", IdempotencyKey: way})
			})
		}
		start.Done()
		end.Wait()
		for n := range ids {
			if errs[n] != nil || ids[n] != ids[0] {
				t.Errorf("%s: transaction %d got %v, %v; transaction 0 got %v", way, n, ids[n], errs[n], ids[0])
			}
		}
	}
	if all := rows(t, pool); len(all) != 2 {
		t.Errorf("%d events were written, want one for each key", len(all))
	}
}

// TestRolledBackIdempotencyKeyIsFree also while another transaction waits for it.
func TestRolledBackIdempotencyKeyIsFree(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	m := outbox.Message{Topic: "t", IdempotencyKey: "k"}
	first, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost, err := outbox.Enqueue(t.Context(), first, m)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	waiter := conn.Conn().PgConn().PID()
	type result struct {
		id  uuid.UUID
		err error
	}
	second := make(chan result, 1)
	go func() {
		var r result
		r.err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) (err error) {
			r.id, err = outbox.Enqueue(t.Context(), tx, m)
			return err
		})
		second <- r
	}()
	for blocked := false; !blocked; {
		if err := pool.QueryRow(t.Context(), `select cardinality(pg_blocking_pids($1)) > 0`, waiter).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-second
	if got.err != nil || got.id == lost {
		t.Errorf("the waiting transaction got %v, %v", got.id, got.err)
	}
	if all := rows(t, pool); len(all) != 1 || all[0].EventID != got.id {
		t.Errorf("the outbox has %+v", all)
	}
}

// TestIdempotencyOutlivesTheEvent: when events are removed, their idempotency keys must stay.
func TestIdempotencyOutlivesTheEvent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	enqueue := enqueuers(t, pool)["pgx"]
	first, err := enqueue(outbox.Message{Topic: "t", IdempotencyKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `delete from postrider.outbox_event`); err != nil {
		t.Fatal(err)
	}
	again, err := enqueue(outbox.Message{Topic: "t", IdempotencyKey: "k"})
	if err != nil || again != first {
		t.Errorf("got %v, %v, want %v", again, err, first)
	}
	if all := rows(t, pool); len(all) != 0 {
		t.Errorf("it was written again: %+v", all)
	}
}
