package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// TestFiltersOfLettersAreOneEverywhere: consumer group, dead-letter topic, event and reason select the same investigations
// in a list, in the scope of an operation, and in a purge; and rare ones are found by an index, whatever the statistics say.
func TestFiltersOfLettersAreOneEverywhere(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.investigations
	of := func(n int, change func(*dlq.Letter)) uuid.UUID {
		l := dlq.Decode(givenUpBy(t, "billing", int64(n), dlq.Place{}))
		change(&l)
		return r.record(l)
	}
	event := uuid.New()
	mail := of(1, func(l *dlq.Letter) { l.ConsumerGroup, l.Subject.ID = "mail", "orders/0/1 mail" })
	eu := of(2, func(l *dlq.Letter) { l.DLQTopic = "eu.dlq" })
	about := of(3, func(l *dlq.Letter) { l.EventID = event })
	word := of(4, func(l *dlq.Letter) { l.ErrorCode, l.ErrorMessage = "SOLD_OUT", "x" })
	of(5, func(l *dlq.Letter) { l.ErrorCode, l.ErrorMessage = "OTHER", "not sold_out" })
	for name, c := range map[string]struct {
		filter dlq.Filter
		want   uuid.UUID
		index  string
	}{
		"consumer group":    {dlq.Filter{ConsumerGroup: "mail"}, mail, "dlq_entry_consumer_group"},
		"dead-letter topic": {dlq.Filter{DLQTopic: "eu.dlq"}, eu, "dlq_entry_dlq_topic"},
		"event":             {dlq.Filter{EventID: event}, about, "dlq_entry_pkey"},
		"reason":            {dlq.Filter{Word: "Sold_Out"}, word, ""},
	} {
		page, err := d.Find(t.Context(), dlq.Search{Filter: c.filter})
		if err != nil || page.Total != 1 || !page.TotalExact || len(page.Entries) != 1 || page.Entries[0].UUID != c.want {
			t.Errorf("%s, list: %+v, %v", name, page, err)
		}
		o := r.plan(dlq.Scope{Filter: &c.filter}, dlq.OperationOptions{})
		if items, err := r.Items(t.Context(), o.UUID, dlq.ItemFilter{}, 0, 10); err != nil || len(items) != 1 || items[0].Entry != c.want {
			t.Errorf("%s, scope: %+v, %v", name, items, err)
		}
		if c.index == "" {
			continue
		}
		args := []any{searchGather, "", "", "", "", nil, "", "", "", "", nil, nil, nil, nil, 26, 0, c.filter.ConsumerGroup, c.filter.DLQTopic, nil, 10_001, nil}
		if c.filter.EventID != uuid.Nil {
			args[18] = []uuid.UUID{about}
		}
		if plan := explainAs(t, r, beginRead+"; "+gathering, args); !strings.Contains(plan, c.index) {
			t.Errorf("%s is not found by %s:\n%s", name, c.index, plan)
		}
	}
	for name, f := range map[string]dlq.Filter{"an event of no letter": {EventID: uuid.New()}, "an event of another source": {EventID: event, Source: "orders"}} {
		if page, err := d.Find(t.Context(), dlq.Search{Filter: f}); err != nil || len(page.Entries) != 0 || page.Total != 0 || !page.TotalExact {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
	if page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{EventID: event, Source: dlq.MainSource}}); err != nil || page.Total != 1 || len(page.Entries) != 1 {
		t.Errorf("an event of the desk's own outbox: %+v, %v", page, err)
	}
	if plan := explainAs(t, r, beginRead, []any{entryAbout, event, nil}); !strings.Contains(plan, "dlq_letter_event") {
		t.Errorf("letters of an event:\n%s", plan)
	}
	later := time.Now().Add(time.Minute)
	for i, f := range []dlq.Filter{{ConsumerGroup: "mail"}, {DLQTopic: "eu.dlq"}, {EventID: event}, {Word: "sold_out"}, {Status: dlq.Cancelled}} {
		done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: later, Filter: f, Limit: 10, Actor: "ada"})
		if want := min(1, 4-i); err != nil || done.Entries != want || done.Left != 0 || !done.LeftExact {
			t.Errorf("purge %+v: %+v, %v; want %d", f, done, err, want)
		}
	}
	if n := r.count(`select count(*) from postrider.dlq_entry`); n != 1 {
		t.Errorf("%d are left, want 1", n)
	}
}

// TestAPurgeSaysWhatIsLeft: a client sees that it has to go on.
func TestAPurgeSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(7)
	var got []string
	for range 3 {
		done, err := r.investigations.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Minute), Limit: 3, Actor: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(done.Entries, done.Left, done.LeftExact))
	}
	if want := "[3 4 true 3 1 true 1 0 true]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestPurgeableIsWhatAPurgeRemoves: an investigation that was opened at OlderThan is not older, a reason that no group has
