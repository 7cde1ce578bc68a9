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
	anotherTask = `'0192aaaa-0000-7000-8000-000000000009'`
	aTemplate   = `{"name": "order", "namespace_name": "ns", "version": "1.0.0", "steps": [{"name": "a", "handler": "h"}]}`
	// aGroupedEntry is in aGroup, and of another topic than that.
	aGroupedEntry = `'0192aaaa-0000-7000-8000-000000000008'`
	anotherEntry  = `'0192aaaa-0000-7000-8000-000000000003'`
	// aSourceEntry is of an event of the source orders, with the letter aSourceLetter.
	aSourceEntry  = `'0192aaaa-0000-7000-8000-00000000000a'`
	aSourceLetter = `'orders/event:0192aaaa-0000-7000-8000-00000000000b:1'`
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
		values (`+anEntry+`, 'record', 's', 'failed', 'undeliverable', now(), now(), '{}');
		insert into postrider.dlq_group (dlq_group_uuid, fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at)
		values (`+aGroup+`, '1:a', 1, '{}', 'a', now(), now()), (`+anotherGroup+`, '1:b', 1, '{}', 'b', now(), now());
		insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, topic, dlq_group_uuid)
		values (`+aGroupedEntry+`, 'record', 'g', 'failed', 'undeliverable', now(), now(), '{}', 'orders', `+aGroup+`);
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, origin_topic, origin_partition, origin_offset, key_kind, payload_kind)
		values ('l', `+anEntry+`, 'share_group', 'd', 0, 0, 'o', 0, 0, 'tombstone', 'tombstone');
		insert into postrider.dlq_operation (dlq_operation_uuid, kind, name, actor, state, scope, came_back, delivered)
		values (`+anOperation+`, 'redrive', 'n', 'ann', 'running', '{}', 3, 2);
		insert into postrider.dlq_comment (dlq_entry_uuid, author, author_id, text) values (`+anEntry+`, 'ann', 'key:a', 'x');
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
	pgtest.Exec(t, owner, `update postrider.dlq_comment set author = 'cli:`+d.operator.Config().User+`', author_id = 'cli:`+d.operator.Config().User+`' where author = 'ann'`)
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

// row writes to the audit log, in the name of the login, that something was done; id is an expression.
func row(action, kind, id string) string {
	return fmt.Sprintf(`insert into postrider.access_audit (action, target_type, target_id) values ('%s', '%s', %s)`, action, kind, id)
}

// rowWith is row for what was done to no thing alone, with details.
func rowWith(action, kind, details string) string {
	return fmt.Sprintf(`insert into postrider.access_audit (action, target_type, details) values ('%s', '%s', '%s')`, action, kind, details)
}

// rowOf is row with an actor of its own.
func rowOf(actor, action, kind, id string) string {
	return fmt.Sprintf(`insert into postrider.access_audit (actor, action, target_type, target_id) values ('%s', '%s', '%s', %s)`, actor, action, kind, id)
}

