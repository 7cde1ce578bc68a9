package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// various fills the store with investigations that differ in everything that is searched for, and returns them.
func various(t *testing.T, s subject, n int) []dlq.Entry {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var letters []dlq.Letter
	for i := range n {
		l := dlqtest.Letters(dlqtest.Event(i, 1))[0]
		switch random.IntN(10) {
		case 0:
			l = dlqtest.Letters(dlqtest.Task(i, 1))[0]
		case 1:
			l = dlqtest.Letters(dlq.Record{Topic: "other.dlq", Offset: int64(i)})[0]
		default:
			l.OriginTopic = []string{"orders", "payments"}[random.IntN(2)]
			l.ErrorCode = []string{"", "INVALID_RECORD", "RECORD_TOO_LARGE"}[random.IntN(3)]
			l.ErrorMessage = fmt.Sprintf("%s %d of 100%% in a_b", []string{"network timeout", "Refused by schema", "row"}[random.IntN(3)], i)
			l.Reason = []dlq.Reason{dlq.MaxRetriesExceeded, dlq.Undeliverable}[random.IntN(2)]
			if i%7 == 0 {
				l.Root = dlq.Root{Class: "x.Broken", Message: fmt.Sprint("pipe ", i), Frame: "com.acme.Pump.run(Pump.java:9)", Wraps: i%2 == 0}
			}
		}
		letters = append(letters, l)
	}
	if _, err := s.RecordLetters(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	// Times repeat, so that the order needs the ids.
	mustExec(t, s.pool, `update postrider.dlq_entry set
		created_at = '2026-03-01'::timestamptz + abs(hashtext(dlq_entry_uuid::text)) % 40 * interval '1 hour',
		updated_at = '2026-03-02'::timestamptz + abs(hashtext('u' || dlq_entry_uuid::text)) % 40 * interval '1 minute',
		assignee = case abs(hashtext('a' || dlq_entry_uuid::text)) % 10 when 0 then 'ada' when 1 then 'bob' end`)
	for i, status := range dlq.Statuses()[1:] {
		mustExec(t, s.pool, `update postrider.dlq_entry set resolution_status = $1::text::postrider.dlq_resolution_status, resolution_timestamp = now()
			where abs(hashtext('s' || dlq_entry_uuid::text)) % 6 = $2`, string(status), i)
	}
	mustExec(t, s.pool, `select postrider.dlq_recount()`) // created_at is not meant to be changed
	rows, err := s.pool.Query(t.Context(), `select dlq_entry_uuid from postrider.dlq_entry`)
	if err != nil {
		t.Fatal(err)
	}
	var all []dlq.Entry
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		all = append(all, dlq.Entry{UUID: id})
	}
	for i := range all {
		detail, err := s.investigations.Show(t.Context(), all[i].UUID)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = detail.Entry
	}
	return all
}

// fits is what a filter means.
func fits(f dlq.Filter, e dlq.Entry) bool {
	return (f.Status == "" || f.Status == e.Status) && (f.Reason == "" || f.Reason == e.Reason) &&
		(f.Subject.Type == "" || f.Subject.Type == e.Subject.Type) && (f.Subject.ID == "" || f.Subject.ID == e.Subject.ID) &&
		(f.Topic == "" || f.Topic == e.Topic) && (f.ErrorCode == "" || f.ErrorCode == e.ErrorCode) &&
		(f.Group == uuid.Nil || f.Group == e.GroupUUID) && (f.Assignee == "" || f.Assignee == e.Assignee) &&
		strings.Contains(strings.ToLower(e.ErrorMessage+" | "+e.RootCause+" | "+e.RootFrame), strings.ToLower(f.Message)) &&
		(f.From.IsZero() || !e.CreatedAt.Before(f.From)) && (f.To.IsZero() || !e.CreatedAt.After(f.To))
}

// answer is what a search means.
func answer(q dlq.Search, all []dlq.Entry) (ids []uuid.UUID) {
	var hits []dlq.Entry
	known := slices.ContainsFunc(all, func(e dlq.Entry) bool { return e.Word == strings.ToLower(q.Filter.Word) })
	if q.Filter.Word != "" && !known {
		q.Filter.Message = q.Filter.Word
	}
	for _, e := range all {
		if fits(q.Filter, e) && (q.Filter.Word == "" || !known || e.Word == strings.ToLower(q.Filter.Word)) {
			hits = append(hits, e)
		}
	}
	slices.SortFunc(hits, func(a, b dlq.Entry) int {
		order := a.CreatedAt.Compare(b.CreatedAt)
		if q.OrderBy == dlq.ByUpdated {
			order = a.UpdatedAt.Compare(b.UpdatedAt)
		}
		order = cmp.Or(order, slices.Compare(a.UUID[:], b.UUID[:]))
		if q.Ascending {
			return order
		}
		return -order
	})
	for _, e := range hits {
		ids = append(ids, e.UUID)
	}
	return ids
}

