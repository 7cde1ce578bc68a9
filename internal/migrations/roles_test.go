package migrations_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// as runs each statement under a role, in a transaction of its own that is rolled back, and
// returns the server's code, "" when the statement succeeds.
func as(t *testing.T, conn *pgx.Conn, role, sql string) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "set local role "+role); err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), sql)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return ""
}

const insufficientPrivilege = "42501"

func withRoles(t *testing.T) *pgx.Conn {
	t.Helper()
	conn := pgtest.New(t).Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	return conn
}

func allow(t *testing.T, conn *pgx.Conn, role string, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if code := as(t, conn, role, sql); code != "" {
			t.Errorf("%s is refused with %s: %s", role, code, sql)
		}
	}
}

func refuse(t *testing.T, conn *pgx.Conn, role string, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if code := as(t, conn, role, sql); code != insufficientPrivilege {
			t.Errorf("%s should be refused for want of rights, the server says %q: %s", role, code, sql)
		}
	}
}

func TestWriterMayOnlyWrite(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	// A restore without rights leaves nothing to everybody.
	pgtest.Exec(t, conn, `revoke all on sequence postrider.outbox_notifier from public`)
	pgtest.Exec(t, conn, `insert into postrider.outbox_event (topic, payload) values ('t', 'secret')`)
	allow(t, conn, "postrider_writer",
		`select postrider.outbox_publish('t', 'k', '{"a":1}'::jsonb)`,
		`select postrider.outbox_publish('t', 'k', '{}'::jsonb, '{"h":"v"}', 'once', now() + interval '1 hour', gen_random_uuid())`,
		`select postrider.outbox_publish_bytes('t', 'k'::text, '\x00'::bytea)`,
		`select postrider.outbox_publish_bytes('t', '\x01'::bytea, null::bytea)`,
		`insert into postrider.outbox_event (topic, key, payload) values ('t', 'k', 'v')`,
		`insert into postrider.outbox_event (topic, key, payload, headers, available_at, task_uuid) values ('t', 'k', 'v', '{}', now(), gen_random_uuid())`)
	refuse(t, conn, "postrider_writer",
		`select id from postrider.outbox_event`,
		`select * from postrider.v_outbox_event`,
		`insert into postrider.outbox_event (topic) values ('t') returning id`,
		`update postrider.outbox_event set payload = 'x'`,
		`delete from postrider.outbox_event`,
		`truncate postrider.outbox_event`,
		`insert into postrider.outbox_event (topic, max_attempts) values ('t', 1)`,
		`insert into postrider.outbox_event (topic, created_at) values ('t', now())`,
		`insert into postrider.outbox_event (topic, event_id) values ('t', gen_random_uuid())`,
		`insert into postrider.outbox_event (topic, kind) values ('t', 'task')`,
		`insert into postrider.outbox_event (topic, idempotency_key) values ('t', 'k')`,
		`insert into postrider.outbox_event (id, topic) overriding system value values (1, 't')`,
		`select nextval('postrider.outbox_event_id_seq')`,
		`select setval('postrider.outbox_event_id_seq', 1)`,
		`select * from postrider.outbox_progress`,
		`insert into postrider.outbox_receipt (number, term, position) values (1, 1, 1)`,
		`insert into postrider.outbox_skip_request (id, reason) values (1, 'why')`,
		`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now())`,
		`select * from postrider.outbox_idempotency_key`,
		`select * from postrider.dlq_entry`,
		`select * from postrider.dlq_letter`,
		`select postrider.outbox_set_max_payload_bytes(1)`,
		`select postrider.outbox_skip(1, 'why')`,
		`select postrider.outbox_redrive(1)`,
		`select postrider.outbox_release(1)`,
		`select postrider.outbox_give_up(1)`,
		`select postrider.outbox_close('{1}', array[gen_random_uuid()], '{1}')`,
		`select * from postrider.schema_migration`,
		`create table postrider.mine (id int)`)
}

