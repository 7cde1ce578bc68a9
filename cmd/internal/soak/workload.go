package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/testenv/history"
)

// Workload writes events the way services do: business row and event in one transaction, the
// aggregate's row lock serialising the writers of a key.
type Workload struct {
	// Pool is the database. Required.
	Pool *pgxpool.Pool
	// Topics are written to in turn. Required.
	Topics []string
	// Keys is the number of keys. Required.
	Keys int
	// Rate is how many events a second to aim for; 0 is as fast as it goes.
	Rate int
	// PerTransaction is how many events an ordinary transaction writes. Defaults to 1.
	PerTransaction int
	// Writers is the number of concurrent writers. Defaults to 16.
	Writers int
	// PoisonEvery makes every so many-th event larger than the broker takes; 0 is never.
	PoisonEvery int
	// PoisonBytes is the payload of poison. Defaults to 1,200,000, over the default max.message.bytes of Kafka.
	PoisonBytes int
	// Limits are the topics with a max.message.bytes of their own: poison there passes the client and is
	// refused by the broker. Defaults to none.
	Limits map[string]int
	// Heard takes what became of each event as its writer heard it, and makes the writers go on after
	// errors. It is called by several at once. Defaults to nothing, and the first error ends Run.
	Heard func(history.Write)
	// Seed makes the choices repeatable.
	Seed uint64

	Written, RolledBack, Poison atomic.Int64
}

// PayloadBytes is the size of an ordinary payload.
const PayloadBytes = 300

// refusedPause is how long a writer waits after its transaction failed.
const refusedPause = 20 * time.Millisecond

// poisonBytes is over the default max.message.bytes of Kafka.
const poisonBytes = 1_200_000

const workloadSchema = `
create schema soak;
create table soak.aggregate (key int primary key, n bigint not null default 0);
create table soak.written (id text primary key, subject text not null, seq bigint not null, poison boolean not null,
	at timestamptz not null default clock_timestamp());`

// One statement, so that a writer of one event makes one round trip. The event is written "from a":
// after the aggregate's row lock was taken, so the insertion order is the order of n.
const writeEvent = `
with a as (update soak.aggregate set n = n + 1 where key = $1 returning n),
     w as (insert into soak.written (id, subject, seq, poison) select $2, $3, a.n, $7 from a)
select postrider.outbox_publish_bytes($4::text, $5::bytea, $6::bytea) from a`

// Prepare creates the tables of the workload.
func (w *Workload) Prepare(ctx context.Context) error {
	if _, err := w.Pool.Exec(ctx, workloadSchema); err != nil {
		return fmt.Errorf("create the soak schema: %w", err)
	}
	_, err := w.Pool.Exec(ctx, `insert into soak.aggregate (key) select generate_series(0, $1 - 1)`, w.Keys)
	return err
}

// Run writes until ctx ends, and returns the first error that is not about ctx.
func (w *Workload) Run(ctx context.Context) error {
	if w.Writers == 0 {
		w.Writers = 16
	}
	var wg sync.WaitGroup
	errs := make(chan error, w.Writers)
	for n := range w.Writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(w.Seed, uint64(n)))
			if err := w.write(ctx, rng); err != nil && ctx.Err() == nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func (w *Workload) write(ctx context.Context, rng *rand.Rand) error {
	start, written := time.Now(), 0
	for ctx.Err() == nil {
		if w.Rate > 0 {
			// Ahead of the rate: wait. Behind: catch up.
			due := start.Add(time.Duration(float64(written) / float64(w.Rate) * float64(w.Writers) * float64(time.Second)))
			if loop.Sleep(ctx, time.Until(due)) != nil {
				return nil
			}
		}
		n, err := w.transaction(ctx, rng)
		switch {
		case err == nil:
			written += n
		case w.Heard == nil:
			return err
		default:
			// The rate is kept, and what was missed meanwhile is not caught up.
			start, written = time.Now().Add(refusedPause), 0
		}
	}
	return nil
}

// transaction writes PerTransaction events, or now and then a few more, and rolls some of them back.
func (w *Workload) transaction(ctx context.Context, rng *rand.Rand) (int, error) {
	events := max(1, w.PerTransaction)
	if rng.IntN(10) == 0 {
		events += 1 + rng.IntN(3)
	}
	rollback := rng.IntN(20) == 0
	b := &pgx.Batch{}
	b.Queue("begin")
	// Sorted by rising key, so that two writers never wait for each other.
	key := rng.IntN(w.Keys)
	ids := make([]string, 0, events)
	for range events {
		ids = append(ids, w.queue(b, rng, key))
		key = min(key+1, w.Keys-1)
	}
	if rollback {
		b.Queue("rollback")
	} else {
		b.Queue("commit")
	}
	// The commit is finished even when the run ends just now, so that nothing is left unknown.
	err := w.Pool.SendBatch(context.WithoutCancel(ctx), b).Close()
	if w.Heard != nil {
		result, now := resultOf(err), time.Now()
		if rollback {
			result = history.Fail
		}
		for _, id := range ids {
			w.Heard(history.Write{ID: id, Result: result, At: now})
		}
	}
	if err != nil {
		return 0, fmt.Errorf("write events: %w", err)
	}
	if rollback {
		w.RolledBack.Add(int64(events))
		return 0, nil
	}
	w.Written.Add(int64(events))
	return events, nil
}

// resultOf says what the answer to a transaction means. Only a transaction that the server refused while it
// went on serving, or that was never sent, is known to have failed: a session that is being ended may have
// committed just before.
func resultOf(err error) history.Result {
	var refused *pgconn.PgError
	var unreached *pgconn.ConnectError
	switch {
	case err == nil:
		return history.OK
	case errors.As(err, &unreached), errors.As(err, &refused) && refused.Severity == "ERROR":
		return history.Fail
	}
	return history.Unknown
}

// queue adds one event to a transaction and returns its id.
func (w *Workload) queue(b *pgx.Batch, rng *rand.Rand, key int) string {
	id := uuid.NewString()
	topic := w.Topics[key%len(w.Topics)]
	size, poison := PayloadBytes, w.PoisonEvery > 0 && rng.IntN(w.PoisonEvery) == 0
	if poison {
		size = cmp.Or(w.PoisonBytes, poisonBytes)
		if limit := w.Limits[topic]; limit > 0 && rng.IntN(2) == 0 {
			size = limit
		}
		w.Poison.Add(1)
	}
	payload := make([]byte, size)
	copy(payload, id)
	kafkaKey, subject := []byte(fmt.Sprintf("key-%d", key)), fmt.Sprintf("%s/key-%d", topic, key)
	if rng.IntN(20) == 0 {
		kafkaKey, subject = nil, ""
	}
	b.Queue(writeEvent, key, id, subject, topic, kafkaKey, payload, poison)
	return id
}
