package relaytest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// writerRuns is how many programs of writers are tried, against one relay at work.
const writerRuns = 25

// TestFault25Writers makes up transactions of writers: inserts, COPY, savepoints that are rolled back,
// ids that are drawn and not used, transactions that are rolled back. What was committed arrives, in the
// order of insertion per key, once; nothing else does.
func TestFault25Writers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dlq := r.broker.Topic(t, 1, nil)
	r.start(dlq)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; runs > writerRuns {
			return
		}
		topic := r.broker.Topic(t, 2, nil)
		want := map[string][]string{}
		n := 0
		event := func() (key, value string) {
			n++
			return fmt.Sprintf("k%d", rapid.IntRange(0, 2).Draw(rt, "key")), fmt.Sprint(n)
		}
		for range rapid.IntRange(1, 4).Draw(rt, "transactions") {
			pending := map[string][]string{}
			err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
				for range rapid.IntRange(1, 6).Draw(rt, "steps") {
					if err := writerStep(t, rt, tx, topic, event, pending); err != nil {
						return err
					}
				}
				if rapid.IntRange(0, 3).Draw(rt, "roll back") == 0 {
					pending = nil
					return errRollback
				}
				return nil
			})
			if err != nil && err != errRollback {
				rt.Fatalf("write: %v", err)
			}
			for key, values := range pending {
				want[key] = append(want[key], values...)
			}
		}
		r.until(gone, topic)
		got := map[string][]string{}
		for _, rec := range r.broker.ReadAll(t, topic, 0) {
			got[string(rec.Key)] = append(got[string(rec.Key)], string(rec.Value))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Errorf("the topic has %v, want %v", got, want)
		}
	})
}

// writerStep does one thing in a transaction, and notes what it leaves there.
func writerStep(t *testing.T, rt *rapid.T, tx pgx.Tx, topic string, event func() (string, string), pending map[string][]string) error {
	ctx := t.Context()
	insert := func(tx pgx.Tx, keep bool) error {
		key, value := event()
		if keep {
			pending[key] = append(pending[key], value)
		}
		_, err := tx.Exec(ctx, `insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, []byte(key), []byte(value))
		return err
	}
	switch rapid.SampledFrom([]string{"insert", "function", "copy", "rolled-back savepoint", "kept savepoint", "unused ids"}).Draw(rt, "step") {
	case "insert":
		return insert(tx, true)
	case "function":
		key, value := event()
		pending[key] = append(pending[key], value)
		_, err := tx.Exec(ctx, `select postrider.outbox_publish_bytes($1, $2::text, $3::bytea)`, topic, key, []byte(value))
		return err
	case "copy":
		var rows [][]any
		for range rapid.IntRange(1, 5).Draw(rt, "rows") {
			key, value := event()
			pending[key] = append(pending[key], value)
			rows = append(rows, []any{topic, []byte(key), []byte(value)})
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"postrider", "outbox_event"}, []string{"topic", "key", "payload"}, pgx.CopyFromRows(rows))
		return err
	case "rolled-back savepoint":
		err := pgx.BeginFunc(ctx, tx, func(sub pgx.Tx) error {
			if err := insert(sub, false); err != nil {
				return err
			}
			return errRollback
		})
		if err != errRollback {
			return fmt.Errorf("savepoint: %w", err)
		}
		return nil
	case "kept savepoint":
		return pgx.BeginFunc(ctx, tx, func(sub pgx.Tx) error { return insert(sub, true) })
	default:
		_, err := tx.Exec(ctx, `select nextval(pg_get_serial_sequence('postrider.outbox_event', 'id')) from generate_series(1, $1)`, rapid.IntRange(1, 3000).Draw(rt, "ids"))
		return err
	}
}

// TestFault25ConcurrentWritersOfOneKey: writers that do not serialise on the key, and sessions that draw
// ids in blocks. Then it is undefined which event came first, and the promise is the order of ids. Each event
// arrives, once, and the events of one transaction stay in order.
func TestFault25ConcurrentWritersOfOneKey(t *testing.T) {
	t.Parallel()
	for name, cache := range map[string]int{"ids one by one": 1, "ids in blocks": 50} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
			r.exec(fmt.Sprintf(`alter table postrider.outbox_event alter column id set cache %d`, cache))
			r.start(dlq)
			const writers, transactions, each = 6, 20, 3
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for n := range transactions {
						err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
							for i := range each {
								if _, err := tx.Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload) values ($1, 'k', $2)`,
									topic, fmt.Appendf(nil, "%d/%d/%d", w, n, i)); err != nil {
									return err
								}
							}
							return nil
						})
						if err != nil {
							t.Errorf("write: %v", err)
						}
					}
				})
			}
			wg.Wait()
			r.until(drained)
			next := map[string]int{}
			records := r.broker.ReadAll(t, topic, writers*transactions*each)
			for _, rec := range records {
				at := strings.LastIndexByte(string(rec.Value), '/')
				transaction := string(rec.Value[:at])
				if want := fmt.Sprint(next[transaction]); string(rec.Value[at+1:]) != want {
					t.Errorf("%s comes where %s of its transaction was to come", rec.Value, want)
				}
				next[transaction]++
			}
			if len(records) != writers*transactions*each || len(next) != writers*transactions {
				t.Errorf("%d records of %d transactions", len(records), len(next))
			}
		})
	}
}
