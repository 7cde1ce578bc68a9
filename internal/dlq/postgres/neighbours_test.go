package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestNeighbours: from the first of a list, one next after the other is the list, and back it is the list from its end; in
// either order, with and without a filter, and where several have the same time.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	now := time.Now()
	for i := range 12 {
		r.record(failing(i, fmt.Sprintf("%s %d", []string{"refused", "timed out"}[i%2], i), now))
	}
	pgtest.Exec(t, r.subject.pool, `update postrider.dlq_entry set created_at = date_trunc('hour', created_at) - interval '1 hour' * (('x' || right(dlq_entry_uuid::text, 2))::bit(8)::int % 3)`)
	for name, q := range map[string]dlq.Search{
		"all":              {},
		"the oldest first": {Ascending: true},
		"by change":        {OrderBy: dlq.ByUpdated},
		"of a text":        {Filter: dlq.Filter{Message: "timed"}},
		"pending":          {Filter: dlq.Filter{Status: dlq.Pending}, Ascending: true},
		"nothing":          {Filter: dlq.Filter{Topic: "none"}},
	} {
		page, err := d.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		list := column(page.Entries, func(e dlq.Entry) uuid.UUID { return e.UUID })
		want := map[string]int{"of a text": 6, "nothing": 0}
		if n, is := want[name]; is && len(list) != n || !is && len(list) != 12 {
			t.Fatalf("%s: %d investigations", name, len(list))
		}
		for i, id := range list {
			n, err := d.Neighbours(t.Context(), id, q)
			before, behind := uuid.Nil, uuid.Nil
			if i > 0 {
				before = list[i-1]
			}
			if i < len(list)-1 {
				behind = list[i+1]
			}
			if err != nil || n != (dlq.Neighbours{Previous: before, Next: behind}) {
				t.Errorf("%s: beside %d: %+v, %v; want %s and %s", name, i, n, err, before, behind)
			}
		}
	}
	// One that is not in the list has neighbours there all the same.
	all, err := d.Find(t.Context(), dlq.Search{})
	if err != nil {
		t.Fatal(err)
	}
	ids := column(all.Entries, func(e dlq.Entry) uuid.UUID { return e.UUID })
	texts, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Message: "timed"}})
	if err != nil {
		t.Fatal(err)
	}
	timed := column(texts.Entries, func(e dlq.Entry) uuid.UUID { return e.UUID })
	for i, id := range ids {
		if slices.Contains(timed, id) {
			continue
		}
		var want dlq.Neighbours
		for _, other := range ids[:i] {
			if slices.Contains(timed, other) {
				want.Previous = other
			}
		}
		for _, other := range slices.Backward(ids[i+1:]) {
			if slices.Contains(timed, other) {
				want.Next = other
			}
		}
		if n, err := d.Neighbours(t.Context(), id, dlq.Search{Filter: dlq.Filter{Message: "timed"}}); err != nil || n != want {
			t.Errorf("beside one of another text: %+v, %v; want %+v", n, err, want)
		}
	}
	if _, err := d.Neighbours(t.Context(), uuid.New(), dlq.Search{}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("beside one that is unknown: %v", err)
	}
}
