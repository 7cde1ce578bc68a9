package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestTextsWithoutAnIndex(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "q": true, "5x": true, "NL": true, "abc": false, "503": false, "a1b": false, "ab cd": true, "ab cde": false, "=> ": true,
		"%%%%": true, "a_b": true, "süß": false, "超时": true, "超时了": false, "(NL) 12": true, " the": false,
	} {
		if got := unindexed(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// matching are the investigations that a search asks for, by a plain query.
func matching(t *testing.T, r *redriving, q dlq.Search) []uuid.UUID {
	t.Helper()
	way := map[bool]string{false: "desc", true: "asc"}[q.Ascending]
	return pgtest.Column[uuid.UUID](t, r.subject.pool, `select e.dlq_entry_uuid from postrider.dlq_entry e where e.error_message ilike $1 and ($2 = '' or e.resolution_status::text = $2)
		and ($3::uuid is null or e.dlq_group_uuid = $3) and ($4::timestamptz is null or e.created_at >= $4)
		order by e.`+string(cmp.Or(q.OrderBy, dlq.ByCreated))+` `+way+`, e.dlq_entry_uuid `+way,
		pattern(q.Filter.Message), string(q.Filter.Status), nullUUID(q.Filter.Group), nullTime(q.Filter.From))
}

// TestATextThatNoIndexHasIsLookedForPartByPart: no page takes longer than looking at so many, each says whether there
// may be more, and all pages together have everything.
func TestATextThatNoIndexHasIsLookedForPartByPart(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r) // 4,000 investigations; the older half has "ll", and of the newer half the 400th
	d := r.people()
	const skim = 700
	d.bounds = bounds{walk: 50, pairs: 100, merge: 10_000, exactly: 500, skim: skim}
	now := time.Now()
	for name, c := range map[string]struct {
		search     dlq.Search
		incomplete int // pages that say so
		exact      bool
	}{
		"in the old ones":      {dlq.Search{Filter: dlq.Filter{Message: "LL", Limit: 400}}, 3, false},
		"the oldest first":     {dlq.Search{Filter: dlq.Filter{Message: "ll", Limit: 400}, Ascending: true}, 2, false},
		"in none":              {dlq.Search{Filter: dlq.Filter{Message: "qx"}}, 5, false},
		"pending":              {dlq.Search{Filter: dlq.Filter{Message: "ll", Status: dlq.Pending, Limit: 900}}, 5, false},
		"in all":               {dlq.Search{Filter: dlq.Filter{Message: "e", Limit: 600}}, 0, false},
		"by the last change":   {dlq.Search{Filter: dlq.Filter{Message: "qx"}, OrderBy: dlq.ByUpdated}, 5, false},
		"in a time with few":   {dlq.Search{Filter: dlq.Filter{Message: "ll", From: now.Add(-32 * 24 * time.Hour)}}, 0, true},
		"in a group with few":  {dlq.Search{Filter: dlq.Filter{Message: "07", Group: groupNamed(t, r, "w:1")}}, 0, true},
		"in no group":          {dlq.Search{Filter: dlq.Filter{Message: "ll", Group: uuid.New()}}, 0, true},
		"in a group with many": {dlq.Search{Filter: dlq.Filter{Message: "qx", Group: groupNamed(t, r, "w:0")}}, 5, false},
		"in a topic of none":   {dlq.Search{Filter: dlq.Filter{Message: "ll", Topic: "none"}}, 0, true},
	} {
		want := matching(t, r, c.search)
		if c.search.Filter.Topic != "" {
			want = nil
		}
		d := *d
		if name == "in a group with few" || name == "in a group with many" {
			d.bounds.exactly = 1000 // the first of these groups has 667, the other one 2,000
		}
		var got []uuid.UUID
		incomplete := 0
		q := c.search
		for first := true; ; first = false {
			page, err := d.Find(t.Context(), q)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, column(page.Entries, func(e dlq.Entry) uuid.UUID { return e.UUID })...)
			if first && (page.TotalExact != c.exact || c.exact && int(page.Total) != len(want)) {
				t.Errorf("%s: %d in all, exactly: %v; want %d, %v", name, page.Total, page.TotalExact, len(want), c.exact)
			}
			if page.Incomplete {
				incomplete++
				if page.Next == "" {
					t.Fatalf("%s: an incomplete page is the last", name)
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %d, want %d", name, len(got), len(want))
		}
		if incomplete != c.incomplete {
			t.Errorf("%s: %d incomplete pages, want %d", name, incomplete, c.incomplete)
		}
	}
	// A page by its number is right as far as it goes, and says that it goes no further.
	page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Message: "ll", Offset: 500, Limit: 25}, Ascending: true})
	if err != nil || page.Incomplete || len(page.Entries) != 25 {
		t.Errorf("behind 500: %d, incomplete: %v, %v", len(page.Entries), page.Incomplete, err)
	}
	page, err = d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Message: "ll", Offset: 800, Limit: 25}, Ascending: true})
	if err != nil || !page.Incomplete || page.Next == "" || len(page.Entries) != 0 {
		t.Errorf("behind 800: %d, incomplete: %v, %v", len(page.Entries), page.Incomplete, err)
	}
}