func TestRelayMayNotWriteEvents(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	allow(t, conn, "postrider_relay",
		`insert into postrider.outbox_receipt (number, term, position) values (1, 1, 1)`,
		`select * from postrider.outbox_exception for update skip locked`,
		`insert into postrider.outbox_exception (id, state, next_attempt_at, event_id, topic) values (1, 'scheduled', now(), gen_random_uuid(), 't')`,
		`update postrider.outbox_exception set attempts = 1`,
		`delete from postrider.outbox_exception`,
		`delete from postrider.outbox_skip_request`,
		`insert into postrider.outbox_hold (scope, topic, cause, next_probe_at) values ('topic', 't', 'route', now())`,
		`update postrider.outbox_retention set reason = 'x'`,
		`select postrider.outbox_purge_events('1 day', 10)`,
		`select postrider.outbox_purge_keys('1 day', 10)`,
		`select postrider.outbox_standing('{1}', array[gen_random_uuid()])`,
		`select count(*) from postrider.schema_migration`)
	refuse(t, conn, "postrider_relay",
		`insert into postrider.outbox_retention (kind) values ('x')`,
		`insert into postrider.outbox_event (topic) values ('t')`,
		`update postrider.outbox_event set payload = 'x'`,
		`delete from postrider.outbox_event`,
		`delete from postrider.outbox_idempotency_key`,
		`update postrider.outbox_receipt set position = 1`,
		`delete from postrider.outbox_receipt`,
		`insert into postrider.outbox_skip_request (id, reason) values (1, 'why')`,
		`select setval('postrider.outbox_event_id_seq', 1)`,
		`select postrider.outbox_insert(array[gen_random_uuid()], null, '{t}', null, null, null)`,
		`select postrider.outbox_edit(1, gen_random_uuid(), true, 'x', null)`,
		`select postrider.outbox_close('{1}', array[gen_random_uuid()], '{1}')`,
		`select postrider.outbox_publish('t', 'k', '{}'::jsonb)`,
		`select postrider.outbox_set_max_payload_bytes(1)`,
		`delete from postrider.dlq_letter`,
		`delete from postrider.schema_migration`,
		`drop table postrider.outbox_event`)
}

func TestOperatorReadsAll(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	rows, err := conn.Query(t.Context(), `select format('select * from postrider.%I limit 0', relname) from pg_class
		where relnamespace = 'postrider'::regnamespace and relkind in ('r', 'v', 'm', 'p')`)
	if err != nil {
		t.Fatal(err)
	}
	everything, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(everything) < 8 {
		t.Fatalf("tables: %v, %v", everything, err)
	}
	allow(t, conn, "postrider_operator", everything...)
	allow(t, conn, "postrider_operator", `select postrider.dlq_resolve_group(gen_random_uuid(), now(), 10, 'cancelled', 'n', 'me')`)
	refuse(t, conn, "postrider_operator",
		`update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now(), resolution_notes = 'n', resolved_by = 'me', metadata = '{}', updated_at = now()`,
		`delete from postrider.dlq_entry`,
		`update postrider.dlq_entry set snapshot = '{}'`,
		`update postrider.outbox_event set payload = 'x'`,
		`truncate postrider.dlq_entry`,
		`delete from postrider.dlq_letter`,
		`update postrider.access_audit set actor = 'another person'`,
		`delete from postrider.access_audit`,
		`insert into postrider.access_key (access_key_id, secret_hash, name, scopes, created_by) values ('a', sha256('x'), 'n', '{admin}', 'me')`,
		`update postrider.access_key set scopes = '{admin}'`,
		`delete from postrider.dlq_operation`,
		`delete from postrider.dlq_redrive`,
		`insert into postrider.outbox_event (topic) values ('t')`,
		`select postrider.outbox_publish('t', 'k', '{}'::jsonb)`)
}

