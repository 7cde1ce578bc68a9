package adopt_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAViewTakesTheInserts: a view in the place of the table takes what a writer does with the table, and writes it once. Then
// the table is put back.
func TestAViewTakesTheInserts(t *testing.T) {
	t.Parallel()
	db, conn := fresh(t)
	pgtest.Exec(t, conn, `create schema "Up per"; create table "Up per"."Out box" (id uuid primary key default gen_random_uuid(), n bigint generated always as identity, aggregatetype text not null default 'Order',
		aggregateid text, type text default upper('made'), payload jsonb, at timestamptz not null default now())`)
	const name = `"Up per"."Out box"`
	a, said := adopter(conn)
	if err := a.AsView(t.Context(), name); err == nil || !strings.Contains(err.Error(), "it is not known") {
		t.Errorf("before it is adopted: %v", err)
	}
	d := debezium(t)
	if err := a.Adopt(t.Context(), name, adopt.Wish{Definition: d, Mode: adopt.ModeForward}); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, `grant usage on schema "Up per" to `+role(t, db)+`; grant insert, select, delete on `+name+` to `+db.Name)
	writer, err := pgx.Connect(t.Context(), db.As(db.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close(context.Background())
	// A statement that was prepared when the table was there goes on.
	prepared := func(key string) {
		t.Helper()
		pgtest.Exec(t, writer, `insert into "Up per"."Out box" (aggregateid, payload) values ($1, '{}')`, key)
	}
	prepared("before")
	for _, want := range []string{"is a view now", "nothing was done"} {
		if err := a.AsView(t.Context(), name); err != nil || !strings.Contains((*said)[len(*said)-1], want) {
			t.Fatalf("%v, %q", err, *said)
		}
	}
	prepared("after")
	var id, kind string
	var n int
	if err := writer.QueryRow(t.Context(), `insert into "Up per"."Out box" (aggregateid, payload) values ('returned', '{}') returning id::text, n, type`).Scan(&id, &n, &kind); err != nil ||
		len(id) != 36 || n != 3 || kind != "MADE" {
		t.Errorf("returning gives %s %d %s, %v", id, n, kind, err)
	}
	pgtest.Exec(t, writer, `insert into "Up per"."Out box" (aggregateid, payload) values ('conflict', '{}') on conflict do nothing`)
	tag, err := writer.Exec(t.Context(), `delete from "Up per"."Out box" where id = $1`, id)
	if err != nil || tag.RowsAffected() != 0 {
		t.Errorf("a delete: %d rows, %v", tag.RowsAffected(), err)
	}
	if copied, err := writer.CopyFrom(t.Context(), pgx.Identifier{"Up per", "Out box"}, []string{"aggregateid", "payload"}, pgx.CopyFromRows([][]any{{"copied", "{}"}, {"copied too", "{}"}})); err != nil || copied != 2 {
		t.Errorf("copy: %d rows, %v", copied, err)
	}
	keys := pgtest.Column[string](t, conn, `select convert_from(key, 'UTF8') from postrider.outbox_event order by id`)
	if want := []string{"before", "after", "returned", "conflict", "copied", "copied too"}; !slices.Equal(keys, want) {
		t.Errorf("the events have the keys %q", keys)
	}
	if kept := pgtest.Value[int](t, conn, `select count(*) from "Up per"."Out box_before_postrider"`); kept != 1 {
		t.Errorf("the table has %d rows, and should have the one from before", kept)
	}
	for _, err := range []error{a.Remove(t.Context(), name), a.Adopt(t.Context(), name, adopt.Wish{Definition: d, Mode: adopt.ModeForward})} {
		if err == nil || !strings.Contains(err.Error(), "--as-table") {
			t.Errorf("while the view is there: %v", err)
		}
	}
	for _, want := range []string{"is the table again", "nothing was done"} {
		if err := a.AsTable(t.Context(), name); err != nil || !strings.Contains((*said)[len(*said)-1], want) {
			t.Fatalf("%v, %q", err, *said)
		}
	}
	prepared("again")
	if n := pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_event where key = 'again'`); n != 1 {
		t.Errorf("%d events after the table came back", n)
	}
	if n := pgtest.Value[int](t, conn, `select count(*) from "Up per"."Out box"`); n != 2 {
		t.Errorf("the table has %d rows", n)
	}
}

// TestAViewComesAndGoesUnderWriters: no row is lost or twice an event.
func TestAViewComesAndGoesUnderWriters(t *testing.T) {
	t.Parallel()
	db, conn, a := take(t, `create table outbox (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb)`, "outbox", debezium(t))
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	written := make([]int, 4)
	for w := range written {
		writer := db.Conn(t)
		writers.Go(func() {
			for ctx.Err() == nil {
				if _, err := writer.Exec(context.Background(), `insert into public.outbox values (gen_random_uuid(), 'O', $1, 'Made', $2)`, fmt.Sprint(w), fmt.Sprint(written[w])); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				written[w]++
			}
		})
	}
	for range 5 {
		for _, change := range []func(context.Context, string) error{a.AsView, a.AsTable} {
			before := pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_event`)
			if err := change(t.Context(), "outbox"); err != nil {
				t.Fatal(err)
			}
			pgtest.WaitFor(t, conn, `select count(*) > $1 + 20 from postrider.outbox_event`, before)
		}
	}
	stop()
	writers.Wait()
	for w, n := range written {
		got := pgtest.Column[int](t, conn, `select convert_from(payload, 'UTF8')::int from postrider.outbox_event where key = convert_to($1, 'UTF8') order by id`, fmt.Sprint(w))
		for i, have := range got {
			if i != have {
				t.Errorf("the event %d of the writer %d has the number %d", i, w, have)
				break
			}
		}
		if len(got) != n {
			t.Errorf("the writer %d wrote %d rows, there are %d events", w, n, len(got))
		}
	}
}

// TestTablesThatCannotBeViews are refused.
func TestTablesThatCannotBeViews(t *testing.T) {
	t.Parallel()
	filtered := debezium(t)
	filtered.Where = "r.type = 'x'"
	for want, c := range map[string]struct {
		create string
		d      adopt.Definition
	}{
		"is generated":       {`create table outbox (id uuid, aggregatetype text, aggregateid text, type text, payload text, n integer generated always as (length(payload)) stored)`, debezium(t)},
		"--where":            {outbox, filtered},
		"row-level security": {outbox + `; alter table outbox enable row level security`, debezium(t)},
		"(stamp)": {outbox + `; create function stamp() returns trigger language plpgsql as $$begin new.type := 'stamped'; return new; end$$;
			create trigger stamp before insert on outbox for each row execute function stamp()`, debezium(t)},
	} {
		_, _, a := take(t, c.create, "outbox", c.d)
		_, showErr := a.ShowView(t.Context(), "outbox")
		for _, err := range []error{a.AsView(t.Context(), "outbox"), showErr} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; it should say %q", err, want)
			}
		}
	}
}