// is no text to look for, and an estimate is said to be one.
func TestPurgeableIsWhatAPurgeRemoves(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.many(4)
	d := r.investigations
	page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	newest := page.Entries[0]
	later := newest.CreatedAt.Add(time.Minute)
	for what, c := range map[string]struct {
		older time.Time
		f     dlq.Filter
		want  string
	}{
		"all":                     {later, dlq.Filter{}, "4 true"},
		"the newest is not older": {newest.CreatedAt, dlq.Filter{}, "3 true"},
		"a text":                  {later, dlq.Filter{Message: newest.ErrorMessage[:4]}, "4 true"},
		"a reason of no group":    {later, dlq.Filter{Word: newest.ErrorMessage[:4]}, "0 true"},
	} {
		p := dlq.Purge{OlderThan: c.older, Filter: c.f, Limit: 10, Actor: "ada"}
		if n, exact, err := d.Purgeable(t.Context(), p); err != nil || fmt.Sprint(n, exact) != c.want {
			t.Errorf("%s: %d %t, %v, want %s", what, n, exact, err, c.want)
		}
	}
	if _, _, err := d.Purgeable(t.Context(), dlq.Purge{Entries: []uuid.UUID{newest.UUID}, Limit: 10, Actor: "ada"}); !errors.Is(err, dlq.ErrRequest) {
		t.Errorf("named: %v", err)
	}
	d.bounds = bounds{walk: 1, pairs: 1, merge: 1, exactly: 1, skim: 1}
	if _, exact, err := d.Purgeable(t.Context(), dlq.Purge{OlderThan: later, Limit: 10, Actor: "ada"}); err != nil || exact {
		t.Errorf("an estimate: %t, %v", exact, err)
	}
}

// TestTotalsAgree: every page of a search says the same total, counted or estimated, and a client that counts pages by it
// comes to the last investigation.
func TestTotalsAgree(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	oldOutage(t, r)
	d := r.investigations
	d.bounds = bounds{walk: 200, pairs: 800, merge: 100_000, exactly: 100, skim: 500}
	for name, f := range map[string]dlq.Filter{
		"a text that many have":     {Message: "refused"},
		"one that old ones have":    {Message: "wall of fire"},
		"one that the index lacks":  {Message: "ll"},
		"of a topic's dead letters": {DLQTopic: "", Message: "order 3"},
		"all of a status":           {Status: dlq.Pending},
	} {
		f.Limit = 60
		first, err := d.Find(t.Context(), dlq.Search{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		byOffset, byCursor := f, dlq.Search{Filter: f, After: first.Next}
		for n := 1; n <= 6 && byCursor.After != ""; n++ {
			byOffset.Offset = 60 * n
			for way, q := range map[string]dlq.Search{"offset": {Filter: byOffset}, "cursor": byCursor} {
				page, err := d.Find(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				want := first.Total
				if len(page.Entries) > 0 { // what is there counts, whatever was estimated
					want = max(want, int64(q.Filter.Offset+len(page.Entries)))
				}
				if page.TotalExact != first.TotalExact || page.Total != want {
					t.Errorf("%s: page 1 says %d (exact: %t), page %d by %s says %d (%t)", name, first.Total, first.TotalExact, n+1, way, page.Total, page.TotalExact)
				}
				if way == "cursor" {
					byCursor.After = page.Next
				}
			}
		}
	}
}

// TestAPurgeLooksAgainUnderItsLock: an investigation that no longer fits the filter when it is locked stays. Between the
// search and the lock a person may have closed it, assigned it to another, or moved it into another group.
func TestAPurgeLooksAgainUnderItsLock(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.record(dlq.Decode(givenUpBy(t, "billing", 1, dlq.Place{})))
	e, err := r.investigations.Show(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	fits := dlq.Filter{Status: e.Status, Reason: e.Reason, Subject: e.Subject, Topic: e.Topic, ErrorCode: e.ErrorCode, Group: e.GroupUUID,
		ConsumerGroup: "billing", DLQTopic: e.Letters[0].DLQTopic, Word: e.Word, From: e.CreatedAt}
	locked := func(f dlq.Filter) int {
		t.Helper()
		n := 0
		err := r.investigations.transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			found, err := lockPurged(ctx, tx, dlq.Purge{OlderThan: time.Now().Add(time.Minute), Filter: f, Limit: 1, Actor: "ada"}, []uuid.UUID{entry})
			n = len(found)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := locked(fits); n != 1 {
		t.Fatalf("what fits %+v is not purged", fits)
	}
	for what, change := range map[string]func(*dlq.Filter){
		"status":         func(f *dlq.Filter) { f.Status = dlq.Cancelled },
		"reason":         func(f *dlq.Filter) { f.Reason = dlq.StalenessTimeout },
		"type":           func(f *dlq.Filter) { f.Subject.Type = dlq.SubjectTask },
		"subject":        func(f *dlq.Filter) { f.Subject.ID = "another" },
		"topic":          func(f *dlq.Filter) { f.Topic = "another" },
		"error code":     func(f *dlq.Filter) { f.ErrorCode = "ANOTHER" },
		"group":          func(f *dlq.Filter) { f.Group = uuid.New() },
		"assignee":       func(f *dlq.Filter) { f.Assignee = "bob" },
		"consumer group": func(f *dlq.Filter) { f.ConsumerGroup = "another" },
		"letters' topic": func(f *dlq.Filter) { f.DLQTopic = "another" },
		"event":          func(f *dlq.Filter) { f.EventID = uuid.New() },
		"word":           func(f *dlq.Filter) { f.Word = "another" },
		"text":           func(f *dlq.Filter) { f.Message = "another" },
		"from":           func(f *dlq.Filter) { f.From = time.Now().Add(time.Hour) },
	} {
		f := fits
		if change(&f); locked(f) != 0 {
			t.Errorf("an investigation of another %s is purged", what)
		}
	}
}
