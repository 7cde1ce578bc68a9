package relaytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// errRollback ends a transaction of the workload on purpose.
var errRollback = errors.New("rolled back")

// workload writes events as services do: beside a row of their own, whose lock serialises the key.
type workload struct {
	*rig
	topics []string
	narrow string // takes no more than topicLimit
	keys   int

	mu        sync.Mutex
	committed map[string]history.Event
	rolled    int
}

func newWorkload(r *rig, keys int, topics ...string) *workload {
	r.exec(`create table aggregate (subject text primary key, n bigint not null)`)
	return &workload{rig: r, topics: topics, keys: keys, committed: map[string]history.Event{}}
}

// burst lets several writers write some transactions each, at the same time.
func (w *workload) burst(rng *rand.Rand, writers, transactions int) {
	w.Helper()
	var wg sync.WaitGroup
	for range writers {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 1))
		wg.Go(func() {
			for range transactions {
				if err := w.transaction(rng); err != nil {
					w.Errorf("write: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func (w *workload) transaction(rng *rand.Rand) error {
	var events []history.Event
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		topic := w.topics[rng.IntN(len(w.topics))]
		// All of one key, or of none: writers with several keys would have to lock them in one order.
		key := rng.IntN(w.keys+1) - 1
		for range 1 + rng.IntN(3) {
			e, err := w.event(ctx, tx, rng, topic, key)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		if rng.IntN(30) == 0 { // its ids become visible long after later ones
			if _, err := tx.Exec(ctx, `select pg_sleep(0.7)`); err != nil {
				return err
			}
		}
		if rng.IntN(7) == 0 {
			return errRollback
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, errRollback) {
		w.rolled += len(events)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range events {
		w.committed[e.ID] = e
	}
	return nil
}

// event writes one event. Its payload begins with its id; a few are too large for the client, and a few
// for the narrow topic only. A delayed one may be overtaken, so its order is not judged.
func (w *workload) event(ctx context.Context, tx pgx.Tx, rng *rand.Rand, topic string, key int) (history.Event, error) {
	e := history.Event{ID: uuid.NewString()}
	m := outbox.Message{Topic: topic, Payload: []byte(e.ID)}
	late := rng.IntN(20) == 0
	if late {
		m.AvailableAt = time.Now().Add(time.Duration(rng.IntN(500)) * time.Millisecond)
	}
	if key >= 0 {
		m.Key = fmt.Appendf(nil, "key-%d", key)
		subject := topic + "/" + string(m.Key)
		if err := tx.QueryRow(ctx, `insert into aggregate values ($1, 1) on conflict (subject) do update set n = aggregate.n + 1 returning n`,
			subject).Scan(&e.Seq); err != nil {
			return e, err
		}
		if !late {
			e.Subject = subject
		}
	}
	switch rng.IntN(60) {
	case 0:
		m.Payload = append(m.Payload, make([]byte, maxMessageBytes)...)
		e.Poison = true
	case 1:
		m.Payload = append(m.Payload, make([]byte, topicLimit)...)
		e.Poison = topic == w.narrow
	}
	_, err := outbox.Enqueue(ctx, tx, m)
	return e, err
}

// verdict judges what became of everything, from the topics alone.
func (w *workload) verdict(dlq string) history.Verdict {
	w.Helper()
	var committed []history.Event
	for _, e := range w.committed {
		committed = append(committed, e)
	}
	var reads []history.Read
	for _, topic := range w.topics {
		for _, rec := range w.broker.ReadAll(w, topic, 0) {
			read := history.Read{ID: string(rec.Value[:36]), Partition: fmt.Sprintf("%s/%d", topic, rec.Partition), Offset: rec.Offset}
			if rec.Key != nil && w.committed[read.ID].Subject != "" {
				read.Subject = topic + "/" + string(rec.Key)
			}
			reads = append(reads, read)
		}
	}
	return history.Check(committed, reads, w.dead(dlq))
}

// dead are the ids of the events that have a dead letter. A letter may only refer to its payload: then
// the row, which must still be there, says whose it is.
func (w *workload) dead(dlq string) []string {
	w.Helper()
	var ids []string
	for _, rec := range w.broker.ReadAll(w, dlq, 0) {
		for _, h := range rec.Headers {
			if h.Key != message.HeaderEventID {
				continue
			}
			var id string
			if err := w.pool.QueryRow(w.Context(), `select convert_from(substr(payload, 1, 36), 'UTF8') from postrider.outbox_exception
				where event_id = $1 and state = 'dead_lettered'`, string(h.Value)).Scan(&id); err != nil {
				w.Errorf("a dead letter without a dead-lettered row, event %s: %v", h.Value, err)
			}
			ids = append(ids, id)
		}
	}
	return ids
}
