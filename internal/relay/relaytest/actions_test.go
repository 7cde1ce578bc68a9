package relaytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// insert writes n events of some keys, and returns nothing: their payloads are 0 to n-1.
func (r *rig) insert(topic string, n, keys int) {
	r.Helper()
	r.exec(`insert into postrider.outbox_event (topic, key, payload)
		select $1, convert_to('k' || n % $3, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series(0, $2 - 1) n`, topic, n, keys)
}

// wantOnce checks that a topic has so many records, each event once.
func (r *rig) wantOnce(topic string, n int) {
	r.Helper()
	records := r.broker.ReadAll(r, topic, n)
	seen := map[string]bool{}
	for _, rec := range records {
		seen[eventID(rec)] = true
	}
	if len(records) != n || len(seen) != n {
		r.Errorf("topic %s has %d records of %d events, want %d of each", topic, len(records), len(seen), n)
	}
}

func eventID(rec *kgo.Record) string {
	for _, h := range rec.Headers {
		if h.Key == message.HeaderEventID {
			return string(h.Value)
		}
	}
	return ""
}

func (r *rig) action(name string, result relay.ActionResult, err error) relay.ActionResult {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", name, err)
	}
	if result.DurationMS <= 0 || result.BatchSize != 200 || string(result.Action) != name {
		r.Errorf("%s: %+v", name, result)
	}
	result.Action, result.BatchSize, result.DurationMS = "", 0, 0
	return result
}

func (r *rig) pending(engine *relay.Relay, limit int) relay.ActionResult {
	r.Helper()
	got, err := engine.ProcessPending(r.Context(), relay.ActionOptions{Limit: limit})
	return r.action("processPending", got, err)
}

func (r *rig) retries(engine *relay.Relay, limit int) relay.ActionResult {
	r.Helper()
	got, err := engine.ProcessRetries(r.Context(), relay.ActionOptions{Limit: limit})
	return r.action("processRetries", got, err)
}

func (r *rig) want(what string, got, want relay.ActionResult) {
	r.Helper()
	if got != want {
		r.Errorf("%s: %+v, want %+v\n%s", what, got, want, r.states())
	}
}

func TestProcessPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	engine, finish := r.engine(dlq)
	defer finish()
	r.want("an empty outbox", r.pending(engine, 0), relay.ActionResult{})
	r.insert(topic, 1000, 100)
	r.want("with a limit of 1", r.pending(engine, 1), relay.ActionResult{Processed: 1, Succeeded: 1})
	r.want("with a limit of 250", r.pending(engine, 250), relay.ActionResult{Processed: 250, Succeeded: 250})
	r.want("without a limit", r.pending(engine, 0), relay.ActionResult{Processed: 749, Succeeded: 749})
	r.wantOnce(topic, 1000)
	r.exec(`insert into postrider.outbox_event (topic, payload, available_at) values ($1, 'later', now() + interval '1 hour')`, topic)
	r.exec(`insert into postrider.outbox_event (topic, payload) values ($1, repeat('x', 30000)::bytea)`, topic)
	r.exec(`insert into postrider.outbox_event (topic, payload) values ('missing', '')`)
	got := r.pending(engine, 0)
	r.want("a delayed one, one that is too large and one of a missing topic", got,
		relay.ActionResult{Processed: 3, Scheduled: 1, Failed: 1, Exhausted: 1, DeadLettered: 1, Parked: 1})
	r.wantOnce(dlq, 1)
	// However slow the test is, the missing topic's probe is not due.
	r.exec(`update postrider.outbox_hold set next_probe_at = now() + interval '1 hour'`)
	r.want("nothing is due any more", r.pending(engine, 0), relay.ActionResult{})
	if _, err := engine.ProcessPending(t.Context(), relay.ActionOptions{Limit: -1}); err == nil || !strings.Contains(err.Error(), "the limit is -1") {
		t.Errorf("a limit of -1: %v", err)
	}
}

func TestProcessRetries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	engine, _, finish := r.engineWith(dlq, options{engine: func(c *relay.Config) { c.PublishTimeout = time.Minute }})
	defer finish()
	late := topic + "-late"
	r.insert(late, 300, 300) // few of each key, or some come in turns
	r.exec(`insert into postrider.outbox_event (topic, payload, available_at) select $1, 'later', now() + interval '1 hour' from generate_series(1, 10)`, topic)
	first := r.pending(engine, 0)
	r.want("a missing topic and delayed events", first, relay.ActionResult{Processed: 310, Parked: 300, Scheduled: 10})
	// However slow the test is, the missing topic is probed only when the test says so.
	r.exec(`update postrider.outbox_hold set next_probe_at = now() + interval '1 hour'`)
	r.insert(topic, 5, 5)
	r.want("nothing is to be tried again", r.retries(engine, 0), relay.ActionResult{})
	r.exec(`update postrider.outbox_exception set next_attempt_at = now() where state = 'scheduled'`)
	got := r.retries(engine, 7)
	r.want("delayed events that are due, up to a limit", got, relay.ActionResult{Processed: 7, Succeeded: 7, Returned: 7})
	r.want("the rest is due or pending", r.pending(engine, 0), relay.ActionResult{Processed: 8, Succeeded: 8, Returned: 3})
	r.wantOnce(topic, 15)
	// The topic is still missing: one probe, and an end.
	r.exec(`update postrider.outbox_hold set next_probe_at = now()`)
	got = r.retries(engine, 0)
	if got.Returned < 1 || got.Succeeded != 0 || got.Parked != got.Processed || got.Processed != got.Returned {
		t.Errorf("a topic that is missing: %+v", got)
	}
	r.broker.CreateTopic(t, late, 2, nil)
	r.exec(`update postrider.outbox_hold set next_probe_at = now()`)
	got = r.retries(engine, 0)
	for deadline := time.Now().Add(3 * time.Minute); got.Succeeded == 0 && time.Now().Before(deadline); {
		// The client may not have heard of the topic yet.
		r.exec(`update postrider.outbox_hold set next_probe_at = now()`)
		got = r.retries(engine, 0)
	}
	r.want("the topic is there", got, relay.ActionResult{Processed: 300, Succeeded: 300, Returned: 300})
	r.wantOnce(late, 300)
	r.until(`not exists (select from postrider.outbox_hold)`)
}