// TestSearchesFindWhatTheyMean asks many combinations of filters, orders and bounds, by pages and by cursors.
func TestSearchesFindWhatTheyMean(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	all := various(t, r.subject, 300)
	merged := all[slices.IndexFunc(all, func(e dlq.Entry) bool { return e.Topic == "orders" && e.ErrorCode != "" })].GroupUUID
	into := all[slices.IndexFunc(all, func(e dlq.Entry) bool { return e.Topic == "payments" && e.ErrorCode == "" })].GroupUUID
	if done, err := r.people().MergeGroups(t.Context(), dlq.GroupMerge{Group: merged, Into: into, Actor: "ada"}); err != nil || done.Moved == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	for i := range all {
		if e, err := r.investigations.Show(t.Context(), all[i].UUID); err != nil {
			t.Fatal(err)
		} else {
			all[i] = e.Entry
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(share int, f func(e dlq.Entry)) {
		if random.IntN(share) == 0 {
			f(all[random.IntN(len(all))])
		}
	}
	for n := range 120 {
		d := r.people()
		// Bounds so low that each way comes to its end and the next one has its turn.
		d.bounds = []bounds{usualBounds, {walk: 20, pairs: 4, merge: 60, exactly: 10, skim: 30}, {walk: 1000, pairs: 100, merge: 10_000, exactly: 30, skim: 100}, {walk: 5, pairs: 1, merge: 5, exactly: 2}}[random.IntN(4)]
		q := dlq.Search{OrderBy: []dlq.OrderBy{"", dlq.ByCreated, dlq.ByUpdated}[random.IntN(3)], Ascending: random.IntN(2) == 0}
		f := &q.Filter
		f.Limit = 1 + random.IntN(60)
		pick(3, func(e dlq.Entry) { f.Status = e.Status })
		pick(5, func(e dlq.Entry) { f.Reason = e.Reason })
		pick(6, func(e dlq.Entry) { f.Subject.Type = e.Subject.Type })
		pick(20, func(e dlq.Entry) { f.Subject.ID = e.Subject.ID })
		pick(4, func(e dlq.Entry) { f.Topic = e.Topic })
		pick(4, func(e dlq.Entry) { f.ErrorCode = e.ErrorCode })
		pick(8, func(e dlq.Entry) { f.Group = e.GroupUUID })
		pick(10, func(e dlq.Entry) { f.Assignee = e.Assignee })
		pick(3, func(e dlq.Entry) {
			f.Message = []string{"NETWORK", "refused by", "0% in a_", "1", "_", "%", `\`, e.ErrorMessage, "broken: PIPE", "acme.Pump"}[random.IntN(10)]
		})
		pick(6, func(e dlq.Entry) {
			if f.Message == "" {
				q.Filter.Word = []string{e.Word, strings.ToUpper(e.Word), "of 100%"}[random.IntN(3)]
			}
		})
		pick(4, func(e dlq.Entry) { f.From = e.CreatedAt })
		pick(4, func(e dlq.Entry) {
			if f.To = e.CreatedAt; f.To.Before(f.From) {
				f.From = time.Time{}
			}
		})
		want := answer(q, all)
		// Only a search for a text that no index has may end before its page is full.
		mayEnd := d.bounds.skim > 0 && unindexed(f.Message+q.Filter.Word) && f.Subject.ID == "" && f.Assignee == ""
		what := fmt.Sprintf("search %d: %+v with %+v", n, q, d.bounds)
		var got []uuid.UUID
		for first := true; ; first = false {
			page, err := d.Find(t.Context(), q)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for _, e := range page.Entries {
				got = append(got, e.UUID)
				if e.Snapshot != nil {
					t.Fatalf("%s: a snapshot in a list", what)
				}
			}
			if first && page.TotalExact && int(page.Total) != len(want) {
				t.Errorf("%s: total %d, want %d", what, page.Total, len(want))
			}
			if first && !page.TotalExact && len(want) <= d.bounds.exactly && f.Message == "" && q.Filter.Word == "" {
				t.Errorf("%s: %d are estimated as %d", what, len(want), page.Total)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
			if len(page.Entries) != f.Limit && !(mayEnd && page.Incomplete && len(page.Entries) < f.Limit) {
				t.Fatalf("%s: a page of %d that is not the last", what, len(page.Entries))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s:\n found %d %v\nwant %d %v", what, len(got), got, len(want), want)
		}
		f.Offset = random.IntN(len(want) + 2)
		page, err := d.Find(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		rest := want[min(f.Offset, len(want)):]
		rest = rest[:min(f.Limit, len(rest))]
		if page.Incomplete && mayEnd && page.Next != "" { // it has the first of them
			rest = rest[:min(len(page.Entries), len(rest))]
		}
		if !slices.EqualFunc(page.Entries, rest, func(e dlq.Entry, id uuid.UUID) bool { return e.UUID == id }) {
			t.Fatalf("%s: %d behind %d, want %d", what, len(page.Entries), f.Offset, len(rest))
		}
	}
}

func TestSearchesThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	now := time.Now()
	other := cursor(dlq.Search{OrderBy: dlq.ByUpdated}, found{At: now})
	for name, q := range map[string]dlq.Search{
		"status": {Filter: dlq.Filter{Status: "open"}}, "reason": {Filter: dlq.Filter{Reason: "x"}}, "order": {OrderBy: "error_message"},
		"limit": {Filter: dlq.Filter{Limit: dlq.MaxLimit + 1}}, "negative limit": {Filter: dlq.Filter{Limit: -1}},
		"offset": {Filter: dlq.Filter{Offset: dlq.MaxOffset + 1}}, "negative offset": {Filter: dlq.Filter{Offset: -1}},
		"offset and after": {After: cursor(dlq.Search{OrderBy: dlq.ByCreated}, found{At: now}), Filter: dlq.Filter{Offset: 1}},
		"times":            {Filter: dlq.Filter{From: now, To: now.Add(-time.Second)}}, "year": {Filter: dlq.Filter{From: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"NUL": {Filter: dlq.Filter{Message: "\x00"}}, "UTF-8": {Filter: dlq.Filter{Topic: "\xff"}}, "long": {Filter: dlq.Filter{Message: strings.Repeat("x", dlq.MaxFilterText+1)}},
		"no cursor": {After: "!"}, "no parts": {After: "eA"}, "another order": {After: other}, "another direction": {After: cursor(dlq.Search{OrderBy: dlq.ByCreated}, found{At: now}), Ascending: true},
		"no time": {After: "Y3JlYXRlZF9hdCBmYWxzZSB4IHg"},
	} {
		if _, err := d.Find(t.Context(), q); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	empty, err := d.Stats(t.Context())
	if err != nil || empty.Total != 0 || len(empty.ByReason) != 0 || len(empty.Reasons) != 0 || !empty.OldestPending.IsZero() || len(empty.Recent) != 0 {
		t.Errorf("%+v, %v", empty, err)
	}
	all := various(t, r.subject, 200)
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set created_at = now() - abs(hashtext(dlq_entry_uuid::text)) % 60 * interval '1 hour' - interval '7 minutes'`)
	mustExec(t, r.subject.pool, `select postrider.dlq_recount()`)
	s, err := d.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var day int64
	if err := r.subject.pool.QueryRow(t.Context(), `select count(*) from postrider.dlq_entry where created_at >= now() - interval '24 hours'`).Scan(&day); err != nil {
		t.Fatal(err)
	}
	words, codes, reasons := map[string]int64{}, map[string]int64{}, map[dlq.Reason]dlq.ReasonStats{}
	var pending int64
	for _, e := range all {
		words[e.Word]++
		c := reasons[e.Reason]
		c.Reason = e.Reason
		c.Total++
		if c.Oldest.IsZero() || e.DeadLetteredAt.Before(c.Oldest) {
			c.Oldest = e.DeadLetteredAt
		}
		if e.DeadLetteredAt.After(c.Newest) {
			c.Newest = e.DeadLetteredAt
		}
		switch e.Status {
		case dlq.Pending:
			pending++
			c.Pending++
			codes[e.ErrorCode]++
		case dlq.ManuallyResolved:
			c.ManuallyResolved++
		case dlq.PermanentlyFailed:
			c.PermanentFailures++
		case dlq.Cancelled:
			c.Cancelled++
		}
		reasons[e.Reason] = c
	}
	if s.Total != int64(len(all)) || s.Pending != pending || s.Last24h != day || fmt.Sprint(s.ByReason) != fmt.Sprint(words) ||
		fmt.Sprint(s.ByErrorCode) != fmt.Sprint(codes) || len(s.Reasons) != len(reasons) || len(s.Recent) != dlq.RecentSamples || s.OldestPending.IsZero() {
		t.Errorf("%+v\nwant %d, %d pending, %d of the day, %v, %v", s, len(all), pending, day, words, codes)
	}
	for _, got := range s.Reasons {
		want := reasons[got.Reason]
		if !got.Oldest.Equal(want.Oldest) || !got.Newest.Equal(want.Newest) {
			t.Errorf("%s: from %v to %v, want %v to %v", got.Reason, got.Oldest, got.Newest, want.Oldest, want.Newest)
		}
		want.Oldest, want.Newest = got.Oldest, got.Newest
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestWordsBeyondTheBoundAreOthers(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	var letters []dlq.Letter
	for i := range dlq.MaxWords + 20 {
		l := dlqtest.Letters(dlqtest.Event(i, 1))[0]
		l.ErrorCode = fmt.Sprint("CODE_", i)
		letters = append(letters, l)
	}
	if _, err := r.RecordLetters(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	s, err := r.people().Stats(t.Context())
	if err != nil || len(s.ByReason) != dlq.MaxWords+1 || s.ByReason[dlq.OtherWord] != 20 || s.ByErrorCode[dlq.OtherWord] != 20 {
		t.Errorf("%d words, %d others, %v", len(s.ByReason), s.ByReason[dlq.OtherWord], err)
	}
}
