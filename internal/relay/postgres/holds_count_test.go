package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// Many holds of one kind hide none of another, and each kind is counted up to the limit.
func TestCountHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	topics := map[[2]string]string{{"key", "retry"}: "t", {"key", "halted"}: "h", {"topic", "infrastructure"}: "a", {"topic", "route"}: "b",
		{"dead_letter", "route"}: "d", {"partition", "infrastructure"}: "p", {"failure", "circuit_breaker"}: "s"}
	codes := map[[2]string]string{{"topic", "route"}: "UNKNOWN_TOPIC_OR_PARTITION", {"failure", "circuit_breaker"}: "TOO_LARGE"}
	count := func(limit int) map[[2]string]relay.HoldCount {
		got, err := f.store.CountHolds(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		out := map[[2]string]relay.HoldCount{}
		for _, c := range got {
			name := [2]string{string(c.Scope), string(c.Cause)}
			if _, twice := out[name]; twice || c.Topic != topics[name] || c.Code != codes[name] {
				t.Errorf("%v: topic %q, code %q", name, c.Topic, c.Code)
			}
			out[name] = c
		}
		return out
	}
	if got := count(10); len(got) != 0 {
		t.Errorf("without holds: %v", got)
	}
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at, held_at)
		select 'key', 't', convert_to(n::text, 'UTF8'), 'retry', now() + n * interval '1 ms', now() - interval '1 minute' from generate_series(1, 300) n`)
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at, held_at)
		select 'key', 'h', convert_to(n::text, 'UTF8'), 'halted', 'infinity', now() - n * interval '1 hour' from generate_series(1, 3) n`)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, error_code, next_probe_at) values ('topic', 'a', 'infrastructure', null, now() + interval '1 day'),
		('topic', 'b', 'route', 'UNKNOWN_TOPIC_OR_PARTITION', now()), ('dead_letter', 'd', 'route', null, now() - interval '1 second')`)
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, code, error_code, next_probe_at) values ('failure', 's', 'circuit_breaker', 'TOO_LARGE', 'OTHER', now() + interval '1 day')`)
	f.exec(`insert into postrider.outbox_hold (scope, topic, partition, partitions, cause, next_probe_at) values ('partition', 'p', 1, 3, 'infrastructure', now())`)
	for _, c := range []struct {
		limit, retries int64
	}{{1000, 300}, {100, 100 - 1}} { // the dead-letter topic is due before the keys
		got := count(int(c.limit))
		for name, want := range map[[2]string]int64{{"key", "retry"}: c.retries, {"key", "halted"}: 3, {"topic", "infrastructure"}: 1, {"topic", "route"}: 1,
			{"dead_letter", "route"}: 1, {"partition", "infrastructure"}: 1, {"failure", "circuit_breaker"}: 1} {
			// Topics and partitions that are due take places of the others.
			if n := got[name].Holds; n > want || n < want-3 || n == 0 {
				t.Errorf("limit %d: %v: %d holds, want %d", c.limit, name, n, want)
			}
		}
		if len(got) != 7 {
			t.Errorf("limit %d: %v", c.limit, got)
		}
		if oldest := got[[2]string{"key", "halted"}].Oldest; oldest < 3*time.Hour || oldest > 3*time.Hour+10*time.Minute {
			t.Errorf("the oldest halted key is %v old, want 3h", oldest)
		}
	}
}

// TestHoldsPageByPage: each page begins behind the last hold of the one before, also when that has ended, and when many
// began at the same time.
func TestHoldsPageByPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at, held_at)
		select 'key', 't' || n % 2, convert_to(n::text, 'UTF8'), 'halted', 'infinity', '2026-01-01T00:00:00.123456Z'::timestamptz + n / 6 * interval '1 second' from generate_series(1, 23) n`)
	for _, filter := range []HoldFilter{{}, {Topic: "t1"}, {Cause: relay.CauseHalted}} {
		all, err := f.store.Holds(t.Context(), filter)
		f.done(err)
		var paged []int64
		for filter.Limit = 4; ; {
			page, err := f.store.Holds(t.Context(), filter)
			f.done(err)
			for _, h := range page {
				paged = append(paged, h.ID)
				filter.After = &HoldPlace{HeldAt: h.HeldAt, ID: h.ID}
			}
			if len(page) < filter.Limit {
				break
			}
		}
		var want []int64
		for _, h := range all {
			want = append(want, h.ID)
		}
		if len(want) < 11 || !slices.Equal(paged, want) {
			t.Errorf("%+v: %v, want %v", filter, paged, want)
		}
	}
	holds, err := f.store.Holds(t.Context(), HoldFilter{Limit: 3})
	f.done(err)
	f.exec(`delete from postrider.outbox_hold where hold_id <= 3`)
	if next, err := f.store.Holds(t.Context(), HoldFilter{Limit: 1, After: &HoldPlace{HeldAt: holds[2].HeldAt, ID: holds[2].ID}}); err != nil || len(next) != 1 || next[0].ID != holds[2].ID+1 {
		t.Errorf("%+v, %v", next, err)
	}
}