// Actions beside a relay that runs, and beside each other, send nothing twice. The actions have the log first, and the
// relay then takes it from them.
func TestActionsBesideARelay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 3, nil), r.broker.Topic(t, 1, nil)
	engine, finish := r.engine(dlq)
	defer finish()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var processed, elsewhere atomic.Int64
	for _, do := range []func(context.Context, relay.ActionOptions) (relay.ActionResult, error){engine.ProcessPending, engine.ProcessRetries, engine.ProcessPending} {
		wg.Go(func() {
			for ctx.Err() == nil {
				got, err := do(ctx, relay.ActionOptions{})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				processed.Add(int64(got.Processed))
				if got.Elsewhere {
					elsewhere.Add(1)
				}
				time.Sleep(10 * time.Millisecond) // a standby looks five times a second
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := engine.Cleanup(ctx, relay.CleanupOptions{DryRun: true}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	insert := func(n int) {
		r.insert(topic, 100, 7)
		r.exec(`insert into postrider.outbox_event (topic, key, payload, available_at) values ($1, 'd', $2, now() + interval '50 milliseconds')`, topic, fmt.Appendf(nil, "d%d", n))
	}
	insert(0)
	r.untilTrue("the actions processed", func() bool { return processed.Load() > 0 })
	e := r.start(dlq)
	for n := 1; n < 20; n++ {
		insert(n)
	}
	r.untilMetric(e, "postrider_outbox_leading", 1)
	before := elsewhere.Load()
	r.untilTrue("the actions find the relay leading", func() bool { return elsewhere.Load() > before })
	insert(20)
	r.until(drained)
	stop()
	wg.Wait()
	r.wantOnce(topic, 21*101)
}

func TestActionsEndWhenNoBrokerAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	engine, finish := r.engine(dlq)
	defer finish()
	r.insert(topic, 10, 10)
	r.broker.Cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.Cluster.KeepControl()
		return nil, errors.New("away"), true
	})
	got, err := engine.ProcessPending(t.Context(), relay.ActionOptions{})
	if !errors.Is(err, relay.ErrNoBrokers) || got.Succeeded != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	r.until(`(select count(*) = 10 from postrider.v_outbox_event where state = 'pending' and attempts = 0)`)
}

// What an action and a running relay have sent, a cleanup removes.
func TestCleanup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	engine, _, finish := r.engineWith(dlq, options{engine: func(c *relay.Config) { c.PublishTimeout = time.Minute }}) // nothing is late here
	defer finish()
	r.insert(topic, 2500, 10)
	if got := r.pending(engine, 0); got.Succeeded != 2500 {
		t.Fatalf("%+v", got)
	}
	r.exec(`select postrider.outbox_publish($1, 'k', '1', idempotency_key => 'key')`, topic)
	clean := func(o relay.CleanupOptions, want relay.CleanupResult) {
		t.Helper()
		got, err := engine.Cleanup(t.Context(), o)
		got.DurationMS = 0
		want.Action, want.DryRun = relay.ActionCleanup, o.DryRun
		if err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	clean(relay.CleanupOptions{}, relay.CleanupResult{})
	r.exec(`update postrider.outbox_receipt set at = at - interval '31 days'`)
	r.exec(`update postrider.outbox_idempotency_key set created_at = created_at - interval '31 days'`)
	for range 2 {
		clean(relay.CleanupOptions{DryRun: true}, relay.CleanupResult{Published: 2500, IdempotencyKeys: 1})
	}
	clean(relay.CleanupOptions{}, relay.CleanupResult{Published: 2500, IdempotencyKeys: 1})
	clean(relay.CleanupOptions{}, relay.CleanupResult{})
	r.until(`(select count(*) = 1 from postrider.v_outbox_event where state = 'pending')`)
}

// A running relay purges by itself the events that are old enough, and shows what waits.
func TestRelayPurges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	r.insert(topic, 3000, 10)
	engine, finish := r.engine(dlq)
	defer finish()
	r.pending(engine, 0)
	r.exec(`update postrider.outbox_receipt set at = at - interval '31 days'`)
	r.insert(topic, 100, 10)
	r.start(dlq)
	r.until(`(select count(*) = 100 from postrider.outbox_event) and ` + drained)
	r.wantOnce(topic, 3100)
}
