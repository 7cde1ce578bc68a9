package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// operators is a database with one of everything that operators change, an operator's own login, and the owner.
type operators struct {
	*testing.T
	db              *pgtest.DB
	owner, operator *pgx.Conn
}

const (
	anEntry     = `'0192aaaa-0000-7000-8000-000000000001'`
	anOperation = `'0192aaaa-0000-7000-8000-000000000002'`
	aTask       = `'0192aaaa-0000-7000-8000-000000000004'`
	aFailedTask = `'0192aaaa-0000-7000-8000-000000000005'`
	aTemplate   = `{"name": "order", "namespace_name": "ns", "version": "1.0.0", "steps": [{"name": "a", "handler": "h"}]}`
	// aGroupedEntry is in aGroup, and of another topic than that.
	aGroupedEntry = `'0192aaaa-0000-7000-8000-000000000008'`
	anotherEntry  = `'0192aaaa-0000-7000-8000-000000000003'`
	aGroup        = `'0192aaaa-0000-7000-8000-000000000006'`
	anotherGroup  = `'0192aaaa-0000-7000-8000-000000000007'`
	noGroup       = `'00000000-0000-0000-0000-000000000000'`
)

func newOperators(t *testing.T) *operators {
	t.Helper()
	db := pgtest.New(t)
	owner := db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, owner, `
		insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		values (`+anEntry+`, 'event', 's', 'failed', 'undeliverable', now(), now(), '{}');
		insert into postrider.dlq_group (dlq_group_uuid, fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at)
		values (`+aGroup+`, '1:a', 1, '{}', 'a', now(), now()), (`+anotherGroup+`, '1:b', 1, '{}', 'b', now(), now());
		insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, topic, dlq_group_uuid)
		values (`+aGroupedEntry+`, 'record', 'g', 'failed', 'undeliverable', now(), now(), '{}', 'orders', `+aGroup+`);
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, origin_topic, origin_partition, origin_offset, key_kind, payload_kind)
		values ('l', `+anEntry+`, 'share_group', 'd', 0, 0, 'o', 0, 0, 'tombstone', 'tombstone');
		insert into postrider.dlq_operation (dlq_operation_uuid, kind, name, actor, state, scope, came_back, delivered)
		values (`+anOperation+`, 'redrive', 'n', 'ann', 'running', '{}', 3, 2);
		insert into postrider.access_key (access_key_id, secret_hash, name, scopes, created_by) values ('k', sha256('x'), 'n', '{read}', 'me');
		insert into postrider.outbox_event (topic, key, payload) values ('orders', 'k', 'dead'), ('orders', 'k', 'waits'), ('orders', 'other', 'waits');
		insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at)
		select 'key', topic, key, 'halted', event_id, 'infinity' from postrider.outbox_event where id = 1;
		insert into postrider.outbox_hold (scope, topic, code, cause, next_probe_at) values ('failure', 'orders', 'MESSAGE_TOO_LARGE', 'circuit_breaker', 'infinity');
		select postrider.apply_template('`+aTemplate+`');
		select postrider.create_task('ns', 'order', p_task_uuid => `+aTask+`), postrider.create_task('ns', 'order', p_task_uuid => `+aFailedTask+`);
		select postrider.task_move(`+aFailedTask+`, 'error');
		update postrider.tasker_tasks set stale_flagged_at = now() where task_uuid = `+aTask)
	outboxtest.Settle(t, owner, outboxtest.DeadLettered, 1)
	d := &operators{t, db, owner, nil}
	d.operator = d.login("postrider_operator")
	return d
}

// digest is all that the database has, but for the audit log.
func (d *operators) digest() string {
	d.Helper()
	var sums []string
	for _, table := range pgtest.Column[string](d, d.owner, `select relname::text from pg_class where relnamespace = 'postrider'::regnamespace and relkind = 'r' and relname <> 'access_audit' order by 1`) {
		sums = append(sums, table+" "+pgtest.Value[string](d, d.owner, `select coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from postrider.`+table+` t`))
	}
	return strings.Join(sums, "\n")
}

