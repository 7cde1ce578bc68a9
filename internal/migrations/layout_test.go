package migrations_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

var (
	tableForm  = regexp.MustCompile(`(?m)^create (?:unlogged )?(?:table|sequence) postrider\.(\w+)`)
	objectForm = regexp.MustCompile(`(?m)^create (?:or replace )?(?:constraint )?(?:function|view|trigger) (?:postrider\.)?(\w+)`)
	comment    = regexp.MustCompile(`(?m)--.*$|^comment on [^;]*?'(?:[^']|'')*';`)
)

// TestRoomsKeepToTheirTables: code names no table of another room; it calls that room's functions.
func TestRoomsKeepToTheirTables(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for _, room := range embedded(t) {
		for _, m := range room.Migrations {
			for _, table := range tableForm.FindAllStringSubmatch(m.SQL, -1) {
				owner[table[1]] = room.Name
			}
		}
	}
	if len(owner) < 40 {
		t.Fatalf("only %d tables were found", len(owner))
	}
	for _, room := range embedded(t) {
		for _, f := range room.Code {
			code := comment.ReplaceAllString(f.SQL, "")
			for table, of := range owner {
				if of == room.Name || !regexp.MustCompile(`\b`+table+`\b`).MatchString(code) {
					continue
				}
				t.Errorf("%s names %s, a table of %s: call a function of that room", f.File(), table, of)
			}
		}
	}
}

// TestFilesHoldWhatTheyAreNamed: each file of code makes the functions, the view or the trigger of its name, and nothing
// else. If another file made an object of that name, it would be dropped together with this one.
func TestFilesHoldWhatTheyAreNamed(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	seen := map[string]string{}
	for _, room := range embedded(t) {
		for _, f := range room.Code {
			if other, twice := seen[f.Name]; twice {
				t.Errorf("%s and %s have one name", f.File(), other)
			}
			seen[f.Name] = f.File()
			made := objectForm.FindAllStringSubmatch(f.SQL, -1)
			if len(made) == 0 {
				t.Errorf("%s makes nothing", f.File())
			}
			for _, object := range made {
				if object[1] != f.Name {
					t.Errorf("%s makes %s", f.File(), object[1])
				}
			}
			if !strings.Contains(f.SQL, "comment on ") {
				t.Errorf("%s comments on nothing", f.File())
			}
		}
		for _, m := range room.Migrations {
			for _, object := range objectForm.FindAllStringSubmatch(m.SQL, -1) {
				if file, taken := seen[object[1]]; taken {
					t.Errorf("%s makes %s, which %s does", m.File(), object[1], file)
				}
			}
		}
	}
	// And all that is there comes from a file, but for the few functions that tables need.
	rows, err := conn.Query(t.Context(), `select proname::text from pg_proc p where pronamespace = 'postrider'::regnamespace
		and not exists (select from pg_depend where objid = p.oid and deptype = 'e')
		union select relname from pg_class where relnamespace = 'postrider'::regnamespace and relkind = 'v'
		union select tgname from pg_trigger g join pg_class c on c.oid = g.tgrelid where c.relnamespace = 'postrider'::regnamespace and not tgisinternal`)
	if err != nil {
		t.Fatal(err)
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for name := range seen {
		if !slices.Contains(there, name) {
			t.Errorf("%s made nothing", seen[name])
		}
	}
	baseline := []string{"dlq_index_messages", "outbox_max_payload_bytes", "uuid_generate_v7"}
	for _, name := range there {
		if seen[name] == "" && !slices.Contains(baseline, name) {
			t.Errorf("%s is of no file", name)
		}
	}
}

// TestCodeStaysInItsRoom: no view, default or index needs a function or view of another room's code, which could not be
// made anew then. Triggers may: their functions are replaced.
func TestCodeStaysInItsRoom(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	rooms := map[string]string{}
	for _, room := range embedded(t) {
		for _, f := range room.Code {
			rooms[f.Name] = room.Name
		}
	}
	rows, err := conn.Query(t.Context(), `
		select distinct coalesce(v.relname, pg_describe_object(d.classid, d.objid, d.objsubid)), coalesce(p.proname, w.relname)
		from pg_depend d
		left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
		left join pg_class v on v.oid = r.ev_class
		left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid and p.pronamespace = 'postrider'::regnamespace
		left join pg_class w on d.refclassid = 'pg_class'::regclass and w.oid = d.refobjid and w.relkind = 'v' and w.relnamespace = 'postrider'::regnamespace
		where coalesce(p.oid, w.oid) is not null and d.classid <> 'pg_trigger'::regclass and d.deptype = 'n'
		  and (v.oid is null or v.oid <> coalesce(w.oid, 0))`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var what, needs string
		if err := rows.Scan(&what, &needs); err != nil {
			t.Fatal(err)
		}
		if room, code := rooms[needs]; code && rooms[what] != room {
			t.Errorf("%s needs %s of %s", what, needs, room)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestOutboxAlone: a database may have the outbox without tasks and desk, and writes and gives up events of tasks there.
func TestOutboxAlone(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	do(t, migrations.New(conn, embedded(t), migrations.WithOnly(migrations.PartOutbox)).Up)
	execute(t, conn, fmt.Sprintf(`
		select postrider.outbox_publish('t', 'k', '{}', task_uuid => '%s');
		select postrider.outbox_skip(id, 'not needed') from postrider.outbox_event;
		select postrider.outbox_publish('t', 'k', '{}', task_uuid => '%[1]s')`, "6f2c1c1e-0000-4000-8000-000000000001"))
	if n := pgtest.Value[int](t, conn, "select count(*) from postrider.outbox_skip_request"); n != 1 {
		t.Errorf("%d events are asked to be skipped", n)
	}
	outboxtest.Settle(t, conn, outboxtest.Scheduled, 1, 2)
	execute(t, conn, "select postrider.outbox_skip(2, 'not needed')")
	if state := pgtest.Value[string](t, conn, "select state::text from postrider.outbox_exception where id = 2"); state != "exhausted" {
		t.Errorf("the event is %s", state)
	}
}
