package inbox_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// objects describes the inbox of a schema, with its comments.
const objects = `
	select c.relkind::text || ' ' || c.relname || ': ' || coalesce(obj_description(c.oid, 'pg_class'), '')
	from pg_class c where c.relnamespace = $1::regnamespace and c.relname like 'inbox%'
	union all
	select 'column ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ': ' || coalesce(col_description(a.attrelid, a.attnum), '')
	from pg_attribute a join pg_class c on c.oid = a.attrelid
	where c.relnamespace = $1::regnamespace and c.relname = 'inbox_message' and a.attnum > 0
	order by 1`

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	pool := db.Pool(t)
	describe := func(schema string) []string {
		t.Helper()
		all := pgtest.Column[string](t, pool, objects, schema)
		return all
	}
	// Instances of a service start at the same time.
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := inbox.Migrate(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	first := describe("public")
	if len(first) != 6 {
		t.Errorf("there are %d objects: %q", len(first), first)
	}
	for _, line := range first {
		if strings.HasSuffix(line, ": ") && !strings.Contains(line, "inbox_message_pkey") { // its constraint has one
			t.Errorf("no comment: %s", line)
		}
	}
	if _, err := pool.Exec(t.Context(), `insert into inbox_message (consumer_group, message_id) values ('g', 'm')`); err != nil {
		t.Fatal(err)
	}
	if err := inbox.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if again := describe("public"); strings.Join(again, "\n") != strings.Join(first, "\n") {
		t.Errorf("a second migration made %q of %q", again, first)
	}

	// A schema of its own, with a name that must be quoted.
	named, err := inbox.In(`Or"ders; drop`)
	if err != nil {
		t.Fatal(err)
	}
	if err := named.Migrate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "create the schema first") {
		t.Errorf("a schema that is not there: %v", err)
	}
	if _, err := pool.Exec(t.Context(), `create schema "Or""ders; drop"`); err != nil {
		t.Fatal(err)
	}
	if err := named.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if got := describe(`"Or""ders; drop"`); strings.Join(got, "\n") != strings.Join(first, "\n") {
		t.Errorf("another schema has %q, want %q", got, first)
	}
	if first, err := named.Once(t.Context(), pool, "g", "m"); err != nil || !first {
		t.Errorf("what was handled in one schema is known in another: %v, %v", first, err)
	}
}

// The script runs through database/sql, and as one transaction wherever a client sends it whole.
func TestScriptThroughSQL(t *testing.T) {
	t.Parallel()
	s := &service{t: t}
	db := pgtest.NewEmpty(t)
	s.url, s.pool = db.URL, db.Pool(t)
	s.openSQL()
	for range 2 {
		if _, err := s.sql.ExecContext(t.Context(), inbox.Script()); err != nil {
			t.Fatal(err)
		}
	}
	if first, err := inbox.Once(t.Context(), inbox.SQL(s.sql), "g", "m"); err != nil || !first {
		t.Errorf("%v, %v", first, err)
	}
}

func TestIn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", strings.Repeat("x", 64), "a\x00b"} {
		if _, err := inbox.In(name); !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("In(%q): %v", name, err)
		}
	}
}

// A table that is partitioned, as the package says that it may be, does the same.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]string{
		"hash of the message": `partition by hash (message_id);
			create table part0 partition of inbox_message for values with (modulus 2, remainder 0);
			create table part1 partition of inbox_message for values with (modulus 2, remainder 1)`,
		"list of groups": `partition by list (consumer_group);
			create table part0 partition of inbox_message for values in ('a');
			create table part1 partition of inbox_message default`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			pool := db.Pool(t)
			if _, err := pool.Exec(t.Context(), `create table inbox_message (
				consumer_group text collate "C" not null, message_id text collate "C" not null, handled_at timestamptz not null default clock_timestamp(),
				constraint inbox_message_pkey primary key (consumer_group, message_id)) `+by); err != nil {
				t.Fatal(err)
			}
			if err := inbox.Migrate(t.Context(), pool); err != nil { // adds the index and the comments
				t.Fatal(err)
			}
			ids := make([]string, 50)
			for n := range ids {
				ids[n] = strings.Repeat("m", n+1)
			}
			for _, group := range []string{"a", "b"} {
				for turn := range 2 {
					first, err := inbox.Inbox{}.OnceEach(t.Context(), pool, group, ids)
					if err != nil {
						t.Fatal(err)
					}
					for n, is := range first {
						if is != (turn == 0) {
							t.Fatalf("group %s, turn %d, message %d: %v", group, turn, n, is)
						}
					}
				}
			}
			// Old rows lie at the same places in both partitions as young ones.
			if _, err := pool.Exec(t.Context(), `update inbox_message set handled_at = now() - interval '1 day' * length(message_id) where length(message_id) > 10`); err != nil {
				t.Fatal(err)
			}
			removed, err := inbox.Purge(t.Context(), pool, 11*24*time.Hour+12*time.Hour, 7)
			if err != nil || removed != 2*39 {
				t.Errorf("removed %d, %v; want %d", removed, err, 2*39)
			}
		})
	}
}