// owing are the changes that operators make by functions, with what each owes the audit log.
var owing = map[string]struct{ sql, action, kind, id string }{
	"note":             {`select postrider.dlq_change_entry(` + anEntry + `, null, 'seen', null, null, null, 'ann')`, "dlq.note", "entry", anEntry},
	"close":            {`select postrider.dlq_change_entry(` + anEntry + `, 'cancelled', null, null, null, null, 'ann')`, "dlq.resolve", "entry", anEntry},
	"purge":            {`select postrider.dlq_purge_entries(array[` + anEntry + `]::uuid[])`, "dlq.purge", "entry", anEntry},
	"resolve a group":  {`select postrider.dlq_resolve_group(` + noGroup + `, now(), 10, 'cancelled', 'known', 'ann')`, "group.resolve", "group", noGroup},
	"comment":          {`select postrider.dlq_insert_comment(` + anEntry + `, null, 'cli:' || session_user, null, 'seen')`, "dlq.comment", "entry", anEntry},
	"comment a group":  {`select postrider.dlq_insert_comment(null, ` + aGroup + `, 'cli:' || session_user, null, 'seen')`, "group.comment", "group", aGroup},
	"delete a comment": {`select postrider.dlq_delete_comment(` + anEntry + `, null, 1, 'cli:' || session_user, null)`, "dlq.comment_delete", "entry", anEntry},
	"merge groups":     {`select postrider.dlq_merge_groups(` + aGroup + `, ` + anotherGroup + `, 10, 'ann')`, "group.merge", "group", aGroup},
	"split a group":    {`select postrider.dlq_split_group(` + aGroup + `, array[` + aGroupedEntry + `]::uuid[], '{1:exact,1:more}', 1, '{}', 'a part', 'word', 'ann')`, "group.split", "group", aGroup},
	"change a group":   {`select postrider.dlq_change_group(` + aGroup + `, 'seen', 'ann', 'ongoing', null)`, "group.note", "group", aGroup},
	"mute a group":     {`select postrider.dlq_change_group(` + aGroup + `, null, null, 'muted', null)`, "group.mute", "group", aGroup},
	"complete":         {`select postrider.dlq_complete_letter('l', 'deleted', null, null, null, null, '{"original": 1}', null)`, "dlq.fetch", "entry", anEntry},
	"send again":       {`select postrider.dlq_redrive_letters(array['l'], array[gen_random_uuid()], array['t'], array['[]'::jsonb], true, 'forged')`, "dlq.requeue", "entry", anEntry},
	"note a redrive":   {noting(sending, `s.id`, `s.event_id`, anEntry, `'l'`), "dlq.requeue", "entry", anEntry},
	"ask a source":     {`select postrider.dlq_ask_source(null, 'ann', array[` + aSourceEntry + `]::uuid[], array[` + aSourceLetter + `], array[gen_random_uuid()], '{o}', '{false}', '{"{}"}')`, "dlq.requeue", "entry", aSourceEntry},
	"ask for a key":    {`select postrider.dlq_ask_release('ann', array[` + aSourceEntry + `]::uuid[], array[` + aSourceLetter + `])`, "outbox.release", "entry", aSourceEntry},
	"forget a source":  {`select postrider.dlq_forget_source('orders')`, "source.forget", "source", `'orders'`},
	"rejoin a source":  {`select postrider.dlq_rejoin_source('orders', gen_random_uuid(), 0, 0, '{}', '[]')`, "source.rejoin", "source", `'orders'`},
	"insert":           {`select postrider.dlq_insert_operation('purge', 'm', '', 'ann', '{}', '{}')`, "operation.plan", "operation", `(select dlq_operation_uuid from postrider.dlq_operation where name = 'm')`},
	"pause":            {`select postrider.dlq_command_operation(` + anOperation + `, 'paused', false)`, "operation.pause", "operation", anOperation},
	"abort":            {`select postrider.dlq_command_operation(` + anOperation + `, 'aborted', true)`, "operation.abort", "operation", anOperation},
	"revoke a key":     {`select postrider.access_revoke_key('k')`, "key.revoke", "key", `'k'`},
	"pause detectors":  {`select postrider.engine_pause('detector', 'ann', 'incident', 0)`, "detector.pause", "detector", `null`},
	"pause archivers":  {`select postrider.engine_pause('archiver', 'ann', 'incident', 0)`, "archiver.pause", "archiver", `null`},
	"release":          {`select postrider.outbox_release(1)`, "outbox.release", "hold", `1`},
	"give up":          {`select postrider.outbox_give_up(2)`, "outbox.give_up", "hold", `2`},
	"release keys":     {`select postrider.outbox_release_keys(array[1])`, "outbox.release", "event", `1`},
	"skip":             {`select postrider.outbox_skip(3, 'why')`, "outbox.skip", "event", `3`},
	"redrive in place": {`select postrider.outbox_redrive(1)`, "outbox.redrive", "event", `1`},
	"create a task":    {`select postrider.create_task('ns', 'order', p_task_uuid => ` + anotherTask + `)`, "task.create", "task", anotherTask},
	"move a task":      {`select postrider.transition_task_state_atomic(` + aTask + `, 'pending', 'initializing')`, "task.transition", "task", aTask},
	"evaluate a task":  {`select postrider.evaluate_task(` + aTask + `)`, "task.evaluate", "task", aTask},
	"cancel a task":    {`select postrider.cancel_task(` + aTask + `, 'ann', 'known')`, "task.cancel", "task", aTask},
	"unflag a task":    {`select postrider.unflag_task(` + aTask + `, 'ann')`, "task.unflag", "task", aTask},
	"retry a task":     {`select postrider.retry_task(` + aFailedTask + `, 'ann')`, "task.retry", "task", aFailedTask},
	"bury a task":      {`select postrider.dead_letter_task(` + aTask + `, 'known', 'ann')`, "task.dead_letter", "task", aTask},
	"act on a step": {`select postrider.step_action(` + aTask + `, (select workflow_step_uuid from postrider.tasker_workflow_steps where task_uuid = ` + aTask + `), 'cancel', null, 'ann')`,
		"step.cancel", "task", aTask},
	"new template":    {`select postrider.apply_template('` + strings.Replace(aTemplate, "order", "parcel", 1) + `')`, "template.apply", "template", `'ns/parcel@1.0.0'`},
	"change template": {`select postrider.apply_template('` + strings.Replace(aTemplate, `"handler": "h"`, `"handler": "i"`, 1) + `')`, "template.apply", "template", `'ns/order@1.0.0'`},
	"namespace":       {`select postrider.apply_namespace('ns', '{"max_duration_minutes": 5}')`, "namespace.apply", "namespace", `'ns'`},
	"find stale":      {`select postrider.detect_and_transition_stale_tasks(false, p_task_max_lifetime_hours => 0)`, "task.detect_stale", "task", `null`},
	"within a section": {`do $$ begin perform postrider.dlq_purge_entries(array[` + anEntry + `]::uuid[]); exception when division_by_zero then null; end $$`,
		"dlq.purge", "entry", anEntry},
}

