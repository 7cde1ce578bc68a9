package relaytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

func header(rec *kgo.Record, name string) string {
	for _, h := range rec.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// valuesOf are the values of a key in a topic, in order, each cut at its first space.
func (r *rig) valuesOf(topic, key string, want int) string {
	r.Helper()
	var vs []string
	for _, rec := range r.broker.ReadAll(r, topic, want) {
		if string(rec.Key) == key {
			v, _, _ := strings.Cut(string(rec.Value), " ")
			vs = append(vs, v)
		}
	}
	return strings.Join(vs, " ")
}

// TestHaltedKeyAndRedrive: an event is too large for its topic. Its dead letter arrives, its key waits, other
// keys go on. Put back too early, it comes back as the letter of another episode. When the topic takes it, it
// arrives in its place, and then the rest of its key.
func TestHaltedKeyAndRedrive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, map[string]string{"max.message.bytes": fmt.Sprint(topicLimit)}), r.broker.Topic(t, 1, nil)
	store := postgres.NewStore(r.pool, postgres.StoreOptions{})
	write := func(key string, values ...string) {
		for _, v := range values {
			r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)`, topic, []byte(key), []byte(v))
		}
	}
	redrive := func() {
		t.Helper()
		r.until(`exists (select from postrider.v_outbox_event where id = 2 and state = 'dead_lettered')`)
		for {
			err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error { return store.Redrive(t.Context(), tx, 2) })
			if err == nil {
				return
			}
			if !errors.Is(err, postgres.ErrRefused) || t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
	}
	write("k", "1", "2 "+strings.Repeat("x", topicLimit), "3", "4")
	r.startWith(dlq, options{topic: func(s *relay.TopicSettings) { s.AfterLastAttempt = relay.PolicyHaltKey }})
	r.startWith(dlq, options{topic: func(s *relay.TopicSettings) { s.AfterLastAttempt = relay.PolicyHaltKey }})
	r.until(`exists (select from postrider.outbox_hold where cause = 'halted' and next_probe_at = 'infinity')`)
	write("k", "5")
	write("other", "a", "b")
	r.until(`(select count(*) from postrider.v_outbox_event where key = 'other' and state = 'published') = 2`)
	r.until(`(select count(*) from postrider.v_outbox_event where key = 'k' and state = 'parked') = 3`)
	if got := r.valuesOf(topic, "k", 3); got != "1" {
		t.Errorf("of the halted key %s arrived", got)
	}
	redrive()
	r.until(`exists (select from postrider.v_outbox_event where id = 2 and state = 'dead_lettered' and episode = 2)`)
	letters := r.broker.ReadAll(t, dlq, 2)
	for i, rec := range letters {
		if header(rec, message.HeaderEpisode) != fmt.Sprint(i+1) || header(rec, message.HeaderOutboxID) != "2" ||
			header(rec, message.HeaderErrorCode) != "MESSAGE_TOO_LARGE" || string(rec.Key) != "k" || len(rec.Value) != topicLimit+2 {
			t.Errorf("letter %d is of episode %s of event %s: %s, %d bytes", i, header(rec, message.HeaderEpisode), header(rec, message.HeaderOutboxID),
				header(rec, message.HeaderErrorCode), len(rec.Value))
		}
	}
	if got := r.valuesOf(topic, "k", 3); got != "1" {
		t.Errorf("of the halted key %s arrived", got)
	}

	limit := "100000"
	results, err := r.broker.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, topic)
	if err != nil || results[0].Err != nil {
		t.Fatalf("raise the limit of the topic: %v, %v", err, results)
	}
	redrive()
	r.until(drained)
	r.until(`not exists (select from postrider.outbox_hold)`)
	if got := r.valuesOf(topic, "k", 7); got != "1 2 3 4 5" {
		t.Errorf("the key arrived as %s", got)
	}
	if n := len(r.broker.ReadAll(t, dlq, 0)); n != 2 {
		t.Errorf("%d dead letters, want 2", n)
	}
}

// TestRowsDeletedWhileTheyWait: the rows of two events are deleted while these wait, one for its time and one behind a hold.
// Both are given up by name, and all other events go.
func TestRowsDeletedWhileTheyWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 1, nil), r.broker.Topic(t, 1, nil)
	late := topic + "-late"
	r.start(dlq)
	r.exec(`insert into postrider.outbox_event (topic, payload, available_at) select $1, 'later', now() + interval '3 seconds' from generate_series(1, 2)`, topic)
	r.insert(late, 3, 1)
	r.until(`(select count(*) = 5 from postrider.outbox_exception where state in ('scheduled', 'parked'))`)
	r.exec(`delete from postrider.outbox_event where id in (1, 4)`)
	r.broker.CreateTopic(t, late, 1, nil)
	r.until(`(select array_agg(id order by id) = '{1,4}' from postrider.outbox_exception where state = 'dead_lettered' and last_error_code = 'EVENT_DELETED')
		and (select count(*) = 2 from postrider.outbox_exception)`)
	r.wantOnce(topic, 1)
	r.wantOnce(late, 2)
	for _, rec := range r.broker.ReadAll(t, dlq, 2) {
		if len(rec.Value) != 0 {
			t.Errorf("the letter of a deleted event has %q", rec.Value)
		}
	}
}

// TestGivingUpIsExact: while a circuit breaker's events are given up, later events go on to fail in the same way. The later
// events are kept, as they would have been before.
func TestGivingUpIsExact(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bad, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: bad, Err: kerr.InvalidRecord, Count: -1})
	e := r.startWith(dlq, options{engine: func(c *relay.Config) { c.BatchSize, c.PublishTimeout = 50, time.Minute },
		topic: func(s *relay.TopicSettings) { s.BreakerEvents, s.BreakerWindow = 10, time.Hour }})
	r.insert(bad, 500, 500)
	r.until(`(select count(*) = 490 from postrider.outbox_exception where state = 'parked')`)
	failing, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for failing.Err() == nil {
			// All of them have to fail before the test ends: no more are written than the relay takes.
			if _, err := r.pool.Exec(t.Context(), `insert into postrider.outbox_event (topic, payload) select $1, 'later' from generate_series(1, 20)
				where (select max(id) from postrider.outbox_event) < (select position + 200 from postrider.outbox_progress)`, bad); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	failed := func() float64 { return e.metric(t, "postrider_outbox_failed_total", "error_code", "INVALID_RECORD") }
	r.untilTrue("more fail", func() bool { return failed() > 600 })
	r.exec(`select postrider.outbox_give_up((select hold_id from postrider.outbox_hold where scope = 'failure'))`)
	r.until(`(select count(*) = 500 from postrider.outbox_exception where state in ('exhausted', 'dead_lettered') and id <= 500)
		and exists (select from postrider.outbox_hold where asked is null and not draining)`)
	last := pgtest.Value[int64](t, r.pool, `select max(id) from postrider.outbox_exception where state in ('exhausted', 'dead_lettered')`)
	before := failed()
	r.untilTrue("more fail, and are kept", func() bool { return failed() > before+200 })
	stop()
	wg.Wait()
	r.until(`(select position = (select max(id) from postrider.outbox_event) from postrider.outbox_progress)`)
	r.until(`(select max(id) = $1 from postrider.outbox_exception where state in ('exhausted', 'dead_lettered'))
		and (select count(*) = (select max(id) from postrider.outbox_event) - $1 from postrider.outbox_exception where id > $1 and state = 'parked')`, last)
}

// TestBreaker: every event of a topic is refused. Ten become dead letters, the rest wait behind the circuit breaker; another
// topic does not notice. Released too early each is tried once more, and none is given up. When the fault is mended and
// the breaker released, all that is left arrives, in order.
func TestBreaker(t *testing.T) {
	t.Parallel()
	const bound, keys, rounds = 10, 60, 10
	r := newRig(t)
	good, bad, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	fault := r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: bad, Err: kerr.InvalidRecord, Count: -1})
	store := postgres.NewStore(r.pool, postgres.StoreOptions{})
	write := func(from, to int) {
		r.exec(`insert into postrider.outbox_event (topic, key, payload)
			select t, convert_to('k' || k, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series($1::int, $2) n, generate_series(1, $3::int) k, unnest($4::text[]) t order by n`,
			from, to-1, keys, []string{good, bad})
	}
	givenUp := func() int {
		t.Helper()
		return pgtest.Value[int](t, r.pool, `select count(*) from postrider.outbox_exception where state in ('exhausted', 'dead_lettered')`)
	}
	// All of the topic that was not given up is behind its breaker, which rests.
	const allWait = `exists (select from postrider.outbox_hold h where h.topic = $1 and h.scope = 'failure' and h.cause = 'circuit_breaker' and not h.draining and h.asked is null
			and $2 = (select count(*) from postrider.outbox_exception x where x.hold_id = h.hold_id and x.sending_since is null))
		and (select count(*) from postrider.outbox_exception x where x.topic = $1 and x.state = 'dead_lettered') = $3
		and not exists (select from postrider.outbox_hold where topic = $1 and scope <> 'failure')`
	release := func() {
		t.Helper()
		hold := pgtest.Value[int64](t, r.pool, `select hold_id from postrider.outbox_hold where topic = $1 and cause = 'circuit_breaker'`, bad)
		if got := r.release(store, hold); got.Cause != relay.CauseBreaker || !got.Draining {
			t.Fatalf("release: %+v", got)
		}
	}
	write(0, rounds)
	e := r.startWith(dlq, options{topic: func(s *relay.TopicSettings) { s.BreakerEvents, s.BreakerWindow = bound, time.Hour }})
	r.until(allWait, bad, keys*rounds-bound, bound)
	write(rounds, 2*rounds)
	const waiting = 2*keys*rounds - bound
	r.until(gone, good)
	r.until(allWait, bad, waiting, bound)
	before := e.metric(t, "postrider_outbox_failed_total", "error_code", "INVALID_RECORD")
	release()
	r.until(allWait, bad, waiting, bound)
	if n := e.metric(t, "postrider_outbox_failed_total", "error_code", "INVALID_RECORD") - before; n != waiting {
		t.Errorf("%v of %d events were tried once more after a release that came too early", n, waiting)
	}
	if n := givenUp(); n != bound {
		t.Errorf("%d events were given up, want %d", n, bound)
	}

	fault.Remove()
	release()
	r.until(drained)
	r.until(`not exists (select from postrider.outbox_hold)`)
	if n := givenUp(); n != bound {
		t.Errorf("%d events were given up when nothing was wrong", n-bound)
	}
	if n := len(r.broker.ReadAll(t, dlq, bound)); n != bound {
		t.Errorf("%d dead letters, want %d", n, bound)
	}
	last := map[string]int{}
	arrived := r.broker.ReadAll(t, bad, waiting)
	for _, rec := range arrived {
		var n int
		if _, err := fmt.Sscan(string(rec.Value), &n); err != nil {
			t.Fatal(err)
		}
		if n < last[string(rec.Key)] {
			t.Errorf("%d of %s arrived after %d", n, rec.Key, last[string(rec.Key)])
		}
		last[string(rec.Key)] = n
	}
	if len(arrived) != waiting {
		t.Errorf("%d events arrived, want %d", len(arrived), waiting)
	}
}
