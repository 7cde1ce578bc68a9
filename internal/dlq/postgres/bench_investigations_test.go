package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// BenchmarkInvestigations asks a database with many investigations, POSTRIDER_BENCH_ENTRIES of them or 20,000, everything that
// people ask it, and says how long each kind of question takes. They are of 400 groups of very different sizes over 30
// days; two outages have a quarter of them, each within an hour.
func BenchmarkInvestigations(b *testing.B) {
	n := 20_000
	if s := os.Getenv("POSTRIDER_BENCH_ENTRIES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	pool := pgtest.New(b).Pool(b)
	began := time.Now()
	for at := 0; at < n; at += 100_000 {
		manyEntries(b, pool, at, min(at+100_000, n), n)
	}
	fmt.Printf("%d investigations written in %v\n", n, time.Since(began).Round(time.Millisecond))
	d, err := NewInvestigations(RedriverConfig{Pool: pool, Auditor: &auditor{}, Exceptions: exceptions{relaypostgres.NewStore(pool, relaypostgres.StoreOptions{})}})
	if err != nil {
		b.Fatal(err)
	}
	questions := investigationQuestions(b, d)
	took := make([][]time.Duration, len(questions))
	for i := 0; b.Loop(); i++ {
		q := i % len(questions)
		began := time.Now()
		if err := questions[q].ask(b.Context()); err != nil {
			b.Fatalf("%s: %v", questions[q].name, err)
		}
		took[q] = append(took[q], time.Since(began))
	}
	for q, all := range took {
		if slices.Sort(all); len(all) > 0 {
			fmt.Printf("%-34s p50 %8v  p95 %8v  max %8v\n", questions[q].name, all[len(all)/2].Round(10*time.Microsecond),
				all[len(all)*95/100].Round(10*time.Microsecond), all[len(all)-1].Round(10*time.Microsecond))
		}
	}
}

// manyEntries writes the investigations from a number to another, of n in all.
func manyEntries(b *testing.B, pool *pgxpool.Pool, from, to, n int) {
	for _, sql := range []string{`
		insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, topic, error_code, word, first_seen_at, last_seen_at)
		select 'bench:' || g, 1, '{}', 'CODE_' || g % 40 || ': order # refused', 'topic-' || g % 20, 'CODE_' || g % 40, 'code_' || g % 40, now(), now()
		from generate_series(0, 399) g where $1::integer + $2::integer + $3::integer > 0 on conflict do nothing`, `
		insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, dlq_group_uuid,
			topic, error_code, error_message, resolution_status, resolution_timestamp, created_at, updated_at, assignee)
		select 'event', gen_random_uuid(), 'failed', case g % 5 when 0 then 'undeliverable' else 'max_retries_exceeded' end::postrider.dlq_reason, at, at,
			jsonb_build_object('n', n, 'payload', repeat('x', 400)), x.dlq_group_uuid, x.topic, x.error_code,
			case when g < 2 then 'the wall of fire fell upon order ' else 'customer ' || n % 5000 || ' refused order ' end || n || ' at host-' || n % 17,
			case when closed then 'manually_resolved' else 'pending' end::postrider.dlq_resolution_status, case when closed then at end, at, at, case when n % 1000 = 7 then 'ada' end
		from (
			select n, case when n < $3 / 8 then 0 when n between $3 / 2 and $3 / 2 + $3 / 8 then 1 else (random() ^ 3 * 397)::integer + 2 end as g, n % 10 < 7 as closed,
				now() - interval '30 days' + case when n < $3 / 8 then n * interval '1 hour' / ($3 / 8)
					when n between $3 / 2 and $3 / 2 + $3 / 8 then interval '15 days' + (n - $3 / 2) * interval '1 hour' / ($3 / 8)
					else n * (interval '30 days' / $3) end as at
			from generate_series($1::integer, $2::integer - 1) n) s
		join postrider.dlq_group x on x.fingerprint = 'bench:' || s.g`, `
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind, payload, outbox_id, episode, origin_topic)
		select 'bench:' || dlq_entry_uuid, dlq_entry_uuid, 'postrider', 'postrider.dlq', 0, 0, 'inline', 'inline', '\x00', (snapshot->>'n')::bigint + 1, 1, topic
		from postrider.dlq_entry e where (snapshot->>'n')::integer >= $1 and (snapshot->>'n')::integer < $2 and $3::integer > 0`} {
		if _, err := pool.Exec(b.Context(), sql, from, to, n); err != nil {
			b.Fatal(err)
		}
	}
}

type question struct {
	name string
	ask  func(context.Context) error
}

// investigationQuestions are the questions of the benchmark. Random values are drawn anew each time.
func investigationQuestions(b *testing.B, d *Investigations) []question {
	now := time.Now()
	page, err := d.Find(b.Context(), dlq.Search{Filter: dlq.Filter{Limit: 1000}})
	if err != nil {
		b.Fatal(err)
	}
	groups, err := d.ListGroups(b.Context(), dlq.GroupSearch{Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	list := func(name string, make func() dlq.Search) question {
		return question{name, func(ctx context.Context) error { _, err := d.Find(ctx, make()); return err }}
	}
	filter := func(name string, f dlq.Filter) question {
		return list(name, func() dlq.Search { return dlq.Search{Filter: f} })
	}
	group := func() uuid.UUID { return groups.Groups[rand.IntN(len(groups.Groups))].UUID }
	topic := func() string { return fmt.Sprint("topic-", rand.IntN(20)) }
	wall := groups.Groups[slices.IndexFunc(groups.Groups, func(g dlq.Group) bool { return g.FirstSeenAt.Before(now) && g.Parts.ErrorCode == "CODE_0" })]
	return []question{
		filter("list", dlq.Filter{}), filter("list, page 41", dlq.Filter{Offset: 1000}), filter("list, page 4001", dlq.Filter{Offset: 100_000}),
		list("list by update, oldest first", func() dlq.Search { return dlq.Search{OrderBy: dlq.ByUpdated, Ascending: true} }),
		list("list behind a cursor", func() dlq.Search { return dlq.Search{After: page.Next} }),
		filter("pending", dlq.Filter{Status: dlq.Pending}), filter("cancelled: none", dlq.Filter{Status: dlq.Cancelled}),
		filter("reason", dlq.Filter{Reason: dlq.Undeliverable}),
		list("topic", func() dlq.Search { return dlq.Search{Filter: dlq.Filter{Topic: topic()}} }),
		list("topic, pending, by update", func() dlq.Search {
			return dlq.Search{OrderBy: dlq.ByUpdated, Filter: dlq.Filter{Topic: topic(), Status: dlq.Pending}}
		}),
		list("error code, pending", func() dlq.Search {
			return dlq.Search{Filter: dlq.Filter{ErrorCode: fmt.Sprint("CODE_", rand.IntN(40)), Status: dlq.Pending}}
		}),
		list("group, pending", func() dlq.Search { return dlq.Search{Filter: dlq.Filter{Group: group(), Status: dlq.Pending}} }),
		filter("group of an old outage", dlq.Filter{Group: wall.UUID}),
		filter("last hour", dlq.Filter{From: now.Add(-time.Hour)}), filter("last ten days, pending", dlq.Filter{From: now.Add(-240 * time.Hour), Status: dlq.Pending}),
		filter("assignee", dlq.Filter{Assignee: "ada"}), filter("message in most", dlq.Filter{Message: "refused ORDER"}),
		list("message in few", func() dlq.Search {
			return dlq.Search{Filter: dlq.Filter{Message: fmt.Sprint("customer ", 1000+rand.IntN(4000), " ref")}}
		}),
		list("message in one", func() dlq.Search {
			return dlq.Search{Filter: dlq.Filter{Message: fmt.Sprint("order ", 100_000+rand.IntN(800_000))}}
		}),
		filter("message in none", dlq.Filter{Message: "no such thing"}), filter("message of an old outage", dlq.Filter{Message: "wall of fire"}),
		filter("message in few of a topic", dlq.Filter{Message: "customer 777 ", Topic: "topic-3"}),
		{"show", func(ctx context.Context) error {
			_, err := d.Show(ctx, page.Entries[rand.IntN(len(page.Entries))].UUID)
			return err
		}},
		{"stats", func(ctx context.Context) error { _, err := d.Stats(ctx); return err }},
		{"groups", func(ctx context.Context) error { _, err := d.ListGroups(ctx, dlq.GroupSearch{}); return err }},
		{"show a group", func(ctx context.Context) error { _, err := d.ShowGroup(ctx, group()); return err }},
	}
}
