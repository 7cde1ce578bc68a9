package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestCommentsGoWithTheirInvestigation: a purge removes the comments of what it removes, and no others.
func TestCommentsGoWithTheirInvestigation(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	purged, stays := r.die(1, nil), r.die(2, nil)
	group := groupOf(t, r.subject, purged)
	for _, thread := range []dlq.Thread{{Entry: purged}, {Entry: stays}, {Group: group}} {
		if _, err := d.AddComment(t.Context(), dlq.NewComment{Thread: thread, Text: "seen", Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Purge(t.Context(), purged); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Comments(t.Context(), dlq.Thread{Entry: purged}, 0, 10); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("the comments of a purged investigation: %v", err)
	}
	if n := r.count(`select count(*) from postrider.dlq_comment where dlq_entry_uuid = $1`, purged); n != 0 {
		t.Errorf("%d comments of a purged investigation are left", n)
	}
	for _, thread := range []dlq.Thread{{Entry: stays}, {Group: group}} {
		if found, err := d.Comments(t.Context(), thread, 0, 10); err != nil || len(found) != 1 || found[0].Text != "seen" {
			t.Errorf("%s: %+v, %v", thread, found, err)
		}
	}
}

// TestCommentsAreChecked: a comment is about one thing, says something, and is text that the database can hold.
func TestCommentsAreChecked(t *testing.T) {
	t.Parallel()
	id := uuid.New()
	good := dlq.NewComment{Thread: dlq.Thread{Entry: id}, Text: strings.Repeat("☃", dlq.MaxComment/3), Actor: "ada"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*dlq.NewComment){
		"no actor": func(c *dlq.NewComment) { c.Actor = "" }, "nothing": func(c *dlq.NewComment) { c.Thread = dlq.Thread{} },
		"two things": func(c *dlq.NewComment) { c.Thread.Group = id }, "spaces": func(c *dlq.NewComment) { c.Text = " \n" },
		"too long": func(c *dlq.NewComment) { c.Text += "xxx" }, "NUL": func(c *dlq.NewComment) { c.Text = "a\x00" }, "no text": func(c *dlq.NewComment) { c.Text = "\xff" },
	} {
		bad := good
		if change(&bad); !errors.Is(bad.Check(), dlq.ErrRequest) {
			t.Errorf("%s: %v", name, bad.Check())
		}
	}
}

// TestThreadsAreReadByTheirIndex: among very many comments of others and in a very long thread, a page is read along the index
// of the thread. No thread is sorted for it, and no other index is read, whether there are statistics or none.
func TestThreadsAreReadByTheirIndex(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	long := uuid.New()
	pgtest.Exec(t, s.pool, `insert into postrider.dlq_comment (dlq_entry_uuid, author, author_id, text) select case when i % 2 = 0 then gen_random_uuid() else $1 end, 'a', 'a', 'x' from generate_series(1, 20000) i`, long)
	conn, err := s.pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: beginKnown})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Rollback(context.WithoutCancel(t.Context())) }()
	for n, thread := range []dlq.Thread{{Entry: long}, {Group: uuid.New()}, {Entry: long}} {
		if n == 2 {
			pgtest.Exec(t, s.pool, `analyze postrider.dlq_comment`)
		}
		list, of := commentsOf(thread)
		rows, err := conn.Query(t.Context(), "explain "+list, of, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan.WriteString(line + "\n")
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		index := "dlq_comment_entry"
		if thread.Group != uuid.Nil {
			index = "dlq_comment_group"
		}
		if !strings.Contains(plan.String(), index) || strings.Contains(plan.String(), "dlq_comment_pkey") || strings.Contains(plan.String(), "Seq Scan") || strings.Contains(plan.String(), "Sort") {
			t.Errorf("%s:\n%s", thread, plan.String())
		}
	}
}