// TestNothingIsChangedPastTheAuditLog: what an operator's own SQL changes is committed with a row of the audit log that
// says so: the action, the thing and the login; before or after the change, and otherwise not at all. The refusal names what
// is missing, and its hint is the statement that writes it.
func TestNothingIsChangedPastTheAuditLog(t *testing.T) {
	t.Parallel()
	for name, c := range owing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOperators(t)
			pgtest.Exec(t, d.owner, `
				insert into postrider.dlq_entry (dlq_entry_uuid, subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, source)
				values (`+aSourceEntry+`, 'event', 'orders/0192aaaa-0000-7000-8000-00000000000b', 'failed', 'undeliverable', now(), now(), '{}', 'orders');
				insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, origin_topic, origin_partition, origin_offset, key_kind, payload_kind,
					source, source_outbox_id, event_id, episode)
				values (`+aSourceLetter+`, `+aSourceEntry+`, 'postrider', 'd', 0, 1, 'o', 0, 0, 'tombstone', 'tombstone', 'orders', 1, '0192aaaa-0000-7000-8000-00000000000b', 1)`)
			login := "cli:" + d.operator.Config().User
			right := row(c.action, c.kind, c.id)
			before, hint := d.digest(), ""
			for what, way := range map[string][]string{
				"no row":                         {c.sql},
				"no row, asked late":             {`set constraints all deferred`, c.sql},
				"a row that is taken back":       {c.sql, `savepoint s`, right, `rollback to s`},
				"asked and taken back":           {c.sql, `savepoint s`, right, `set constraints all immediate`, `rollback to s`},
				"another action":                 {c.sql, row("nothing", c.kind, c.id)},
				"an action with a like name":     {c.sql, row(c.action+".x", c.kind, c.id)},
				"another thing":                  {c.sql, row(c.action, c.kind, `gen_random_uuid()`)},
				"a thing of another kind":        {c.sql, row(c.action, "payload", c.id)},
				"another's name":                 {c.sql, rowOf("another person", c.action, c.kind, c.id)},
				"another's login":                {c.sql, rowOf("cli:root", c.action, c.kind, c.id)},
				"a login that begins like it":    {c.sql, rowOf(login+"x", c.action, c.kind, c.id)},
				"a name that is not in brackets": {c.sql, rowOf(login+" (", c.action, c.kind, c.id)},
				"a row that comes too late":      {`set constraints all immediate`, c.sql, right},
			} {
				var refused *pgconn.PgError
				if err := d.change(way...); !errors.As(err, &refused) || refused.Code != insufficientPrivilege || !strings.Contains(refused.Message, c.action) ||
					!strings.Contains(refused.Message, "is not in the audit log") || !strings.Contains(refused.Detail, login) {
					t.Errorf("%s: %v", what, err)
				} else {
					hint = refused.Hint
				}
			}
			if after := d.digest(); after != before {
				t.Errorf("it was changed past the audit log:\n%s\nbecame\n%s", before, after)
			}
			_, call, _ := strings.Cut(hint, "in the same transaction: ")
			if !strings.HasPrefix(call, "insert into postrider.access_audit") {
				t.Fatalf("the hint says %q", hint)
			}
			if c.id[0] == '(' { // an id that the next call draws anew
				call = right
			}
			if err := d.change(c.sql, call); err != nil {
				t.Errorf("%s: %v", call, err)
			}
			if after := d.digest(); after == before {
				t.Error("it changed nothing")
			}
			if n := pgtest.Value[int](t, d.owner, `select count(*) from postrider.access_due`); n != 0 {
				t.Errorf("%d dues are left", n)
			}
			if got := pgtest.Value[string](t, d.owner, `select string_agg(distinct actor, ', ') from postrider.access_audit`); got != login {
				t.Errorf("the log names %s, want %s", got, login)
			}
		})
	}
}

