package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// row is what stands in outbox_event.
type row struct {
	ID          int64
	EventID     uuid.UUID
	Topic       string
	Key         []byte
	Payload     []byte
	Headers     []byte
	AvailableIn time.Duration
	Task        *uuid.UUID
	Idempotency *string
}

func rows(t *testing.T, pool *pgxpool.Pool) []row {
	t.Helper()
	got, err := pool.Query(t.Context(), `
		select id, event_id, topic, key, payload, headers,
		       (extract(epoch from coalesce(available_at, created_at) - created_at) * 1e9)::bigint, task_uuid, idempotency_key
		from postrider.outbox_event order by id`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(got, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// enqueuers are the two ways to enqueue, each in a transaction of its own that is committed.
func enqueuers(t *testing.T, pool *pgxpool.Pool) map[string]func(outbox.Message) (uuid.UUID, error) {
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return map[string]func(outbox.Message) (uuid.UUID, error){
		"pgx": func(m outbox.Message) (id uuid.UUID, err error) {
			err = pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
				id, err = outbox.Enqueue(context.Background(), tx, m)
				return err
			})
			return id, err
		},
		"database/sql": func(m outbox.Message) (uuid.UUID, error) {
			tx, err := db.BeginTx(context.Background(), nil)
			if err != nil {
				return uuid.Nil, err
			}
			id, err := outbox.EnqueueSQL(context.Background(), tx, m)
			if err != nil {
				return uuid.Nil, errors.Join(err, tx.Rollback())
			}
			return id, tx.Commit()
		},
	}
}

func TestEnqueueWritesWhatItIsGiven(t *testing.T) {
	t.Parallel()
	task := uuid.New()
	for name, c := range map[string]struct {
		m            outbox.Message
		key, payload string
		headers      string
	}{
		"tombstone without a key": {outbox.Message{}, "null", "null", "[]"},
		"empty is not null":       {outbox.Message{Key: []byte{}, Payload: []byte{}}, `""`, `""`, "[]"},
		"any bytes": {outbox.Message{Key: []byte{0, 255}, Payload: []byte("\x00\xff'\\"),
			Headers: []message.Header{{Name: "b", Value: []byte{0, 255}}, {Name: "a"}, {Name: "b", Value: []byte("ü")}}},
			`"\x00\xff"`, `"\x00\xff'\\"`, `[["b", {"base64": "AP8="}], ["a", null], ["b", "ü"]]`},
		"everything": {outbox.Message{Key: []byte("k"), Payload: []byte("p"), IdempotencyKey: "once", TaskUUID: task,
			AvailableAt: time.Now().Add(time.Hour)}, `"k"`, `"p"`, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t)
			for way, enqueue := range enqueuers(t, pool) {
				m := c.m
				m.Topic = "orders"
				if m.IdempotencyKey != "" {
					m.IdempotencyKey += way
				}
				id, err := enqueue(m)
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				all := rows(t, pool)
				got := all[len(all)-1]
				if got.EventID != id || got.Topic != "orders" {
					t.Errorf("%s: returned %s and wrote %+v", way, id, got)
				}
				if k, p := literal(got.Key), literal(got.Payload); k != c.key || p != c.payload || string(got.Headers) != c.headers {
					t.Errorf("%s: key %s, payload %s, headers %s", way, k, p, got.Headers)
				}
				switch delay := got.AvailableIn.Round(time.Minute); {
				case m.AvailableAt.IsZero() && delay != 0, !m.AvailableAt.IsZero() && delay != time.Hour:
					t.Errorf("%s: available in %v", way, delay)
				}
				if (got.Task == nil) != (m.TaskUUID == uuid.Nil) || got.Task != nil && *got.Task != task {
					t.Errorf("%s: task %v", way, got.Task)
				}
				if (got.Idempotency == nil) != (m.IdempotencyKey == "") || got.Idempotency != nil && *got.Idempotency != m.IdempotencyKey {
					t.Errorf("%s: idempotency key %v", way, got.Idempotency)
				}
			}
		})
	}
}

func literal(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func TestEnqueuedAndRolledBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Enqueue(t.Context(), tx, outbox.Message{Topic: "orders"}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, pool); len(got) != 0 {
		t.Errorf("a rolled-back event is there: %+v", got)
	}
}

