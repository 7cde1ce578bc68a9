package relaytest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
	"github.com/postrider/postrider/relay/postgres"
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
		r.until(time.Minute, `exists (select from postrider.outbox_event where id = 2 and state = 'dead_lettered')`)
		for {
			err := store.Redrive(t.Context(), 2)
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
	r.until(time.Minute, `exists (select from postrider.outbox_hold where cause = 'halted' and next_probe_at = 'infinity')`)
	write("k", "5")
	write("other", "a", "b")
	r.until(time.Minute, `(select count(*) from postrider.outbox_event where key = 'other' and state = 'published') = 2`)
	r.until(time.Minute, `(select count(*) from postrider.outbox_event where key = 'k' and state = 'parked') = 3`)
	if got := r.valuesOf(topic, "k", 3); got != "1" {
		t.Errorf("of the halted key %s arrived", got)
	}
	redrive()
	r.until(time.Minute, `exists (select from postrider.outbox_event where id = 2 and state = 'dead_lettered' and episode = 2)`)
	letters := r.broker.ReadAll(t, dlq, 2)
	for i, rec := range letters {
		if header(rec, outbox.HeaderEpisode) != fmt.Sprint(i+1) || header(rec, outbox.HeaderOutboxID) != "2" ||
			header(rec, outbox.HeaderErrorCode) != "MESSAGE_TOO_LARGE" || string(rec.Key) != "k" || len(rec.Value) != topicLimit+2 {
			t.Errorf("letter %d is of episode %s of event %s: %s, %d bytes", i, header(rec, outbox.HeaderEpisode), header(rec, outbox.HeaderOutboxID),
				header(rec, outbox.HeaderErrorCode), len(rec.Value))
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
	r.until(time.Minute, drained)
	r.until(time.Minute, `not exists (select from postrider.outbox_hold)`)
	if got := r.valuesOf(topic, "k", 7); got != "1 2 3 4 5" {
		t.Errorf("the key arrived as %s", got)
	}
	if n := len(r.broker.ReadAll(t, dlq, 0)); n != 2 {
		t.Errorf("%d dead letters, want 2", n)
	}
}

// TestStorm: every event of a topic is refused. Ten become dead letters, the rest wait behind a hold;
// another topic does not notice. Released too early, few more are given up. When the fault is mended and the
// hold released, all that is left arrives, in order.
func TestStorm(t *testing.T) {
	t.Parallel()
	const bound, keys, rounds = 10, 60, 20
	r := newRig(t)
	good, bad, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	fault := r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: bad, Err: kerr.InvalidRecord, Count: -1})
	store := postgres.NewStore(r.pool, postgres.StoreOptions{})
	names := besideKeys(bad, "any", keys) // in one shard, so that all come back together
	write := func(from, to int) {
		r.exec(`insert into postrider.outbox_event (topic, key, payload)
			select t, convert_to(k, 'UTF8'), convert_to(n::text, 'UTF8') from generate_series($1::int, $2) n, unnest($3::text[]) k, unnest($4::text[]) t order by n`,
			from, to-1, names, []string{good, bad})
	}
	givenUp := func() (n int) {
		t.Helper()
		if err := r.pool.QueryRow(t.Context(), `select count(*) from postrider.outbox_event where state in ('exhausted', 'dead_lettered')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const allWait = `not exists (select from postrider.outbox_event where topic = $1 and state not in ('parked', 'dead_lettered'))
		and exists (select from postrider.outbox_hold where topic = $1 and scope = 'topic' and cause = 'storm' and not draining)`
	release := func() (hold int64) {
		t.Helper()
		if err := r.pool.QueryRow(t.Context(), `select hold_id from postrider.outbox_hold where topic = $1 and cause = 'storm'`, bad).Scan(&hold); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Release(t.Context(), hold); err != nil || got.Cause != relay.CauseStorm || !got.Draining {
			t.Fatalf("release: %+v, %v", got, err)
		}
		return hold
	}
	write(0, rounds)
	r.startWith(dlq, options{topic: func(s *relay.TopicSettings) { s.StormEvents, s.StormWindow = bound, time.Hour }})
	r.until(time.Minute, allWait, bad)
	first := givenUp()
	if first < bound || first > 2*bound {
		t.Errorf("%d events were given up before the topic was held, want about %d", first, bound)
	}
	write(rounds, 2*rounds)
	r.until(time.Minute, `(select count(*) from postrider.outbox_event where topic = $1 and state = 'published') = $2`, good, keys*rounds*2)
	r.until(time.Minute, allWait, bad)
	if n := givenUp(); n != first {
		t.Errorf("%d events were given up while the topic was held", n-first)
	}

	// More come back than in one turn, so the hold is still there when the first ones are refused. If it has
	// ended by then, there is another one.
	hold := release()
	r.until(time.Minute, `exists (select from postrider.outbox_hold where topic = $1 and cause = 'storm' and (probes > 1 or hold_id <> $2))`, bad, hold)
	r.until(time.Minute, allWait, bad)
	second := givenUp() - first
	t.Logf("given up before the topic was held: %d; after the release that came too early: %d of %d", first, second, keys*rounds*2)
	if second > bound {
		t.Errorf("%d of %d events were given up after a release that came too early", second, keys*rounds*2)
	}

	fault.Remove()
	release()
	r.until(time.Minute, drained)
	r.until(time.Minute, `not exists (select from postrider.outbox_hold)`)
	if n := givenUp(); n != first+second {
		t.Errorf("%d events were given up when nothing was wrong", n-first-second)
	}
	if n := len(r.broker.ReadAll(t, dlq, first+second)); n != first+second {
		t.Errorf("%d dead letters, want %d", n, first+second)
	}
	last := map[string]int{}
	arrived := r.broker.ReadAll(t, bad, keys*rounds*2-first-second)
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
	if len(arrived) != keys*rounds*2-first-second {
		t.Errorf("%d events arrived, want %d", len(arrived), keys*rounds*2-first-second)
	}
}
