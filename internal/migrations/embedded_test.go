package migrations_test

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// embedded are the rooms of the binary.
func embedded(t *testing.T) []migrations.Room {
	t.Helper()
	all, err := migrations.All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAllIsTheCallersOwn: the files are read once, and a caller that changes what it got changes it for itself alone.
func TestAllIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	mine := embedded(t)
	mine[1].Name, mine[1].Migrations[0].SQL, mine[1].Code[0].SQL = "other", "select 1", "select 2"
	others := embedded(t)
	if others[1].Name != "outbox" || others[1].Migrations[0].SQL == "select 1" || others[1].Code[0].SQL == "select 2" {
		t.Errorf("another caller has %s, %.20q, %.20q", others[1].Name, others[1].Migrations[0].SQL, others[1].Code[0].SQL)
	}
}

// TestEmbeddedAgain: going up twice, and applying the code again, leaves the same database, with the rights that
// were granted by hand.
func TestEmbeddedAgain(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	r := migrations.New(conn, embedded(t))
	do(t, r.Up)
	if err := r.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	execute(t, conn, "grant select on postrider.v_outbox_event to public; grant execute on function postrider.outbox_skip(bigint, text) to pg_monitor with grant option")
	once := catalog(t, conn)
	if got := do(t, r.Up); len(got) != 0 {
		t.Errorf("a second Up ran %v", got)
	}
	sameCatalog(t, "after going up twice", catalog(t, conn), once)
	for range 2 {
		if got := do(t, r.UpAgain); !slices.Equal(got, []int{0, 0, 0, 0, 0}) {
			t.Errorf("the code again ran %v", got)
		}
		sameCatalog(t, "after the code was applied again", catalog(t, conn), once)
	}
	if err := r.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEmbeddedRoomByRoom: each room needs only the rooms before it.
func TestEmbeddedRoomByRoom(t *testing.T) {
	t.Parallel()
	conn, whole := pgtest.NewEmpty(t).Conn(t), pgtest.NewEmpty(t).Conn(t)
	do(t, migrations.New(whole, embedded(t)).Up)
	rooms := embedded(t)
	for n := range rooms {
		var parts []migrations.Part
		for _, room := range rooms[:n+1] {
			parts = append(parts, room.Part())
		}
		do(t, migrations.New(conn, rooms[:n+1], migrations.WithOnly(parts...)).UpAgain)
	}
	sameCatalog(t, "room by room differs from all at once", catalog(t, conn), catalog(t, whole))
}

// TestEmbeddedBodies: the body of every function is one that PostgreSQL accepts, now that all is there.
func TestEmbeddedBodies(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	execute(t, conn, `do $$
		declare f record;
		begin
			for f in select p.oid::regprocedure as name, pg_get_functiondef(p.oid) as definition from pg_proc p
			         where p.pronamespace = 'postrider'::regnamespace
			           and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e') loop
				begin
					execute f.definition;
				exception when others then
					raise exception '%: %', f.name, sqlerrm;
				end;
			end loop;
		end $$`)
}

// TestEmbeddedIsCommented: every type, table, view, function, trigger, sequence and index of ours, that of a constraint too, says
// what it is for.
func TestEmbeddedIsCommented(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	rows, err := conn.Query(t.Context(), `
		select 'relation ' || c.oid::regclass from pg_class c
		where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'i', 'I', 'S')
		  and obj_description(c.oid, 'pg_class') is null
		  and not relispartition
		union all
		select 'routine ' || oid::regprocedure from pg_proc
		where pronamespace = 'postrider'::regnamespace and obj_description(oid, 'pg_proc') is null
		  and not exists (select 1 from pg_depend where objid = pg_proc.oid and deptype = 'e') -- of pg_trgm
		union all
		select 'type ' || oid::regtype from pg_type
		where typnamespace = 'postrider'::regnamespace and obj_description(oid, 'pg_type') is null
		  and (typtype in ('e', 'd') or typtype = 'c' and exists (select from pg_class r where r.oid = typrelid and r.relkind = 'c'))
		union all
		select 'trigger ' || t.tgname || ' of ' || t.tgrelid::regclass from pg_trigger t join pg_class r on r.oid = t.tgrelid
		where r.relnamespace = 'postrider'::regnamespace and not t.tgisinternal and t.tgparentid = 0 and obj_description(t.oid, 'pg_trigger') is null
		order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var thing string
		if err := rows.Scan(&thing); err != nil {
			t.Fatal(err)
		}
		t.Errorf("no COMMENT: %s", thing)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestStatementsAreTheServers: the server completes as many statements of each file as are found in it.
func TestStatementsAreTheServers(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	execute(t, conn, "create schema postrider; set search_path = postrider, public; set check_function_bodies = off")
	compare := func(file, sql string) {
		t.Helper()
		results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if found := migrations.Statements(sql); found != len(results) {
			t.Errorf("%s: %d statements were found, and the server completed %d: write it without what splitStatements does not know", file, found, len(results))
		}
	}
	for _, room := range embedded(t) {
		for _, m := range room.Migrations {
			compare(m.File(), m.SQL)
		}
		for _, f := range room.Code {
			compare(f.File(), f.SQL)
		}
	}
}
