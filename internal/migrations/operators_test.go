package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
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

// TestOperatorsWriteNoTables: nothing of what people decide at the desk can be written by SQL of their own, not even the
// column of investigations whose right locks take. The functions that they are given are the only way.
func TestOperatorsWriteNoTables(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	var refused []string
	for _, table := range []string{"dlq_entry", "dlq_letter", "dlq_group", "dlq_fingerprint", "dlq_count", "dlq_hour", "dlq_operation", "dlq_operation_item", "dlq_redrive", "dlq_command", "dlq_comment",
		"access_key", "access_audit", "access_due", "access_answer", "tasker_switch", "tasker_detector", "tasker_settings"} {
		for _, column := range columnsOf(t, conn, table) {
			refused = append(refused, fmt.Sprintf(`update postrider.%s set %s = default`, table, column))
		}
		refused = append(refused, `delete from postrider.`+table, `truncate postrider.`+table)
		if table != "access_audit" {
			refused = append(refused, `insert into postrider.`+table+` default values`)
		}
		if table != "dlq_entry" {
			refused = append(refused, `select from postrider.`+table+` for update`)
		}
	}
	refused = append(refused, `insert into postrider.access_audit (actor, action, target_type, transaction_id) values ('a', 'b', 'c', '1')`,
		`select postrider.access_owe('{a}', 'b')`, `select postrider.dlq_recount()`, `set session_replication_role = replica`)
	refuse(t, conn, "postrider_operator", refused...)
	refuse(t, conn, "postrider_writer", `select postrider.dlq_purge_entries('{}')`, `select postrider.dlq_change_entry(gen_random_uuid(), null, 'x', null, null, null, null)`,
		`select postrider.dlq_lock_group(gen_random_uuid())`, `select postrider.access_revoke_key('x')`, `select postrider.engine_resume('archiver')`)
}

