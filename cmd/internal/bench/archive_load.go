package main

import (
	"context"
	"fmt"
)

// loadSlice is how many tasks are loaded in one transaction, so that the log can be recycled.
const loadSlice = 50_000

// templates makes templates of the built-in machine.
func (d *database) templates(ctx context.Context, n int) error {
	_, err := d.conn.Exec(ctx, `with ns as (insert into postrider.tasker_task_namespaces (name) values ('bench') returning task_namespace_uuid)
		insert into postrider.tasker_named_tasks (task_namespace_uuid, name, version, configuration, state_machine_id)
		select ns.task_namespace_uuid, 'task-' || i, '1.0.0', '{}', m.state_machine_id
		from ns, postrider.tasker_state_machines m, generate_series(0, $1::int - 1) i where m.name = 'workflow'`, n)
	return err
}

// loadTasks loads ended tasks with their steps and history, and some live ones.
func (d *database) loadTasks(ctx context.Context, ended, live int) error {
	if err := d.templates(ctx, 1); err != nil {
		return err
	}
	for from := 0; from < ended; from += loadSlice {
		if err := d.loadSlice(ctx, from, min(from+loadSlice, ended), false); err != nil {
			return err
		}
	}
	if err := d.loadSlice(ctx, 0, live, true); err != nil {
		return err
	}
	return d.exec(ctx, `vacuum (analyze) postrider.tasker_tasks, postrider.tasker_workflow_steps, postrider.tasker_task_transitions,
		postrider.tasker_workflow_step_transitions`, "checkpoint")
}

func (d *database) loadSlice(ctx context.Context, from, to int, live bool) error {
	tx, err := d.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, load := range []struct {
		sql  string
		args []any
	}{
		{`create temporary table fresh on commit drop as select gen_random_uuid() as task_uuid, i,
			now() - interval '60 days' + i * interval '1 second' as at from generate_series($1::int, $2::int - 1) i`, []any{from, to}},
		{`insert into postrider.tasker_tasks (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, created_at, updated_at, completed_at)
			select f.task_uuid, n.named_task_uuid, case when $1 then 'steps_in_process' else 'complete' end, $1, f.at, 8,
				jsonb_build_object('order', f.i, 'text', repeat('x', 200)), f.at, f.at, case when not $1 then f.at end
			from fresh f, postrider.tasker_named_tasks n order by f.i`, []any{live}},
		{`insert into postrider.tasker_workflow_steps (task_uuid, step_name, handler_name, position, status, inputs, results, created_at)
			select f.task_uuid, 'step-' || s, 'handler', s, 'complete', '{"a": 1}', jsonb_build_object('text', repeat('y', 100)), f.at
			from fresh f, generate_series(0, 3) s order by f.i`, nil},
		{`insert into postrider.tasker_task_transitions (task_uuid, from_state, to_state, metadata, sort_key, most_recent, created_at)
			select f.task_uuid, case when s > 1 then 'steps_in_process' end, 'evaluating_results', '{"actor": "bench", "reason": "because"}', s, s = 8, f.at
			from fresh f, generate_series(1, 8) s order by f.i`, nil},
		{`insert into postrider.tasker_workflow_step_transitions (task_uuid, workflow_step_uuid, from_status, to_status, created_at)
			select f.task_uuid, s.workflow_step_uuid, 'enqueued', 'in_progress', f.at
			from fresh f join postrider.tasker_workflow_steps s using (task_uuid), generate_series(1, 3) n order by f.i`, nil},
	} {
		if _, err := tx.Exec(ctx, load.sql, load.args...); err != nil {
			return fmt.Errorf("load tasks: %s: %w", load.sql, err)
		}
	}
	return tx.Commit(ctx)
}

// loadViews loads live tasks in all states, as many archived ones, and an investigation for every tenth.
func (d *database) loadViews(ctx context.Context, tasks int) error {
	if err := d.templates(ctx, 50); err != nil {
		return err
	}
	for from := 0; from < tasks; from += loadSlice {
		to := min(from+loadSlice, tasks)
		for _, sql := range []string{
			`insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at, created_at, context)
			select n.ids[1 + i % 50], s.names[1 + i % 8], true, now() - i % 1000 * interval '1 minute', now() - i % 1000 * interval '1 minute',
				jsonb_build_object('order', i, 'text', repeat('x', 200))
			from generate_series($1::int, $2::int - 1) i,
				(select array_agg(named_task_uuid) as ids from postrider.tasker_named_tasks) n,
				(select array_agg(m.state order by m.state) as names from postrider.tasker_machine_states m join postrider.tasker_state_machines using (state_machine_id)
				 where name = 'workflow' and kind in ('initial', 'active', 'waiting')) s`,
			`insert into postrider.tasker_tasks_archive (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority, retry_count,
				metadata, dead_letters, created_at, updated_at, namespace_name, task_name, task_version, final_state, archived_at)
			select gen_random_uuid(), n.ids[1 + i % 50], 'complete', false, now(), 8, jsonb_build_object('order', i, 'text', repeat('x', 200)), 0, 0, '{}', '{}',
				now() - i % 700 * interval '1 day', now(), 'bench', 'task-' || i % 50, '1.0.0', 'complete', now()
			from generate_series($1::int, $2::int - 1) i, (select array_agg(named_task_uuid) as ids from postrider.tasker_named_tasks) n`,
		} {
			if _, err := d.conn.Exec(ctx, sql, from, to); err != nil {
				return fmt.Errorf("load tasks for the views: %w", err)
			}
		}
	}
	return d.exec(ctx, `insert into postrider.tasker_archive_statistics (month, final_state, tasks, steps, transitions, last_archived_at)
			select date_trunc('month', created_at at time zone 'UTC')::date, final_state, count(*), 0, 0, now() from postrider.tasker_tasks_archive group by 1, 2`,
		`with entry as (
			insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, resolution_status, resolution_timestamp, last_occurred_at, snapshot)
			select 'task', task_uuid::text, 'pending', 'staleness_timeout', now(), case when n % 100 = 0 then 'pending' else 'manually_resolved' end::postrider.dlq_resolution_status,
				case when n % 100 > 0 then now() end, now(), jsonb_build_object('text', repeat('z', 1000))
			from (select task_uuid, row_number() over () as n from postrider.tasker_tasks) t where n % 10 = 0
			returning dlq_entry_uuid)
		insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind, attempts)
		select dlq_entry_uuid::text, dlq_entry_uuid, 'postrider', 'd', 0, 0, 'tombstone', 'tombstone', 3 from entry`,
		`vacuum (analyze) postrider.tasker_tasks, postrider.tasker_tasks_archive, postrider.dlq_entry, postrider.dlq_letter`, "checkpoint")
}