// TestOperatorsWriteInTheirOwnName: an operator's SQL neither writes nor deletes a comment as another. The name that a
// person gives behind the login is taken.
func TestOperatorsWriteInTheirOwnName(t *testing.T) {
	t.Parallel()
	d := newOperators(t)
	pgtest.Exec(t, d.owner, `select postrider.dlq_insert_comment(`+anEntry+`, null, 'ann', 'key:ann', 'of the API')`) // 2
	before := d.digest()
	for _, author := range []string{`'ann'`, `null`, `'cli:root'`, `'cli:' || session_user || 'x'`, `'cli:' || session_user || ' (ann'`} {
		for action, sql := range map[string]string{
			"dlq.comment":        `select postrider.dlq_insert_comment(` + anEntry + `, null, ` + author + `, null, 'x')`,
			"dlq.comment_delete": `select postrider.dlq_delete_comment(` + anEntry + `, null, 2, ` + author + `, null)`,
		} {
			var refused *pgconn.PgError
			if err := d.change(row(action, "entry", anEntry), sql); !errors.As(err, &refused) || refused.Code != insufficientPrivilege ||
				!strings.Contains(refused.Hint, "cli:"+d.operator.Config().User) {
				t.Errorf("%s: %v", sql, err)
			}
		}
	}
	if d.digest() != before {
		t.Error("something was changed in the name of another")
	}
	const own = `'cli:' || session_user || ' (ann)'`
	if err := d.change(row("dlq.comment", "entry", anEntry), `select postrider.dlq_insert_comment(`+anEntry+`, null, `+own+`, null, 'seen')`); err != nil {
		t.Error(err)
	}
	if err := d.change(row("dlq.comment_delete", "entry", anEntry),
		`select postrider.dlq_delete_comment(`+anEntry+`, null, max(dlq_comment_id), `+own+`, null) from postrider.dlq_comment`); err != nil {
		t.Error(err)
	}
}