// TestWhatTheFunctionsRefuse: the rules of the desk hold for an operator who calls the functions by hand, too.
func TestWhatTheFunctionsRefuse(t *testing.T) {
	t.Parallel()
	d := newOperators(t)
	absent := `gen_random_uuid()`
	entry := func(id, status string) string {
		return `select postrider.dlq_change_entry(` + id + `, ` + status + `, null, null, null, null, 'ann')`
	}
	freeze := `select postrider.dlq_freeze_operation(` + anOperation + `, now(), null, null, '', '', '', '', '', '', '', null, null, 'pending', '', '', null)`
	code := func(sql, want string) {
		t.Helper()
		var refused *pgconn.PgError
		if err := d.change(sql); !errors.As(err, &refused) || refused.Code != want {
			t.Errorf("%s: %v, want %s", sql, err, want)
		}
	}
	code(entry(absent, `null`), "P0002")
	code(entry(anEntry, `'pending'`), "55000")
	code(entry(anEntry, `'open'`), "22P02")
	pgtest.Exec(t, d.owner, `insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, outbox_id, event_id, target, actor) values ('r', `+anEntry+`, 1, 1, gen_random_uuid(), 't', 'ann')`)
	code(entry(anEntry, `'cancelled'`), "55000")
	if n := pgtest.Value[int](t, d.owner, `select count(*) from postrider.dlq_resolve_group(`+noGroup+`, now(), 10, 'cancelled', '', 'ann')`); n != 0 {
		t.Errorf("%d investigations with a redrive on its way were closed with their group", n)
	}
	code(`select postrider.dlq_resolve_group(`+noGroup+`, now(), 10, 'pending', '', 'ann')`, "22023")
	pgtest.Exec(t, d.owner, `update postrider.dlq_redrive set outcome = 'delivered', finished_at = now()`)
	if err := d.change(row("dlq.resolve", "entry", anEntry), entry(anEntry, `'cancelled'`)); err != nil {
		t.Fatal(err)
	}
	code(entry(anEntry, `'manually_resolved'`), "55000")

	for _, sql := range []string{freeze, `select postrider.dlq_plan_operation(` + anOperation + `, '{}', '{}')`, `select postrider.dlq_plan_operation(` + absent + `, '{}', '{}')`,
		`select postrider.dlq_command_operation(` + anOperation + `, 'running', false)`, `select postrider.dlq_command_operation(` + anOperation + `, 'completed', false)`,
		`select postrider.dlq_command_operation(` + absent + `, 'aborted', false)`} {
		code(sql, "55000")
	}
	// The whole of an operation, in one transaction. What the caller foresaw is added to the plan, and replaces nothing.
	const planned = `select concat_ws(' ', o.items, o.plan->>'items', o.plan->>'keys', o.plan->>'foreseen') from postrider.dlq_operation o where o.name = 'all'`
	pgtest.Exec(t, d.owner, `update postrider.dlq_entry set resolution_status = 'pending', resolution_timestamp = null`)
	err := pgx.BeginFunc(t.Context(), d.operator, func(tx pgx.Tx) error {
		var id string
		if err := tx.QueryRow(t.Context(), `select dlq_operation_uuid::text from postrider.dlq_insert_operation('purge', 'all', '', 'ann', '{}', '{}')`).Scan(&id); err != nil {
			return err
		}
		for _, sql := range []string{strings.ReplaceAll(freeze, anOperation, "'"+id+"'"), `select postrider.dlq_plan_operation('` + id + `', '{}', null)`, row("operation.plan", "operation", "'"+id+"'")} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		if got := pgtest.Value[string](t, tx, planned); got != "2 2 0" {
			t.Errorf("nothing foreseen: %s", got)
		}
		_, err := tx.Exec(t.Context(), `select postrider.dlq_plan_operation('`+id+`', '{}', '{"items": 99, "keys": 99, "foreseen": 5}')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[string](t, d.owner, planned); got != "2 2 0 5" {
		t.Errorf("foreseen: %s", got)
	}
	if got := pgtest.Value[string](t, d.owner, `select o.state || ' ' || o.items || ' ' || (o.plan->>'items') || ' ' || i.dlq_entry_uuid from postrider.dlq_operation o join postrider.dlq_operation_item i using (dlq_operation_uuid) where o.name = 'all' and i.item = 2`); got != "planned 2 2 "+strings.Trim(anEntry, "'") {
		t.Errorf("the operation is %s", got)
	}
}

// sending sends the letter of the investigation again, and noting notes it as a redrive, or something else.
const sending = `postrider.dlq_redrive_letters(array['l'], array[gen_random_uuid()], array['t'], array['[]'::jsonb], true, 'forged')`

func noting(from, id, event, entry, letter string) string {
	return `with sent as materialized (select * from ` + from + `)
		select postrider.dlq_note_redrives(null, 'ann', array[` + entry + `]::uuid[], array[` + letter + `], array[` + id + `], array[` + event + `], array[false], array[0], array['t'], array[true]) from sent s`
}

// TestOnlyRealRedrivesAreNoted: a redrive can be noted only for a message that was sent again, only for the investigation
// of that message, and only once.
func TestOnlyRealRedrivesAreNoted(t *testing.T) {
	t.Parallel()
	d := newOperators(t)
	pgtest.Exec(t, d.owner, `insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		values (`+anotherEntry+`, 'event', 's2', 'failed', 'undeliverable', now(), now(), '{}');
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind)
		values ('m', `+anotherEntry+`, 'unknown', 'd', 0, 1, 'tombstone', 'tombstone');
		insert into postrider.outbox_event (topic) values ('t')`)
	refused := func(what, sql string) {
		t.Helper()
		before := d.digest()
		var pg *pgconn.PgError
		if err := d.change(sql); !errors.As(err, &pg) || pg.Code != "55000" || pg.Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
		if d.digest() != before {
			t.Errorf("%s: something is noted", what)
		}
	}
	right := noting(sending, `s.id`, `s.event_id`, anEntry, `'l'`)
	for what, sql := range map[string]string{
		"nothing was sent":         noting(`generate_series(1, 1) s(id)`, `1::bigint`, `gen_random_uuid()`, anEntry, `'l'`),
		"something else was sent":  noting(`postrider.outbox_event`, `s.id`, `s.event_id`, anEntry, `'l'`),
		"of another investigation": noting(sending, `s.id`, `s.event_id`, anotherEntry, `'m'`),
		"of another letter":        noting(sending, `s.id`, `s.event_id`, anEntry, `'m'`),
		"by another event id":      noting(sending, `s.id`, `gen_random_uuid()`, anEntry, `'l'`),
		"of none":                  noting(sending, `s.id`, `s.event_id`, `null`, `'l'`),
		"not put back":             strings.Replace(right, `array[false]`, `array[true]`, 1),
		"one of two":               strings.NewReplacer(`array[`+anEntry+`]`, `array[`+anEntry+`, `+anotherEntry+`]`, `array[s.event_id]`, `array[s.event_id, gen_random_uuid()]`).Replace(right),
	} {
		refused(what, sql)
	}
	if err := d.change(row("dlq.requeue", "entry", anEntry), right); err != nil {
		t.Fatal(err)
	}
	refused("sent twice", right)
	refused("noted twice", noting(`(select outbox_id as id, event_id from postrider.dlq_redrive) r`, `s.id`, `s.event_id`, anEntry, `'l'`))
	pgtest.Exec(t, d.owner, `update postrider.dlq_redrive set outcome = 'delivered', finished_at = now()`)
	refused("noted again", noting(`(select outbox_id as id, event_id from postrider.dlq_redrive) r`, `s.id`, `s.event_id`, anEntry, `'l'`))
	if err := d.change(row("dlq.requeue", "entry", anEntry), right); err != nil {
		t.Fatal(err)
	}
	const want = "1 ann t/2 ann t"
	if got := pgtest.Value[string](t, d.owner, `select string_agg(generation || ' ' || actor || ' ' || target, '/' order by generation) from postrider.dlq_redrive where redrive_id = dlq_entry_uuid || ':' || generation and edited`); got != want {
		t.Errorf("noted are %q, want %q", got, want)
	}
	pgtest.Exec(t, d.owner, `update postrider.dlq_redrive set outcome = 'delivered', finished_at = now(); update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now()`)
	refused("closed", right)
}

// TestFunctionsOfOperatorsAreSafe: each runs with the owner's rights, so it finds nothing by the caller's search path, and
// by default no role may call it.
func TestFunctionsOfOperatorsAreSafe(t *testing.T) {
	t.Parallel()
	conn := withRoles(t)
	grants, err := migrations.Grants(migrations.Parts())
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
