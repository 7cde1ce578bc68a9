package migrations_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// installed is an empty database with these parts of the schema.
func installed(t *testing.T, parts ...migrations.Part) (*pgtest.DB, *pgx.Conn) {
	t.Helper()
	db := pgtest.NewEmpty(t)
	conn := db.Conn(t)
	do(t, only(t, conn, parts...).Up)
	return db, conn
}

// TestAnOwnerInstalls: who owns a database needs no more to migrate it, to any set of parts; and what keeps the audit log works
// with the owner's rights alone.
func TestAnOwnerInstalls(t *testing.T) {
	t.Parallel()
	for n := range migrations.Parts() {
		parts := migrations.Parts()[:n+1]
		t.Run(migrations.JoinParts(parts), func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			super := db.Conn(t)
			role := pgx.Identifier{"plain_" + db.Name}.Sanitize()
			pgtest.Exec(t, super, "create role "+role)
			t.Cleanup(func() {
				if _, err := super.Exec(context.WithoutCancel(t.Context()), "reassign owned by "+role+" to current_user; drop owned by "+role+"; drop role "+role); err != nil {
					t.Error(err)
				}
			})
			pgtest.Exec(t, super, "alter database "+pgx.Identifier{db.Name}.Sanitize()+" owner to "+role)
			owner, err := pgx.Connect(t.Context(), db.As("plain_"+db.Name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = owner.Close(context.WithoutCancel(t.Context())) })
			do(t, only(t, owner, parts...).Up)
			if !pgtest.Value[bool](t, owner, `select not rolsuper from pg_roles where rolname = current_user`) {
				t.Fatal("the owner is a superuser")
			}
			pgtest.Exec(t, super, `alter table postrider.access_audit disable trigger all; insert into postrider.access_audit (at, actor, action, target_type) values (now() - interval '100 days', 'ann', 'x', 'y'), (now(), 'ann', 'x', 'y'); alter table postrider.access_audit enable trigger all`)
			if n := pgtest.Value[int](t, owner, `select postrider.access_purge_audit('31 days', 10)`); n != 1 {
				t.Errorf("%d rows of the audit log were purged, want 1", n)
			}
			if _, err := owner.Exec(t.Context(), `begin; select postrider.access_purge_audit('31 days', 10); delete from postrider.access_audit; commit`); err == nil {
				t.Error("after a purge its transaction may delete rows of the audit log")
			}
		})
	}
}

