package relaytest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/message"
)

// ledger writes plain events, knows what it wrote, and judges what arrived.
type ledger struct {
	*rig
	mu        sync.Mutex
	committed map[string]history.Event
	next      map[string]int64
	topics    []string
}

func (r *rig) newLedger(topics ...string) *ledger {
	return &ledger{rig: r, committed: map[string]history.Event{}, next: map[string]int64{}, topics: topics}
}

// write commits n events of each of the first keys of a topic. Their payloads name them.
func (l *ledger) write(topic string, keys, n int) {
	l.Helper()
	l.writePadded(topic, keys, n, 0)
}

// writePadded writes events whose payloads have so many bytes more.
func (l *ledger) writePadded(topic string, keys, n, padding int) {
	l.Helper()
	if err := l.insert(l.Context(), topic, keys, n, padding); err != nil {
		l.Fatalf("write to the outbox: %v", err)
	}
}

// insert writes in one statement, so that its error means that nothing was written.
func (l *ledger) insert(ctx context.Context, topic string, keys, n, padding int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ks, ps [][]byte
	var events []history.Event
	for i := range n {
		for k := range keys {
			subject := fmt.Sprintf("%s/k%d", topic, k)
			seq := l.next[subject] + int64(i) + 1
			e := history.Event{ID: fmt.Sprintf("%s/%06d", subject, seq), Subject: subject, Seq: seq}
			events = append(events, e)
			ks, ps = append(ks, fmt.Appendf(nil, "k%d", k)), append(ps, []byte(e.ID+"|"+strings.Repeat("x", padding)))
		}
	}
	_, err := l.pool.Exec(ctx, `insert into postrider.outbox_event (topic, key, payload)
		select $1, e.key, e.payload from unnest($2::bytea[], $3::bytea[]) with ordinality as e(key, payload, n) order by n`, topic, ks, ps)
	if err != nil {
		return err
	}
	for _, e := range events {
		l.committed[e.ID] = e
		l.next[e.Subject] = max(l.next[e.Subject], e.Seq)
	}
	return nil
}

// poison writes one event that is to be given up.
func (l *ledger) poison(topic, key string, padding int) (id string) {
	l.Helper()
	subject := topic + "/" + key
	l.next[subject]++
	e := history.Event{ID: fmt.Sprintf("%s/%06d", subject, l.next[subject]), Subject: subject, Seq: l.next[subject], Poison: true}
	l.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, []byte(key), []byte(e.ID+"|"+strings.Repeat("x", padding)))
	l.committed[e.ID] = e
	return e.ID
}

// verdict judges the topics. dlq may be empty.
func (l *ledger) verdict(dlq string) history.Verdict {
	l.Helper()
	var committed []history.Event
	for _, e := range l.committed {
		committed = append(committed, e)
	}
	var reads []history.Read
	for _, topic := range l.topics {
		for _, rec := range l.broker.ReadAll(l, topic, 0) {
			id, _, _ := strings.Cut(string(rec.Value), "|")
			reads = append(reads, history.Read{ID: id, Subject: topic + "/" + string(rec.Key), Partition: fmt.Sprintf("%s/%d", topic, rec.Partition), Offset: rec.Offset})
		}
	}
	var dead []string
	if dlq != "" {
		for _, rec := range l.broker.ReadAll(l, dlq, 0) {
			for _, h := range rec.Headers {
				if h.Key == message.HeaderEventID {
					var payload []byte
					if err := l.pool.QueryRow(l.Context(), `select payload from postrider.outbox_exception where event_id = $1 and state = 'dead_lettered'`,
						string(h.Value)).Scan(&payload); err != nil {
						l.Errorf("a dead letter without a dead-lettered row, event %s: %v", h.Value, err)
					}
					id, _, _ := strings.Cut(string(payload), "|")
					dead = append(dead, id)
				}
			}
		}
	}
	return history.Check(committed, reads, dead)
}

// wantAll checks that everything arrived, in order, and that nothing was given up but poison. It returns
// the verdict, for what only some faults may cost.
func (l *ledger) wantAll(dlq string) history.Verdict {
	l.Helper()
	v := l.verdict(dlq)
	if err := v.Err(); err != nil {
		l.Errorf("%v (%s)", err, v)
	}
	if v.Committed == 0 {
		l.Error("nothing was written")
	}
	return v
}

// wantOnce is wantAll for faults that are no excuse for a second copy.
func (l *ledger) wantOnce(dlq string) history.Verdict {
	l.Helper()
	v := l.wantAll(dlq)
	if v.Duplicates > 0 {
		l.Errorf("%d duplicates", v.Duplicates)
	}
	return v
}
