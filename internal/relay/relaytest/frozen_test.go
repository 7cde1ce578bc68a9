package relaytest

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// TestFrozenBrokersUnderLoad: writers go on all the while that the network to the brokers is frozen again and again, for
// longer than the relay waits for an answer and for less, and then goes on or is reset. What was on its way arrives
// before what was written later.
func TestFrozenBrokersUnderLoad(t *testing.T) {
	t.Parallel()
	r, w := newRig(t), newWire(t)
	topics, dlq := []string{r.broker.Topic(t, 3, nil), r.broker.Topic(t, 3, nil)}, r.broker.Topic(t, 1, nil)
	l := r.newLedger(topics...)
	for range 2 {
		r.startWith(dlq, options{kafka: w.use, engine: func(c *relay.Config) { c.BatchSize = 100 }})
	}
	// The further the relay is behind, the slower the writers are: on a machine with little time it would not catch up.
	pause := func() time.Duration {
		var behind int64
		// An error leaves it 0: the writers' next statement fails as well, and says why.
		_ = r.pool.QueryRow(r.Context(), `select (select coalesce(max(id), 0) from postrider.outbox_event) - position from postrider.outbox_progress`).Scan(&behind)
		return min(20*time.Millisecond*time.Duration(1+behind/100), time.Second)
	}
	for round := range 6 {
		writing := make(chan struct{})
		written := make(chan error, 1)
		go func() {
			for {
				for _, topic := range topics {
					if err := l.insert(t.Context(), topic, 50, 1, 0); err != nil {
						written <- err
						return
					}
				}
				select {
				case <-writing:
					written <- nil
					return
				case <-time.After(pause()):
				}
			}
		}()
		position := `(select position from postrider.outbox_progress) > coalesce((select max(id) from postrider.outbox_event), 0) - 2000`
		r.until(position)
		w.freeze("", true)
		r.until(`pg_sleep($1) is not null`, []float64{0.4, 0.8, 1.6, 3}[round%4])
		if round%2 == 0 {
			w.setDown(true)
			w.setDown(false)
		}
		w.freeze("", false)
		r.until(position)
		close(writing)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		r.until(drained)
	}
	l.wantAll(dlq)
}