// TestEnqueueRefuses: a message that can be refused without the database is, and the caller's transaction goes on.
func TestEnqueueRefuses(t *testing.T) {
	t.Parallel()
	tx, sqlTx := transactions(t, pgtest.New(t).Pool(t))
	header := func(name string) []message.Header { return []message.Header{{Name: "fine"}, {Name: name}} }
	for mention, m := range map[string]outbox.Message{
		`topic ""`:                     {},
		`topic "a b"`:                  {Topic: "a b"},
		`topic "__x"`:                  {Topic: "__x"},
		"empty name":                   {Topic: "t", Headers: header("")},
		`"a\r\nb"`:                     {Topic: "t", Headers: header("a\r\nb")},
		`"\x7f"`:                       {Topic: "t", Headers: header("\x7f")},
		`"\x00"`:                       {Topic: "t", Headers: header("\x00")},
		`header "postrider-hops"`:      {Topic: "t", Headers: header("postrider-hops")},
		`header "postrider-event-id"`:  {Topic: "t", Headers: header("postrider-event-id")},
		`header "PostRider-x"`:         {Topic: "t", Headers: header("PostRider-x")},
		"idempotency key is 513 bytes": {Topic: "t", IdempotencyKey: strings.Repeat("ü", 256) + "x"},
		"idempotency key is not UTF-8": {Topic: "t", IdempotencyKey: "a\xff"},
		"idempotency key contains NUL": {Topic: "t", IdempotencyKey: "a\x00"},
		"the payload for topic \"t\" is 17825792 bytes, the limit of the database is 16777216": {Topic: "t", Payload: make([]byte, 17<<20)},
	} {
		_, err := outbox.Enqueue(t.Context(), tx, m)
		_, sqlErr := outbox.EnqueueSQL(t.Context(), sqlTx, m)
		for _, err := range []error{err, sqlErr} {
			if !errors.Is(err, message.ErrInvalid) || !strings.Contains(err.Error(), mention) {
				t.Errorf("Enqueue() = %v, want ErrInvalid and a mention of %q", err, mention)
			}
		}
	}
	large := outbox.Message{Topic: "t", Payload: make([]byte, 2<<20)}
	if _, err := outbox.Enqueue(t.Context(), tx, large); err != nil {
		t.Errorf("2 MiB are within the limit: %v", err)
	}
	fine := outbox.Message{Topic: "t", IdempotencyKey: strings.Repeat("ü", 256)}
	if _, err := outbox.Enqueue(t.Context(), tx, fine); err != nil {
		t.Errorf("the transaction did not survive: %v", err)
	}
	if err := errors.Join(tx.Commit(t.Context()), sqlTx.Rollback()); err != nil {
		t.Error(err)
	}
}

func TestEnqueueReportsWhatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	if _, err := pool.Exec(t.Context(), `select postrider.outbox_set_max_payload_bytes(3)`); err != nil {
		t.Fatal(err)
	}
	for way, enqueue := range enqueuers(t, pool) {
		id, err := enqueue(outbox.Message{Topic: "orders", Payload: []byte("1234")})
		if err == nil || id != uuid.Nil || !strings.Contains(err.Error(), `topic "orders"`) || !strings.Contains(err.Error(), "outbox_event_payload_size") {
			t.Errorf("%s: %v, %v", way, id, err)
		}
		if _, err := enqueue(outbox.Message{Topic: "orders", Payload: []byte("123")}); err != nil {
			t.Errorf("%s: %v", way, err)
		}
	}
}

// TestEnqueueInAFailedTransaction: the error says what could not be asked, and is not about the message.
func TestEnqueueInAFailedTransaction(t *testing.T) {
	t.Parallel()
	tx, sqlTx := transactions(t, pgtest.New(t).Pool(t))
	if _, err := tx.Exec(t.Context(), `select 1/0`); err == nil {
		t.Fatal("nothing failed")
	}
	if _, err := sqlTx.ExecContext(t.Context(), `select 1/0`); err == nil {
		t.Fatal("nothing failed")
	}
	large := outbox.Message{Topic: "t", Payload: make([]byte, 2<<20)}
	_, err := outbox.Enqueue(t.Context(), tx, large)
	_, sqlErr := outbox.EnqueueSQL(t.Context(), sqlTx, large)
	for _, err := range []error{err, sqlErr} {
		if err == nil || errors.Is(err, message.ErrInvalid) || !strings.Contains(err.Error(), "ask how large a payload may be") {
			t.Errorf("Enqueue() = %v", err)
		}
	}
}

// transactions begins one of each driver. They end with the test at the latest.
func transactions(t *testing.T, pool *pgxpool.Pool) (pgx.Tx, *sql.Tx) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	sqlTx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tx.Rollback(context.Background()) // the test may have ended it
		_ = sqlTx.Rollback()
		_ = db.Close()
	})
	return tx, sqlTx
}
