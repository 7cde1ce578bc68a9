package relaytest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// TestTopicRecreatedUnderLoad: a topic is deleted and made again while writers go on, again and again. What it holds in
// the end is in order, key by key, and so is what it held before each time.
func TestTopicRecreatedUnderLoad(t *testing.T) {
	t.Parallel()
	const keys, rounds = 300, 4
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.BatchSize, c.PublishTimeout = 500, 10*time.Second }})
	writing, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		for pause := false; writing.Err() == nil; {
			// Writers that are as fast as a slow machine's relay would feed the hold for as long as it is waited for: they pause
			// when many events wait, until none does.
			var waiting int
			err := r.pool.QueryRow(t.Context(), `select (select count(*) from postrider.outbox_exception where state = 'parked')
				+ (select coalesce(max(id), 0) from postrider.outbox_event) - (select position from postrider.outbox_progress)`).Scan(&waiting)
			pause = waiting > 10*keys || pause && waiting > 0
			if err == nil && !pause {
				err = l.insert(t.Context(), topic, keys, 1, 0)
			}
			if err != nil {
				written <- err
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		written <- nil
	}()
	for range rounds {
		before := e.metric(t, "postrider_outbox_publish_total", "class", string(relay.Delivered))
		r.untilTrue("events go", func() bool {
			return e.metric(t, "postrider_outbox_publish_total", "class", string(relay.Delivered)) > before+keys
		})
		if err := r.broker.Cluster.DeleteTopic(topic); err != nil {
			t.Fatal(err)
		}
		r.broker.CreateTopic(t, topic, 3, nil)
		r.until(`exists (select from postrider.outbox_hold where topic = $1)`, topic)
		r.until(`not exists (select from postrider.outbox_hold where topic = $1)`, topic)
		last := map[string]string{}
		seen := map[string]bool{}
		wrong := 0
		for _, rec := range r.broker.ReadAll(t, topic, 0) {
			id, _, _ := strings.Cut(string(rec.Value), "|")
			if seen[id] {
				continue
			}
			seen[id] = true
			if id < last[string(rec.Key)] {
				wrong++
			}
			last[string(rec.Key)] = max(last[string(rec.Key)], id)
		}
		if wrong > 0 {
			t.Fatalf("%d of %d events came after later ones of their keys", wrong, len(seen))
		}
	}
	stop()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	r.until(drained)
}