// That the commands themselves run with these rights is tested in internal/relay/postgres.
func TestOperatorTreatsWhatWaits(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	if _, err := conn.Exec(t.Context(), `insert into postrider.outbox_event (topic, key) values ('t', 'k');
		insert into postrider.outbox_hold (scope, topic, key, cause, next_probe_at) values ('key', 't', 'k', 'halted', 'infinity')`); err != nil {
		t.Fatal(err)
	}
	allow(t, conn, "postrider_operator",
		`select postrider.outbox_skip(1, 'not needed')`,
		`select * from postrider.outbox_release(1)`)
	// That a function refuses is not for want of rights.
	if code := as(t, conn, "postrider_operator", `select postrider.outbox_redrive(1)`); code != "55000" {
		t.Errorf("putting back an event that is pending: %q", code)
	}
	// The function that sends again sends letters of investigations, and nothing else that a caller names.
	if code := as(t, conn, "postrider_operator", `select postrider.dlq_redrive_letters(array['event:none:1'], array[gen_random_uuid()], array['t'], array['[]'::jsonb], true, 'anything')`); code != "55000" {
		t.Errorf("sending what is no letter: %q", code)
	}
	var refused []string
	for _, table := range []string{"outbox_event", "outbox_exception", "outbox_hold", "outbox_receipt", "outbox_skip_request", "outbox_retention", "outbox_own_topic", "outbox_attempt_rule", "outbox_write_probe",
		"outbox_idempotency_key"} {
		for _, column := range columnsOf(t, conn, table) {
			refused = append(refused, `update postrider.`+table+` set `+column+` = default`)
		}
		refused = append(refused, `select from postrider.`+table+` for update`, `insert into postrider.`+table+` default values`)
	}
	for _, table := range []string{"outbox_event", "outbox_exception", "outbox_hold", "outbox_receipt", "outbox_skip_request", "outbox_retention", "outbox_own_topic", "outbox_attempt_rule", "outbox_write_probe",
		"outbox_idempotency_key", "dlq_letter", "schema_migration"} {
		refused = append(refused, `delete from postrider.`+table, `truncate postrider.`+table)
	}
	refused = append(refused,
		`select postrider.outbox_exhaust(1, 'x')`,
		`select postrider.outbox_edit(1, gen_random_uuid(), true, 'x', null)`,
		`select postrider.outbox_insert(array[gen_random_uuid()], null, '{t}', null, null, null)`,
		`select postrider.outbox_close('{1}', array[gen_random_uuid()], '{1}')`,
		`select postrider.outbox_purge_events('1 day', 10)`,
		`select setval('postrider.outbox_event_id_seq', 1)`,
		`select postrider.outbox_set_max_payload_bytes(1)`)
	refuse(t, conn, "postrider_operator", refused...)
}

// Rights that crept in go when the script runs again.
func TestRolesScriptResets(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	if _, err := conn.Exec(t.Context(), `grant all on all tables in schema postrider to postrider_writer;
		grant update (payload) on postrider.outbox_event to postrider_writer;
		grant execute on all functions in schema postrider to postrider_writer`); err != nil {
		t.Fatal(err)
	}
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	refuse(t, conn, "postrider_writer", `select id from postrider.outbox_event`,
		`update postrider.outbox_event set payload = 'x'`, `select postrider.outbox_set_max_payload_bytes(1)`)
	allow(t, conn, "postrider_writer", `select postrider.outbox_publish('t', 'k', '{}'::jsonb)`)
}

func TestRolesInManyDatabasesAtOnce(t *testing.T) {
	t.Parallel()
	const databases = 4
	var wg sync.WaitGroup
	failures := make([]error, databases)
	for i := range databases {
		conn := pgtest.New(t).Conn(t)
		wg.Go(func() { failures[i] = migrations.ApplyRoles(t.Context(), conn) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Error(err)
	}
}

// Without the schema nothing is done, and the connection stays usable.
func TestRolesWithoutSchema(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewEmpty(t).Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err == nil {
		t.Error("no error without the schema")
	}
	if _, err := conn.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("the connection afterwards: %v", err)
	}
}

// TestTheAuditLogSaysWhoWroteIt: a role may say what was done and by whom, and neither when, by which login, nor in which transaction.
func TestTheAuditLogSaysWhoWroteIt(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	const begin = `insert into postrider.access_audit (actor, action, target_type`
	for _, role := range []string{"postrider_relay", "postrider_operator"} {
		allow(t, conn, role, begin+`, target_id, key_id, request_id, details) values ('a', 'b', 'c', 'd', 'e', 'f', '{}')`)
		refuse(t, conn, role,
			begin+`, at) values ('alice', 'dlq.purge', 'entry', '2001-01-01')`,
			begin+`, session_user_name) values ('alice', 'dlq.purge', 'entry', 'alice')`,
			begin+`, transaction_id) values ('alice', 'dlq.purge', 'entry', pg_current_xact_id())`,
			begin+`, access_audit_id) overriding system value values ('alice', 'dlq.purge', 'entry', 1)`,
			`insert into postrider.access_audit values (default, '2001-01-01', 'alice', null, 'dlq.purge', 'entry')`)
	}
	// The row names the login, whatever role that takes on.
	if _, err := conn.Exec(t.Context(), `set role postrider_operator; insert into postrider.access_audit (actor, action, target_type) values ('alice', 'dlq.purge', 'entry'); reset role`); err != nil {
		t.Fatal(err)
	}
	var right bool
	if err := conn.QueryRow(t.Context(), `select bool_and(session_user_name = session_user and session_user_name <> 'postrider_operator' and at > now() - interval '1 minute') from postrider.access_audit`).Scan(&right); err != nil || !right {
		t.Errorf("the log names another login or time: %v", err)
	}
}
