package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// Many holds of one kind hide none of another, and each kind is counted up to the limit.
func TestCountHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	count := func(limit int) map[[2]string]relay.HoldCount {
		got, err := f.store.CountHolds(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		out := map[[2]string]relay.HoldCount{}
		for _, c := range got {
			out[[2]string{string(c.Scope), string(c.Cause)}] = c
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
	f.exec(`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 'a', 'storm', now() + interval '1 day'),
		('topic', 'b', 'route', now()), ('dead_letter', 'd', 'route', now() - interval '1 second')`)
	f.exec(`insert into postrider.outbox_hold (scope, topic, partition, partitions, cause, next_probe_at) values ('partition', 'p', 1, 3, 'infrastructure', now())`)
	for _, c := range []struct {
		limit, retries int64
	}{{1000, 300}, {100, 100 - 1}} { // the dead-letter topic is due before the keys
		got := count(int(c.limit))
		for name, want := range map[[2]string]int64{{"key", "retry"}: c.retries, {"key", "halted"}: 3, {"topic", "storm"}: 1, {"topic", "route"}: 1,
			{"dead_letter", "route"}: 1, {"partition", "infrastructure"}: 1} {
			// Topics and partitions that are due take places of the others.
			if n := got[name].Holds; n > want || n < want-3 || n == 0 {
				t.Errorf("limit %d: %v: %d holds, want %d", c.limit, name, n, want)
			}
		}
		if len(got) != 6 {
			t.Errorf("limit %d: %v", c.limit, got)
		}
		if oldest := got[[2]string{"key", "halted"}].Oldest; oldest < 3*time.Hour || oldest > 3*time.Hour+10*time.Minute {
			t.Errorf("the oldest halted key is %v old, want 3h", oldest)
		}
	}
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		plan := explain(f, "count_holds", "100", mode)
		if !strings.Contains(plan, "using outbox_hold_topics") || strings.Count(plan, "using outbox_hold_probe") != 2 || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s: holds are not found by their indexes:\n%s", mode, plan)
		}
	}
}
