package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/migrations/pgtest"
)

// columnsOf are the columns of a table.
func columnsOf(t *testing.T, conn *pgx.Conn, table string) []string {
	t.Helper()
	columns := pgtest.Column[string](t, conn, `select attname::text from pg_attribute where attrelid = $1::text::regclass and attnum > 0 and not attisdropped`, "postrider."+table)
	if len(columns) == 0 {
		t.Fatalf("%s has no columns", table)
	}
	return columns
}

// TestOperatorsWriteNoTables: nothing of what people decide at the desk can be written by SQL of their own, but what
// redrives note, and what locks take. The functions that they are given are the only way.
func TestOperatorsWriteNoTables(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	var refused []string
	for _, table := range []string{"dlq_entry", "dlq_letter", "dlq_group", "dlq_count", "dlq_hour", "dlq_operation", "dlq_operation_item", "dlq_replay",
		"access_key", "access_audit", "access_due", "access_answer", "tasker_detector", "tasker_settings"} {
		for _, column := range columnsOf(t, conn, table) {
			if !slices.Contains([]string{"dlq_entry.generation", "dlq_entry.updated_at"}, table+"."+column) {
				refused = append(refused, fmt.Sprintf(`update postrider.%s set %s = default`, table, column))
			}
		}
		refused = append(refused, `delete from postrider.`+table, `truncate postrider.`+table)
		if table != "dlq_replay" && table != "access_audit" {
			refused = append(refused, `insert into postrider.`+table+` default values`)
		}
		if table != "dlq_entry" {
			refused = append(refused, `select from postrider.`+table+` for update`)
		}
	}
	refused = append(refused, `insert into postrider.access_audit (actor, action, target_type, transaction_id) values ('a', 'b', 'c', '1')`,
		`select postrider.access_owe()`, `select postrider.dlq_recount()`, `set session_replication_role = replica`)
	refuse(t, conn, "postrider_operator", refused...)
	refuse(t, conn, "postrider_writer", `select postrider.dlq_purge_entries('{}')`, `select postrider.dlq_change_entry(gen_random_uuid(), null, 'x', null, null, null, null)`,
		`select postrider.dlq_lock_group(gen_random_uuid())`, `select postrider.access_revoke_key('x')`, `select postrider.detectors_resume()`)
}

// atDesk is a database with one of everything that operators change, an operator's own login, and the owner.
type atDesk struct {
	*testing.T
	owner, operator *pgx.Conn
}

const (
	anEntry     = `'0192aaaa-0000-7000-8000-000000000001'`
	anOperation = `'0192aaaa-0000-7000-8000-000000000002'`
	noGroup     = `'00000000-0000-0000-0000-000000000000'`
)

func newAtDesk(t *testing.T) *atDesk {
	t.Helper()
	db := pgtest.New(t)
	owner := db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	address, _ := db.Login(t, "postrider_operator")
	pgtest.Exec(t, owner, `
		insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		values (`+anEntry+`, 'event', 's', 'failed', 'undeliverable', now(), now(), '{}');
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, origin_topic, origin_partition, origin_offset, key_kind, payload_kind)
		values ('l', `+anEntry+`, 'share_group', 'd', 0, 0, 'o', 0, 0, 'tombstone', 'tombstone');
		insert into postrider.dlq_operation (dlq_operation_uuid, kind, name, actor, state, scope, came_back, delivered)
		values (`+anOperation+`, 'redrive', 'n', 'ann', 'running', '{}', 3, 2);
		insert into postrider.access_key (access_key_id, secret_hash, name, scopes, created_by) values ('k', sha256('x'), 'n', '{read}', 'me')`)
	return &atDesk{t, owner, (&pgtest.DB{Name: db.Name, URL: address}).Conn(t)}
}

// digest is all that the database has, but for the audit log.
func (d *atDesk) digest() string {
	d.Helper()
	var sums []string
	for _, table := range pgtest.Column[string](d, d.owner, `select relname::text from pg_class where relnamespace = 'postrider'::regnamespace and relkind = 'r' and relname <> 'access_audit' order by 1`) {
		sums = append(sums, table+" "+pgtest.Value[string](d, d.owner, `select coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from postrider.`+table+` t`))
	}
	return strings.Join(sums, "\n")
}