// groupNamed returns the group with a fingerprint.
func groupNamed(t *testing.T, r *redriving, fingerprint string) uuid.UUID {
	t.Helper()
	return pgtest.Value[uuid.UUID](t, r.subject.pool, `select dlq_group_uuid from postrider.dlq_group where fingerprint = $1`, fingerprint)
}

// TestAPurgeIsAboutAllThatHasTheText: it cannot go on after a page that is not complete, as a search can.
func TestAPurgeIsAboutAllThatHasTheText(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r)
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set error_message = 'refused by qx' where dlq_entry_uuid in (
		select dlq_entry_uuid from postrider.dlq_entry order by created_at offset 2500 limit 3)`) // far from either end
	d := r.people()
	d.bounds = bounds{walk: 50, pairs: 100, merge: 10_000, exactly: 500, skim: 100}
	done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Minute), Filter: dlq.Filter{Message: "QX"}, Limit: 1000, Actor: "ada"})
	if err != nil || done.Entries != 3 {
		t.Errorf("purged %d, %v", done.Entries, err)
	}
	if left := pgtest.Value[int](t, r.subject.pool, `select count(*) from postrider.dlq_entry`); left != 3997 {
		t.Errorf("%d are left", left)
	}
}

// TestManyGroupsAreMergedByTheirFirst compares pages of many groups with a plain query.
func TestManyGroupsAreMergedByTheirFirst(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	mustExec(t, r.subject.pool, `
		insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, topic, first_seen_at, last_seen_at)
		select 'm:' || g, 1, '{}', 'x', 'orders', now(), now() from generate_series(1, 60) g`)
	mustExec(t, r.subject.pool, `
		insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, dlq_group_uuid, topic, created_at)
		select 'event', gen_random_uuid(), 'failed', 'max_retries_exceeded', now(), now(), '{}', g.dlq_group_uuid, 'orders',
			'2026-03-01'::timestamptz + abs(hashtext(n::text)) % 50 * interval '1 minute' -- times repeat, so that the order needs the ids
		from generate_series(1, 300) n join postrider.dlq_group g on g.fingerprint = 'm:' || 1 + abs(hashtext('g' || n)) % 60`)
	d := r.people()
	for _, ascending := range []bool{false, true} {
		way := map[bool]string{false: "desc", true: "asc"}[ascending]
		for _, f := range []dlq.Filter{{Limit: 3}, {Limit: 10, Offset: 4}, {Limit: 40}, {Limit: 7, From: time.Date(2026, 3, 1, 0, 10, 0, 0, time.UTC)}} {
			want := pgtest.Column[uuid.UUID](t, r.subject.pool, `select dlq_entry_uuid from postrider.dlq_entry where ($1::timestamptz is null or created_at >= $1)
				order by created_at `+way+`, dlq_entry_uuid `+way+` offset $2`, nullTime(f.From), f.Offset)
			f.Topic = "orders"
			q := dlq.Search{Filter: f, Ascending: ascending}
			what := fmt.Sprintf("%+v", q)
			for len(want) > 0 {
				page, err := d.Find(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if got := column(page.Entries, func(e dlq.Entry) uuid.UUID { return e.UUID }); !slices.Equal(got, want[:min(f.Limit, len(want))]) {
					t.Fatalf("%s: with %d to come: %v, want %v", what, len(want), got, want[:min(f.Limit, len(want))])
				}
				want = want[len(page.Entries):]
				q.WithoutTotal = true // each later page would search the first one again, only for its total
				if q.After, q.Filter.Offset = page.Next, 0; (q.After == "") != (len(want) == 0) {
					t.Fatalf("%s: next is %q with %d to come", what, q.After, len(want))
				}
			}
		}
	}
}
