package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

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
	if page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{EventID: uuid.New()}}); err != nil || len(page.Entries) != 0 || page.Total != 0 {
		t.Errorf("an event of no letter: %+v, %v", page, err)
	}
	if plan := explainAs(t, r, beginRead, []any{entryAbout, event}); !strings.Contains(plan, "dlq_letter_event") {
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