// change runs a statement of the operator in a transaction with others, and commits it.
func (d *atDesk) change(statements ...string) error {
	d.Helper()
	return pgx.BeginFunc(d.Context(), d.operator, func(tx pgx.Tx) error {
		for _, sql := range statements {
			if _, err := tx.Exec(d.Context(), sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
}

const audited = `insert into postrider.access_audit (actor, action, target_type) values ('ann', 'x', 'y')`

// TestNothingIsChangedPastTheAuditLog: what an operator's own SQL changes at the desk is committed with a row of the
// audit log, before or after the change, and otherwise not at all.
func TestNothingIsChangedPastTheAuditLog(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"note":             `select postrider.dlq_change_entry(` + anEntry + `, null, 'seen', null, null, null, 'ann')`,
		"close":            `select postrider.dlq_change_entry(` + anEntry + `, 'cancelled', null, null, null, null, 'ann')`,
		"purge":            `select postrider.dlq_purge_entries(array[` + anEntry + `]::uuid[])`,
		"resolve a group":  `select postrider.dlq_resolve_group(` + noGroup + `, now(), 10, 'cancelled', 'known', 'ann')`,
		"change a group":   `select postrider.dlq_change_group(` + noGroup + `, 'seen', 'ann', 'ongoing', null)`,
		"complete":         `select postrider.dlq_complete_letter('l', 'deleted', null, null, null, null, '{"original": 1}', null)`,
		"send again":       `select postrider.outbox_resend(array['l'], array[gen_random_uuid()], array['t'], array['[]'::jsonb], true, 'forged')`,
		"insert":           `select postrider.dlq_insert_operation('purge', 'm', '', 'ann', '{}', '{}')`,
		"pause":            `select postrider.dlq_command_operation(` + anOperation + `, 'paused', false)`,
		"abort":            `select postrider.dlq_command_operation(` + anOperation + `, 'aborted', true)`,
		"revoke a key":     `select postrider.access_revoke_key('k')`,
		"pause detectors":  `select postrider.detectors_pause('ann', 'storm', 0)`,
		"touch":            `update postrider.dlq_entry set updated_at = now()`,
		"note a redrive":   `insert into postrider.dlq_replay (replay_id, dlq_entry_uuid, generation, outbox_id, event_id, target, actor) values ('r', ` + anEntry + `, 1, 1, gen_random_uuid(), 't', 'ann')`,
		"within a section": `do $$ begin perform postrider.dlq_purge_entries(array[` + anEntry + `]::uuid[]); exception when division_by_zero then null; end $$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newAtDesk(t)
			before := d.digest()
			for _, way := range [][]string{{sql}, {`set constraints all deferred`, sql}, {sql, `savepoint s`, audited, `rollback to s`}} {
				var refused *pgconn.PgError
				if err := d.change(way...); !errors.As(err, &refused) || refused.Code != insufficientPrivilege || !strings.Contains(refused.Message, "is not in the audit log") {
					t.Errorf("%q: %v", way, err)
				}
			}
			var refused *pgconn.PgError
			if err := d.change(`set constraints all immediate`, sql, audited); !errors.As(err, &refused) || refused.Code != insufficientPrivilege {
				t.Errorf("asked at once: %v", err)
			}
			if after := d.digest(); after != before {
				t.Errorf("it was changed past the audit log:\n%s\nbecame\n%s", before, after)
			}
			if err := d.change(sql, audited); err != nil {
				t.Error(err)
			}
			if after := d.digest(); after == before {
				t.Error("it changed nothing")
			}
			if n := pgtest.Value[int](t, d.owner, `select count(*) from postrider.access_due`); n != 0 {
				t.Errorf("%d debts are left", n)
			}
		})
	}
}

// TestTheRowMayComeFirst, and the next transaction needs its own.
func TestTheRowMayComeFirst(t *testing.T) {
	t.Parallel()
	d := newAtDesk(t)
	note := `select postrider.dlq_change_entry(` + anEntry + `, null, 'seen', null, null, null, 'ann')`
	if err := d.change(audited, `set constraints all immediate`, note, note); err != nil {
		t.Error(err)
	}
	if err := d.change(note); err == nil {
		t.Error("the row of another transaction counted")
	}
	// What changes nothing owes nothing.
	for _, sql := range []string{
		`select postrider.detectors_resume()`,
		`select postrider.dlq_resolve_group(gen_random_uuid(), now(), 10, 'cancelled', '', 'ann')`,
		`select postrider.dlq_complete_letter('none', 'deleted', null, null, null, null, '{}', null)`,
		`select * from postrider.dlq_lock_group(` + noGroup + `)`,
		`select * from postrider.dlq_lock_operation(` + anOperation + `)`,
	} {
		if err := d.change(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// The owner and serve write the tables as they like.
	pgtest.Exec(t, d.owner, note)
}

// TestWhatTheFunctionsRefuse: the rules of the desk hold for who calls them by hand, too.
func TestWhatTheFunctionsRefuse(t *testing.T) {
	t.Parallel()
	d := newAtDesk(t)
	nobody := `gen_random_uuid()`
	entry := func(id, status string) string {
		return `select postrider.dlq_change_entry(` + id + `, ` + status + `, null, null, null, null, 'ann')`
	}
	freeze := `select postrider.dlq_freeze_operation(` + anOperation + `, now(), null, null, '', '', '', '', '', '', '', null, null, 'pending')`
	code := func(sql, want string) {
		t.Helper()
		var refused *pgconn.PgError
		if err := d.change(audited, sql); !errors.As(err, &refused) || refused.Code != want {
			t.Errorf("%s: %v, want %s", sql, err, want)
		}
	}
	code(entry(nobody, `null`), "P0002")
	code(entry(anEntry, `'pending'`), "55000")
	code(entry(anEntry, `'open'`), "22P02")
	pgtest.Exec(t, d.owner, `insert into postrider.dlq_replay (replay_id, dlq_entry_uuid, generation, outbox_id, event_id, target, actor) values ('r', `+anEntry+`, 1, 1, gen_random_uuid(), 't', 'ann')`)
	code(entry(anEntry, `'cancelled'`), "55000")
	if n := pgtest.Value[int](t, d.owner, `select count(*) from postrider.dlq_resolve_group(`+noGroup+`, now(), 10, 'cancelled', '', 'ann')`); n != 0 {
		t.Errorf("%d investigations of which a redrive is on its way were closed with their group", n)
	}
	code(`select postrider.dlq_resolve_group(`+noGroup+`, now(), 10, 'pending', '', 'ann')`, "22023")
	pgtest.Exec(t, d.owner, `update postrider.dlq_replay set outcome = 'delivered', finished_at = now()`)
	if err := d.change(audited, entry(anEntry, `'cancelled'`)); err != nil {
		t.Fatal(err)
	}
	code(entry(anEntry, `'manually_resolved'`), "55000")

	for _, sql := range []string{freeze, `select postrider.dlq_plan_operation(` + anOperation + `, '{}')`, `select postrider.dlq_plan_operation(` + nobody + `, '{}')`,
		`select postrider.dlq_command_operation(` + anOperation + `, 'running', false)`, `select postrider.dlq_command_operation(` + anOperation + `, 'completed', false)`,
		`select postrider.dlq_command_operation(` + nobody + `, 'aborted', false)`} {
		code(sql, "55000")
	}
	// The whole of an operation, in one transaction.
	pgtest.Exec(t, d.owner, `update postrider.dlq_entry set resolution_status = 'pending', resolution_timestamp = null`)
	err := pgx.BeginFunc(t.Context(), d.operator, func(tx pgx.Tx) error {
		var id string
		if err := tx.QueryRow(t.Context(), `select dlq_operation_uuid::text from postrider.dlq_insert_operation('purge', 'all', '', 'ann', '{}', '{}')`).Scan(&id); err != nil {
			return err
		}
		for _, sql := range []string{strings.ReplaceAll(freeze, anOperation, "'"+id+"'"), `select postrider.dlq_plan_operation('` + id + `', '{}')`, audited} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[string](t, d.owner, `select o.state || ' ' || o.items || ' ' || (o.plan->>'items') || ' ' || i.dlq_entry_uuid from postrider.dlq_operation o join postrider.dlq_operation_item i using (dlq_operation_uuid) where o.name = 'all'`); got != "planned 1 1 "+strings.Trim(anEntry, "'") {
		t.Errorf("the operation is %s", got)
	}
}

// TestFunctionsOfOperatorsAreSafe: each runs with the owner's rights, so it finds nothing by the caller's search path, and
// is nobody's by default.
func TestFunctionsOfOperatorsAreSafe(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	grants, err := migrations.Grants()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range grants {
		if g.Kind != "function" || g.Role != "postrider_operator" {
			continue
		}
		var definer, open bool
		var settings []string
		if err := conn.QueryRow(t.Context(), `select prosecdef, coalesce(proconfig, '{}'), has_function_privilege('public', oid, 'execute') from pg_proc where oid = $1::text::regprocedure`,
			g.Name).Scan(&definer, &settings, &open); err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		if n++; definer && !slices.Contains(settings, "search_path=pg_catalog, pg_temp") || definer && open {
			t.Errorf("%s: settings %q, everybody's: %v", g.Name, settings, open)
		}
	}
	if n < 30 {
		t.Errorf("only %d functions", n)
	}
}

// TestServeOwesNothing: what serve writes by itself, such as that a redrive was delivered, is not held up.
func TestServeOwesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := migrations.ApplyRoles(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	address, _ := db.Login(t, "postrider_relay")
	relay, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = relay.Close(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{`update postrider.dlq_entry set updated_at = now()`, `select postrider.dlq_purge_entries('{}')`, `select postrider.detectors_pause('x', 'y', 5)`} {
		pgtest.Exec(t, relay, sql)
	}
}