// TestRowsForMany: a row pays for all that its details list, and several rows may pay for one statement; what none of them
// names is refused.
func TestRowsForMany(t *testing.T) {
	t.Parallel()
	d := newOperators(t)
	const one, other = anEntry, aGroupedEntry
	const purge = `select postrider.dlq_purge_entries(array[` + one + `, ` + other + `]::uuid[])`
	list := func(ids ...string) string {
		return rowWith("dlq.purge", "entry", `{"entries": ["`+strings.ReplaceAll(strings.Join(ids, `", "`), `'`, ``)+`"]}`)
	}
	pgtest.Exec(t, d.owner, `select postrider.create_task('ns', 'order', p_task_uuid => `+anotherTask+`)`)
	before := d.digest()
	for _, rows := range [][]string{{row("dlq.purge", "entry", one)}, {list(one)}, {list(one, one)}, {list(one), row("dlq.note", "entry", other)}} {
		var refused *pgconn.PgError
		if err := d.change(append(rows, purge)...); !errors.As(err, &refused) || !strings.Contains(refused.Message, strings.Trim(other, `'`)) {
			t.Errorf("%q: %v", rows, err)
		}
	}
	var refused *pgconn.PgError
	if err := d.change(purge); !errors.As(err, &refused) || !strings.Contains(refused.Message, "and of 1 more") || !strings.Contains(refused.Hint, `{"entries": […]}`) {
		t.Errorf("no row: %v, %+v", err, refused)
	}
	// Lists are for investigations and events. The hint for tasks is a row for each.
	const both = `select postrider.cancel_task(` + aTask + `, 'ann', 'known'), postrider.cancel_task(` + anotherTask + `, 'ann', 'known')`
	if err := d.change(both); !errors.As(err, &refused) || !strings.Contains(refused.Message, "and of 1 more") ||
		strings.Contains(refused.Hint, "[…]") || !strings.HasSuffix(refused.Hint, ", and one more row for each of the others") {
		t.Errorf("two tasks: %v, %+v", err, refused)
	}
	if err := d.change(row("task.cancel", "task", aTask), row("task.cancel", "task", anotherTask), `savepoint s`, both,
		`set constraints all immediate`, `rollback to s`); err != nil {
		t.Errorf("two tasks with a row each: %v", err)
	}
	if d.digest() != before {
		t.Error("it was changed past the audit log")
	}
	for _, rows := range [][]string{{list(one, other)}, {row("dlq.purge", "entry", one), row("dlq.purge", "entry", other)}, {list(one), row("dlq.purge", "entry", other)}} {
		if err := d.change(append(rows, `savepoint s`, purge, `set constraints all immediate`, `rollback to s`)...); err != nil {
			t.Errorf("%q: %v", rows, err)
		}
	}
	// Ten thousand are one due.
	pgtest.Exec(t, d.owner, `insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
		select 'event', 'many' || i, 'failed', 'undeliverable', now(), now(), '{}' from generate_series(1, 10000) i`)
	const many = `(select array_agg(dlq_entry_uuid) from postrider.dlq_entry where subject_id like 'many%')`
	err := pgx.BeginFunc(t.Context(), d.operator, func(tx pgx.Tx) error {
		for _, sql := range []string{`set local enable_hashjoin = off; set local enable_seqscan = off`, // as the commands do
			`insert into postrider.access_audit (action, target_type, details) select 'dlq.purge', 'entry', jsonb_build_object('entries', ` + many + `)`,
			`select postrider.dlq_purge_entries(` + many + `)`} {
			if _, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			}
		}
		if n := pgtest.Value[int](t, tx, `select count(*) from postrider.access_due`); n != 1 {
			t.Errorf("%d dues, want 1", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPartsOfAnAction: the keys that closing lets go, and the events that a redrive puts back in their place, may stand in the
// row of the whole action, and must stand in one.
func TestPartsOfAnAction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		whole, part string
		action      string
	}{
		"resolve": {owing["close"].sql, owing["release keys"].sql, "dlq.resolve"},
		"purge":   {owing["purge"].sql, owing["release keys"].sql, "dlq.purge"},
		"requeue": {owing["send again"].sql, owing["redrive in place"].sql, "dlq.requeue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newOperators(t)
			entry := strings.Trim(anEntry, `'`)
			for what, rows := range map[string][]string{
				"the whole alone":        {row(c.action, "entry", anEntry)},
				"another event":          {rowWith(c.action, "entry", `{"entries": ["`+entry+`"], "events": [2]}`)},
				"no list of events":      {rowWith(c.action, "entry", `{"entries": ["`+entry+`"], "events": 1}`)},
				"the part alone":         {rowWith(c.action, "entry", `{"events": [1]}`)},
				"events of another kind": {row(c.action, "entry", anEntry), rowWith("dlq.note", "entry", `{"events": [1]}`)},
			} {
				var refused *pgconn.PgError
				if err := d.change(append(rows, c.part, c.whole)...); !errors.As(err, &refused) || refused.Code != insufficientPrivilege {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := d.change(c.part, c.whole, rowWith(c.action, "entry", `{"entries": ["`+entry+`"], "events": [1]}`)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTheRowMayComeFirst, and the next transaction needs its own.
func TestTheRowMayComeFirst(t *testing.T) {
	t.Parallel()
	d := newOperators(t)
	note := `select postrider.dlq_change_entry(` + anEntry + `, null, 'seen', null, null, null, 'ann')`
	if err := d.change(row("dlq.note", "entry", anEntry), `set constraints all immediate`, note, note); err != nil {
		t.Error(err)
	}
	if err := d.change(note); err == nil {
		t.Error("the row of another transaction counted")
	}
	// A call that changes nothing needs no row of the audit log. Nor does a change that no person decides: reading a task,
	// archiving by age, summaries, heartbeats.
	for _, sql := range []string{
		`select postrider.engine_resume('archiver')`,
		`select postrider.dlq_resolve_group(gen_random_uuid(), now(), 10, 'cancelled', '', 'ann')`,
		`select postrider.dlq_purge_entries(array[gen_random_uuid()])`,
		`select * from postrider.access_revoke_key('none')`,
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
	for _, sql := range []string{`update postrider.dlq_entry set updated_at = now()`, `select postrider.dlq_purge_entries('{}')`, `select postrider.engine_pause('archiver', 'x', 'y', 5)`,
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

// TestEveryFunctionThatOwesIsTried: a function that demands a row of the audit log is in owing, but for two that act on what the same
// login has just done, for another row.
func TestEveryFunctionThatOwesIsTried(t *testing.T) {
	t.Parallel()
	var tried strings.Builder
	for _, c := range owing {
		tried.WriteString(c.sql)
	}
	functions := pgtest.Column[string](t, pgtest.New(t).Conn(t), `select proname::text from pg_proc
		where pronamespace = 'postrider'::regnamespace and prosrc like '%access\_owe(%' order by 1`)
	if len(functions) < 20 {
		t.Fatalf("only %d functions owe a row: %q", len(functions), functions)
	}
	for _, name := range functions {
		if name != "dlq_amend" && name != "engine_resume" && !strings.Contains(tried.String(), "postrider."+name+"(") {
			t.Errorf("%s is not tried", name)
		}
	}
}