// source is an outbox alone, with an event of each kind: 1 halts its key, 2 waits behind it, 3 waits for its time, 4 is pending.
func source(t *testing.T) (*pgtest.DB, *pgx.Conn) {
	t.Helper()
	db, conn := installed(t, outboxAlone...)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, key, payload, idempotency_key)
		values ('orders', 'k', 'dead', 'once'), ('orders', 'k', 'waits', null), ('orders', 'other', 'waits', null), ('orders', null, 'pending', null);
		insert into postrider.outbox_idempotency_key (topic, idempotency_key, event_id) select topic, idempotency_key, event_id from postrider.outbox_event where id = 1;
		insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_event where id = 1;
		insert into postrider.outbox_hold (scope, topic, code, cause, next_probe_at) values ('failure', 'orders', 'MESSAGE_TOO_LARGE', 'circuit_breaker', 'infinity')`)
	outboxtest.Settle(t, conn, outboxtest.DeadLettered, 1)
	outboxtest.Settle(t, conn, outboxtest.Scheduled, 2, 3)
	return db, conn
}

// calls are calls of all functions that an outbox alone has, each with what it says then.
var calls = map[string]struct{ sql, says string }{
	"access_add_audit":             {`select postrider.access_add_audit('a', 'b', 'c', 'd', '{"e": 1, "f": 2}'); select postrider.access_find_audit('b', 'c', 'd', '{"e": 1}')`, `{"e": 1, "f": 2}`},
	"access_by_hand":               {`select postrider.access_by_hand()`, "f"},
	"access_check_author":          {`select coalesce(postrider.access_check_author('cli:' || session_user)::text, '')`, ""},
	"access_find_commands":         {`select postrider.access_add_audit('a', 'dlq.requeue', 'event', '1', '{"desk": "north", "call": 3}'); select outbox_id from postrider.access_find_commands('north', 2)`, "1"},
	"access_owe":                   {`select coalesce(postrider.access_owe('{outbox.skip}', 'event', '{1}')::text, '')`, ""},
	"access_find_audit":            {`select coalesce(postrider.access_find_audit('b', 'c', 'd', '{}')::text, '')`, ""},
	"access_purge_audit":           {`select postrider.access_purge_audit('30 days', 10)`, "0"},
	"access_audit_keep":            {`insert into postrider.access_audit (actor, action, target_type) values ('a', 'b', 'c') returning action; delete from postrider.access_audit`, "postrider: the audit log is only added to"},
	"access_settle":                {`insert into postrider.access_due (actions, target_type, target_ids) values ('{b}', 'c', '{d}'); set constraints all immediate`, "postrider: b of c d is not in the audit log"},
	"outbox_assert_leader":         {`select postrider.outbox_assert_leader(1)`, "postrider: the session that led the outbox is gone"},
	"outbox_check_headers":         {`select coalesce(postrider.outbox_check_headers('{"a": "b"}')::text, '')`, ""},
	"outbox_close":                 {`select postrider.outbox_close('{1}', array[(select event_id from postrider.outbox_event where id = 1)], '{1}')`, "1"},
	"outbox_content":               {`select convert_from(payload, 'UTF8') from postrider.outbox_content(1, (select event_id from postrider.outbox_event where id = 1))`, "dead"},
	"outbox_edit":                  {`select postrider.outbox_redrive(1); select postrider.outbox_edit(1, event_id, true, 'better', '[]') from postrider.outbox_event where id = 1`, "t"},
	"outbox_event_id":              {`select substr(postrider.outbox_event_id()::text, 15, 1)`, "7"},
	"outbox_exhaust":               {`select postrider.outbox_exhaust(3, 'why'); select state::text from postrider.outbox_exception where id = 3`, "exhausted"},
	"outbox_find_event":            {`select postrider.outbox_find_event(event_id) from postrider.outbox_event where id = 4`, "4"},
	"outbox_give_up":               {`select cause from postrider.outbox_give_up(2)`, "circuit_breaker"},
	"outbox_given_up":              {`select count(*) from postrider.outbox_given_up(array(select event_id from postrider.outbox_event))`, "1"},
	"outbox_insert":                {`select postrider.outbox_insert(array[gen_random_uuid()], null, '{t}', null, null, null)`, "5"},
	"outbox_let_keys_go":           {`select postrider.outbox_let_keys_go('{1}')`, "{1}"},
	"outbox_look":                  {`select convert_from(payload, 'UTF8') from postrider.outbox_look(1, (select event_id from postrider.outbox_event where id = 1))`, "dead"},
	"outbox_max_payload_bytes":     {`select postrider.outbox_max_payload_bytes()`, "16777216"},
	"outbox_merge_receipts":        {`select removed from postrider.outbox_merge_receipts('0 s')`, "0"},
	"outbox_name_source":           {`select name from postrider.outbox_name_source('orders', 'north')`, "orders"},
	"outbox_new_identity":          {`select name from postrider.outbox_new_identity('copy')`, "copy"},
	"outbox_obey":                  {`select answer from postrider.outbox_obey('north', jsonb_build_array(jsonb_build_object('command', 'c', 'kind', 'close', 'outbox_id', 1, 'event_id', (select event_id from postrider.outbox_event where id = 1), 'episode', 1, 'actor', 'a')))`, "closed"},
	"outbox_obeyed":                {`select obeyed from postrider.outbox_obeyed(array[gen_random_uuid()], '{close}', '{1}', array[(select event_id from postrider.outbox_event where id = 1)], '{1}')`, "f"},
	"outbox_place":                 {`select postrider.outbox_place() ~ '^[0-9]+/[0-9]+$'`, "t"},
	"outbox_rejoin":                {`select postrider.outbox_name_source('orders'); update postrider.outbox_source set place = 'x'; select postrider.outbox_rejoin('orders', 'ada')`, "t"},
	"outbox_obey_one":              {`select answer from postrider.outbox_obey_one('north', jsonb_build_object('command', 'c', 'kind', 'close', 'outbox_id', 1, 'event_id', (select event_id from postrider.outbox_event where id = 1), 'episode', 2, 'actor', 'a'))`, "stale"},
	"outbox_obey_redrive":          {`select r.answer from postrider.outbox_exception x, postrider.outbox_obey_redrive(x, x.event_id, jsonb_build_object('target', 'orders', 'new_event', gen_random_uuid(), 'redrive', 'e:1', 'max_hops', 3)) r where x.id = 1`, "in_place"},
	"outbox_publish":               {`select postrider.outbox_publish('t', 'k', '{}', task_uuid => gen_random_uuid(), idempotency_key => 'x') is not null`, "t"},
	"outbox_publish_bytes":         {`select postrider.outbox_publish_bytes('t', 'k'::text, 'x'::bytea, task_uuid => gen_random_uuid()) is not null`, "t"},
	"outbox_purge_events":          {`select removed from postrider.outbox_purge_events('0 s', 10); select count(*) from postrider.outbox_event`, "1"},
	"outbox_purge_exceptions":      {`select removed from postrider.outbox_purge_exceptions('0 s', 10)`, "0"},
	"outbox_purge_keys":            {`select removed from postrider.outbox_purge_keys('0 s', 10)`, "1"},
	"outbox_redrive":               {`select postrider.outbox_redrive(1); select state::text from postrider.outbox_exception where id = 1`, "parked"},
	"outbox_redrive_headers":       {`select postrider.outbox_redrive_headers('{"a": "b", "replay_id": "c"}', '[["d", "e"]]', gen_random_uuid(), null)`, `[["a", "b"], ["d", "e"]]`},
	"outbox_release":               {`select cause from postrider.outbox_release(1)`, "halted"},
	"outbox_release_keys":          {`select postrider.outbox_release_keys('{1}')`, "1"},
	"outbox_returning":             {`select postrider.outbox_redrive(1); select r.episode from postrider.outbox_event e, postrider.outbox_returning(1, e.event_id) r where e.id = 1`, "1"},
	"outbox_set_max_payload_bytes": {`select postrider.outbox_set_max_payload_bytes(9999); select postrider.outbox_max_payload_bytes()`, "9999"},
	"outbox_skip":                  {`select postrider.outbox_skip(3, 'why'), postrider.outbox_skip(4, 'why'); select count(*) from postrider.outbox_skip_request`, "1"},
	"outbox_standing":              {`select string_agg(state, ' ' order by place) from postrider.outbox_standing('{1,3,4}', array(select event_id from postrider.outbox_event where id <> 2 order by id))`, "dead_lettered scheduled pending"},
	"outbox_task_attempts":         {`select coalesce(postrider.outbox_task_attempts(gen_random_uuid()), 0)`, "0"},
	"outbox_tell_tasks":            {`select postrider.outbox_tell_tasks('{1}')`, "0"},
}

// TestEveryFunctionOfAnOutboxAlone is called, and each view is read.
func TestEveryFunctionOfAnOutboxAlone(t *testing.T) {
	t.Parallel()
	_, conn := source(t)
	functions := pgtest.Column[string](t, conn, `select distinct proname::text from pg_proc where pronamespace = 'postrider'::regnamespace order by 1`)
	for name := range calls {
		if !slices.Contains(functions, name) {
			t.Errorf("there is no function %s", name)
		}
	}
	for _, name := range functions {
		call, ok := calls[name]
		if !ok {
			t.Errorf("%s is never called", name)
			continue
		}
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		says := ""
		results, err := tx.Conn().PgConn().Exec(t.Context(), call.sql).ReadAll()
		if err != nil {
			says = err.Error()
		} else if last := results[len(results)-1]; len(last.Rows) > 0 {
			says = string(last.Rows[0][0])
		}
		if says != call.says && (err == nil || call.says == "" || !strings.Contains(says, call.says)) {
			t.Errorf("%s: %s, want %s", call.sql, says, call.says)
		}
		if err := tx.Rollback(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, relation := range pgtest.Column[string](t, conn, `select relname::text from pg_class where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'v', 'S')`) {
		if _, err := conn.Exec(t.Context(), `select * from postrider.`+relation); err != nil {
			t.Errorf("%s cannot be read: %v", relation, err)
		}
	}
}

// TestAnOutboxAloneNamesNothingElse: its catalogue has nothing of tasks, investigations, keys or sessions, and its functions,
// views, triggers and defaults name nothing that is not there.
func TestAnOutboxAloneNamesNothingElse(t *testing.T) {
	t.Parallel()
	// What is asked for by name first, and may be absent; a setting, and what types of events begin with.
	asked := []string{"task_max_attempts", "task_events_dead_lettered", "start_step", "audit_retention", "task"}
	for _, parts := range [][]migrations.Part{outboxAlone, withTasks} {
		_, conn := installed(t, parts...)
		names := pgtest.Column[string](t, conn, `
			select relname::text from pg_class where relnamespace = 'postrider'::regnamespace
			union select proname::text from pg_proc where pronamespace = 'postrider'::regnamespace
			union select typname::text from pg_type where typnamespace = 'postrider'::regnamespace
			union select tgname::text from pg_trigger
			union select conname::text from pg_constraint where connamespace = 'postrider'::regnamespace`)
		foreign := regexp.MustCompile(`^(?:v_)?(?:dlq_|access_(?:key|answer|link|session)|task|step|template|engine|worker|archive)`)
		if len(parts) > 1 {
			foreign = regexp.MustCompile(`^(?:v_)?(?:dlq_|access_(?:key|answer|link|session))`)
			asked = []string{"dlq_retry_numbers", "dlq_close_superseded", "audit_retention", "task"}
		}
		for _, name := range names {
			if foreign.MatchString(name) && name != "dlq_reason" && name != "_dlq_reason" { // why a task is given up
				t.Errorf("%v has %s", parts, name)
			}
		}
		bodies := pgtest.Column[string](t, conn, `
			select pg_get_functiondef(p.oid) from pg_proc p where pronamespace = 'postrider'::regnamespace
			  and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
			union all select pg_get_viewdef(oid) from pg_class where relnamespace = 'postrider'::regnamespace and relkind = 'v'`)
		if len(bodies) < 30 {
			t.Fatalf("only %d functions and views were found", len(bodies))
		}
		for _, body := range bodies {
			for _, named := range regexp.MustCompile(`\bpostrider\.([a-z]\w*)`).FindAllStringSubmatch(regexp.MustCompile(`--.*`).ReplaceAllString(body, ""), -1) {
				name := named[1]
				if !slices.Contains(names, name) && !slices.Contains(asked, name) {
					t.Errorf("%v: there is no %s, and this names it:\n%.300s", parts, name, body)
				}
			}
		}
	}
}

// TestPeopleOweTheLogOfAnOutboxAlone what they owe it elsewhere; the relay owes it nothing.
func TestPeopleOweTheLogOfAnOutboxAlone(t *testing.T) {
	t.Parallel()
	db, owner := source(t)
	if err := migrations.ApplyRoles(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	d := &operators{t, db, owner, nil}
	d.operator = d.login("postrider_operator")
	for _, name := range []string{"skip", "release", "give up", "release keys", "redrive in place"} {
		c := owing[name]
		if err := d.change(c.sql); err == nil || !strings.Contains(err.Error(), "is not in the audit log") {
			t.Errorf("%s: %v", c.sql, err)
		}
		if err := d.change(row(c.action, c.kind, c.id), `savepoint s`, c.sql, `set constraints all immediate`, `rollback to s`); err != nil {
			t.Errorf("%s: %v", c.sql, err)
		}
	}
}

// TestRolesOfAnOutboxAlone, each with a login of its own: what it may not do, and that it may do its work.
func TestRolesOfAnOutboxAlone(t *testing.T) {
	t.Parallel()
	db, owner := source(t)
	if err := migrations.ApplyRoles(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	d := &operators{t, db, owner, nil}
	denied := []string{
		`update postrider.outbox_event set payload = 'x'`, `delete from postrider.outbox_event`, `truncate postrider.outbox_event`,
		`insert into postrider.outbox_event (id, topic) overriding system value values (1, 't')`,
		`insert into postrider.outbox_event (topic, kind) values ('t', 'task')`,
		`update postrider.outbox_receipt set position = 1`, `delete from postrider.outbox_receipt`,
		`insert into postrider.outbox_skip_request (id, reason) values (1, 'why')`,
		`delete from postrider.outbox_idempotency_key`, `insert into postrider.outbox_retention (kind) values ('x')`,
		`update postrider.outbox_source set name = 'other'`, `delete from postrider.outbox_source`, `insert into postrider.outbox_source default values`,
		`update postrider.access_audit set actor = 'another'`, `delete from postrider.access_audit`,
		`insert into postrider.access_audit (actor, action, target_type, session_user_name) values ('a', 'b', 'c', 'd')`,
		`insert into postrider.access_due (actions, target_type, target_ids) values ('{b}', 'c', '{d}')`, `delete from postrider.access_due`,
		`select postrider.outbox_insert(array[gen_random_uuid()], null, '{t}', null, null, null)`,
		`select postrider.outbox_edit(1, gen_random_uuid(), true, 'x', null)`,
		`select postrider.outbox_close('{1}', array[gen_random_uuid()], '{1}')`,
		`select postrider.outbox_new_identity('copy')`, `select postrider.outbox_set_max_payload_bytes(1)`, `select postrider.access_owe('{b}', 'c')`,
		`select setval('postrider.outbox_event_id_seq', 1)`,
		`insert into postrider.schema_part (part) values ('desk')`, `delete from postrider.schema_migration`,
		`create table postrider.mine (id int)`, `drop table postrider.outbox_event`,
	}
	byHand := []string{`select postrider.outbox_skip(3, 'why')`, `select postrider.outbox_redrive(1)`, `select postrider.outbox_release(1)`,
		`select postrider.outbox_give_up(2)`, `select postrider.outbox_release_keys('{1}')`}
	work := []string{`insert into postrider.outbox_receipt (number, term, position) values (9, 9, 9)`, `update postrider.outbox_exception set attempts = 1`,
		`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now())`,
		`select postrider.outbox_purge_events('1 day', 10)`, `select postrider.outbox_purge_exceptions('1 day', 10)`, `select postrider.outbox_purge_keys('1 day', 10)`,
		`select postrider.access_purge_audit('30 days', 10)`, `select postrider.outbox_name_source('orders')`, `insert into postrider.outbox_own_topic values ('x', 'y')`}
	write := []string{`select postrider.outbox_publish('t', 'k', '{}')`, `insert into postrider.outbox_event (topic, key, payload) values ('t', 'k', 'v')`}
	look := []string{`select payload from postrider.outbox_look(1, gen_random_uuid())`, `select * from postrider.access_audit`, `select * from postrider.access_due`}
	note := []string{`insert into postrider.access_audit (action, target_type) values ('b', 'c')`}
	for role, rights := range map[string]struct{ may, mayNot [][]string }{
		"postrider_writer":   {[][]string{write}, [][]string{denied, byHand, work, look, note, {`select id from postrider.outbox_event`, `select * from postrider.outbox_source`}}},
		"postrider_relay":    {[][]string{work, note, {`select * from postrider.outbox_event`, `select * from postrider.outbox_source`}}, [][]string{denied, byHand, write, look}},
		"postrider_operator": {[][]string{look, note}, [][]string{denied, work, write}},
	} {
		login := d.login(role)
		for _, sql := range slices.Concat(rights.may...) {
			if code := as(t, login, role, sql); code != "" {
				t.Errorf("%s is refused with %s: %s", role, code, sql)
			}
		}
		for _, sql := range slices.Concat(rights.mayNot...) {
			if code := as(t, login, role, sql); code != insufficientPrivilege {
				t.Errorf("%s should be refused for want of rights, the server says %q: %s", role, code, sql)
			}
		}
		if role == "postrider_operator" { // with the row that each owes
			for _, sql := range byHand {
				if code := as(t, login, role, sql); code != "" {
					t.Errorf("%s is refused with %s: %s", role, code, sql)
				}
			}
		}
	}
	// What the relay reads is named one by one: a table that is added is not its own.
	reads := pgtest.Column[string](t, owner, `select relname::text from pg_class where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'v')
		and has_table_privilege('postrider_relay', oid, 'select') order by 1`)
	if want := []string{"outbox_attempt_rule", "outbox_event", "outbox_exception", "outbox_hold", "outbox_idempotency_key", "outbox_leader", "outbox_own_topic", "outbox_progress", "outbox_receipt",
		"outbox_retention", "outbox_skip_request", "outbox_source", "outbox_task_event", "schema_code", "schema_migration", "schema_part", "v_outbox_event"}; !slices.Equal(reads, want) {
		t.Errorf("the relay reads %v", reads)
	}
}

// TestRolesForOtherParts: a script that is for other parts than the database has is refused, and changes nothing.
func TestRolesForOtherParts(t *testing.T) {
	t.Parallel()
	_, alone := installed(t, outboxAlone...)
	whole := pgtest.New(t).Conn(t)
	for _, c := range []struct {
		conn  *pgx.Conn
		parts []migrations.Part
		has   string
	}{{alone, migrations.Parts(), "outbox"}, {alone, withTasks, "outbox"}, {whole, outboxAlone, "outbox,tasks,desk"}} {
		_, err := c.conn.Exec(t.Context(), migrations.RolesScript(c.parts))
		if err == nil || !strings.Contains(err.Error(), "this one was installed with "+c.has) {
			t.Errorf("%v in a database with %s: %v", c.parts, c.has, err)
		}
		execute(t, c.conn, "rollback")
	}
}