// change runs a statement of the operator in a transaction with others, and commits it.
func (d *operators) change(statements ...string) error {
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
		"merge groups":     `select postrider.dlq_merge_groups(` + aGroup + `, ` + anotherGroup + `, 10, 'ann')`,
		"split a group":    `select postrider.dlq_split_group(` + aGroup + `, array[` + aGroupedEntry + `]::uuid[], '{1:exact,1:more}', 1, '{}', 'a part', 'word', 'ann')`,
		"change a group":   `select postrider.dlq_change_group(` + noGroup + `, 'seen', 'ann', 'ongoing', null)`,
		"complete":         `select postrider.dlq_complete_letter('l', 'deleted', null, null, null, null, '{"original": 1}', null)`,
		"send again":       `select postrider.dlq_redrive_letters(array['l'], array[gen_random_uuid()], array['t'], array['[]'::jsonb], true, 'forged')`,
		"insert":           `select postrider.dlq_insert_operation('purge', 'm', '', 'ann', '{}', '{}')`,
		"pause":            `select postrider.dlq_command_operation(` + anOperation + `, 'paused', false)`,
		"abort":            `select postrider.dlq_command_operation(` + anOperation + `, 'aborted', true)`,
		"revoke a key":     `select postrider.access_revoke_key('k')`,
		"pause detectors":  `select postrider.detectors_pause('ann', 'incident', 0)`,
		"release":          `select postrider.outbox_release(1)`,
		"give up":          `select postrider.outbox_give_up(2)`,
		"release keys":     `select postrider.outbox_release_keys(array[1])`,
		"skip":             `select postrider.outbox_skip(3, 'why')`,
		"redrive in place": `select postrider.outbox_redrive(1)`,
		"create a task":    `select postrider.create_task('ns', 'order')`,
		"move a task":      `select postrider.transition_task_state_atomic(` + aTask + `, 'pending', 'initializing')`,
		"evaluate a task":  `select postrider.evaluate_task(` + aTask + `)`,
		"cancel a task":    `select postrider.cancel_task(` + aTask + `, 'ann', 'known')`,
		"unflag a task":    `select postrider.unflag_task(` + aTask + `, 'ann')`,
		"retry a task":     `select postrider.retry_task(` + aFailedTask + `, 'ann')`,
		"bury a task":      `select postrider.dead_letter_task(` + aTask + `, 'known', 'ann')`,
		"act on a step":    `select postrider.step_action(` + aTask + `, (select workflow_step_uuid from postrider.tasker_workflow_steps where task_uuid = ` + aTask + `), 'cancel', null, 'ann')`,
		"new template":     `select postrider.apply_template('` + strings.Replace(aTemplate, "order", "parcel", 1) + `')`,
		"change template":  `select postrider.apply_template('` + strings.Replace(aTemplate, `"handler": "h"`, `"handler": "i"`, 1) + `')`,
		"namespace":        `select postrider.apply_namespace('ns', '{"max_duration_minutes": 5}')`,
		"find stale":       `select postrider.detect_and_transition_stale_tasks(false, p_task_max_lifetime_hours => 0)`,
		"touch":            `update postrider.dlq_entry set updated_at = now()`,
		"note a redrive":   noting(sending, `s.id`, `s.event_id`, anEntry, `'l'`),
		"within a section": `do $$ begin perform postrider.dlq_purge_entries(array[` + anEntry + `]::uuid[]); exception when division_by_zero then null; end $$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOperators(t)
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
	d := newOperators(t)
	note := `select postrider.dlq_change_entry(` + anEntry + `, null, 'seen', null, null, null, 'ann')`
	if err := d.change(audited, `set constraints all immediate`, note, note); err != nil {
		t.Error(err)
	}
	if err := d.change(note); err == nil {
		t.Error("the row of another transaction counted")
	}
	// A call that changes nothing needs no row of the audit log. Nor does a change that no person decides: reading a task,
	// archiving by age, summaries, heartbeats.
	for _, sql := range []string{
		`select postrider.detectors_resume()`,
		`select postrider.dlq_resolve_group(gen_random_uuid(), now(), 10, 'cancelled', '', 'ann')`,
		`select postrider.dlq_complete_letter('none', 'deleted', null, null, null, null, '{}', null)`,
		`select * from postrider.dlq_lock_group(` + noGroup + `)`,
		`select postrider.dlq_note_redrives(null, 'ann', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')`,
		`select * from postrider.dlq_lock_operation(` + anOperation + `)`,
		`select postrider.outbox_release(99)`,
		`select postrider.outbox_give_up(99)`,
		`select postrider.outbox_release_keys('{2, 3}')`,
		`select postrider.transition_task_state_atomic(` + aTask + `, 'initializing', 'enqueuing_steps')`,
		`select postrider.evaluate_task(` + aFailedTask + `)`,
		`select postrider.apply_template('` + aTemplate + `')`,
		`select postrider.detect_and_transition_stale_tasks(true, p_task_max_lifetime_hours => 0)`,
		`select postrider.detect_and_transition_stale_tasks(false)`,
		`select postrider.read_task(` + aTask + `)`,
		`select postrider.archive_completed_tasks(0, p_dry_run => false)`,
		`select postrider.refresh_dashboards()`,
		`select postrider.worker_heartbeat('ns', 'w')`,
	} {
		if err := d.change(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	// The owner and serve write the tables as they like.
	pgtest.Exec(t, d.owner, note)
}

// TestServeOwesNothing: a write that serve makes by itself, for example that a redrive was delivered, is not held up. Nor is
// a change that a caller of its API asks for: the API writes the audit log itself.
func TestServeOwesNothing(t *testing.T) {
	t.Parallel()
	d := newOperators(t)
	d.operator = d.login("postrider_relay")
	for _, sql := range []string{`update postrider.dlq_entry set updated_at = now()`, `select postrider.dlq_purge_entries('{}')`, `select postrider.detectors_pause('x', 'y', 5)`,
		`select postrider.outbox_release_keys('{1}')`, `select postrider.outbox_skip(3, 'why')`, `select postrider.outbox_give_up(2)`, `select postrider.create_task('ns', 'order')`,
		`select postrider.retry_task(` + aFailedTask + `)`, `select postrider.detect_and_transition_stale_tasks(false, p_task_max_lifetime_hours => 0)`,
		`select postrider.apply_namespace('ns', '{}')`} {
		before := d.digest()
		if err := d.change(sql); err != nil {
			t.Error(err)
		}
		if !strings.Contains(sql, "purge") && d.digest() == before {
			t.Errorf("%s changed nothing", sql)
		}
	}
}

// login is a session of a login that has a role.
func (d *operators) login(role string) *pgx.Conn {
	d.Helper()
	address, _ := d.db.Login(d.T, role)
	return (&pgtest.DB{Name: d.db.Name, URL: address}).Conn(d.T)
}

// TestServicesOweNothing: services work on tasks without the audit log, whatever other rights their login has, and whether
// it has the right by a role or by a grant of its own. Actions that only people take need the audit log from them, too.
func TestServicesOweNothing(t *testing.T) {
	t.Parallel()
	const another = `'0192aaaa-0000-7000-8000-000000000006'`
	create := `select postrider.create_task('ns', 'order', p_task_uuid => ` + another + `)`
	for name, role := range map[string]string{"a service": "postrider_writer", "a service that operates": "postrider_operator, postrider_writer"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOperators(t)
			d.operator = d.login(role)
			for _, sql := range []string{
				create,
				`select postrider.evaluate_task(` + another + `)`,
				`select postrider.transition_task_state_atomic(` + aTask + `, 'pending', 'initializing')`,
				`select postrider.cancel_task(` + another + `, 'w', 'enough')`,
			} {
				before := d.digest()
				if err := d.change(sql); err != nil {
					t.Error(err)
				}
				if d.digest() == before {
					t.Errorf("%s changed nothing", sql)
				}
			}
			if err := d.change(`select postrider.retry_task(` + aFailedTask + `, 'w')`); err == nil {
				t.Error("it retries a task past the audit log")
			}
		})
	}
	t.Run("who was given one function, and no role", func(t *testing.T) {
		t.Parallel()
		d := newOperators(t)
		d.operator = d.login("pg_read_all_stats")
		login := pgx.Identifier{d.operator.Config().User}.Sanitize()
		const function = `function postrider.create_task(text, text, jsonb, text, integer, jsonb, text, uuid, text)`
		pgtest.Exec(t, d.owner, `grant usage on schema postrider to `+login+`; grant execute on `+function+` to `+login)
		defer pgtest.Exec(t, d.owner, `revoke execute on `+function+` from `+login+`; revoke usage on schema postrider from `+login)
		if err := d.change(create); err != nil {
			t.Error(err)
		}
	})
}
