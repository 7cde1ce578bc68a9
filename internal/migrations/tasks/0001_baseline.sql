-- The ledger: long-running work that services register here, its steps, its states as data, and their history.
-- State changes only through functions. One of them moves a task (task_move), everything else goes through it. What
-- changes a step or a state takes the row lock of the task first, and writes its event into the outbox in the same
-- transaction, so that the events of a task have their ids in the order in which it changed.
--
-- A session keeps its plans, and one that was made while a table was small would read the whole of it for ever: so
-- functions that look at tables do it without sequential scans, and without compiling what these would cost.

-- Here and not among the code: defaults of tables need it, also of the tables of the rooms behind.
create function postrider.uuid_generate_v7() returns uuid
language sql volatile parallel safe set search_path = pg_catalog, pg_temp as $$
    -- RFC 9562: 48 bits of Unix milliseconds, version 7, variant 10, the rest random (taken from a version 4 uuid).
    select (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
            || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$;
comment on function postrider.uuid_generate_v7() is 'A time-ordered uuid, version 7 of RFC 9562.';

-- Why something is on the desk. Here, because letters of tasks say it, too, and the desk is a room behind.
create type postrider.dlq_reason as enum (
    'staleness_timeout', 'max_retries_exceeded', 'dependency_cycle_detected', 'worker_unavailable', 'manual_dlq',
    'undeliverable', 'unclassified');
comment on type postrider.dlq_reason is
'Why something was dead-lettered: staleness_timeout (a task stayed too long in a state, or an event could not be sent for longer than its topic allows), max_retries_exceeded (attempts spent), dependency_cycle_detected, worker_unavailable, manual_dlq (an operator''s command, for example postrider outbox skip), undeliverable (can never be sent as it is, for example too large), unclassified (a dead letter that does not say).';

create table postrider.tasker_settings (
    only_row            boolean primary key default true check (only_row),
    lifecycle_topic     text not null default 'postrider.lifecycle',
    dlq_topic           text not null default 'postrider.dlq',
    event_channel       text not null default 'task_staleness_detected',
    include_full_task_snapshot boolean not null default true,
    reason_max_retries_exceeded boolean not null default true,
    reason_dependency_cycle_detected boolean not null default true,
    warn_percent        integer not null default 80 check (warn_percent between 1 and 100),
    waiting_for_dependencies_minutes integer not null default 60 check (waiting_for_dependencies_minutes >= 0),
    waiting_for_retry_minutes integer not null default 30 check (waiting_for_retry_minutes >= 0),
    steps_in_process_minutes integer not null default 30 check (steps_in_process_minutes >= 0),
    task_max_lifetime_hours integer not null default 24 check (task_max_lifetime_hours >= 0),
    worker_unavailable_minutes integer not null default 10 check (worker_unavailable_minutes >= 0),
    auto_transition_to_error boolean not null default true,
    auto_move_to_dlq    boolean not null default true,
    emit_events         boolean not null default true,
    reason_staleness_timeout boolean not null default true,
    reason_worker_unavailable boolean not null default true
);
comment on table postrider.tasker_settings is
'What the functions of the ledger need to know and services that call them do not say. One row; postrider serve writes its configuration here when it starts.';
comment on column postrider.tasker_settings.only_row is 'Always true, so that there is one row.';
comment on column postrider.tasker_settings.lifecycle_topic is 'Kafka topic of lifecycle events, unless the template names another.';
comment on column postrider.tasker_settings.dlq_topic is 'Kafka topic of the dead letters of tasks.';
comment on column postrider.tasker_settings.event_channel is 'The last word of the type of the event that tells of a stale task.';
comment on column postrider.tasker_settings.include_full_task_snapshot is 'Whether a task''s dead letter has the task with its steps and history, or only what identifies it.';
comment on column postrider.tasker_settings.reason_max_retries_exceeded is 'Whether a step whose retries are spent dead-letters its task.';
comment on column postrider.tasker_settings.reason_dependency_cycle_detected is 'Whether a task whose steps form a cycle is dead-lettered.';
comment on column postrider.tasker_settings.warn_percent is 'The share of a threshold past which v_task_staleness_monitoring warns of a task, in percent.';
comment on column postrider.tasker_settings.waiting_for_dependencies_minutes is 'How long a task may be in waiting_for_dependencies where neither its template nor its namespace says it. The detector, the view and get_next_ready_tasks read this threshold and the next three here.';
comment on column postrider.tasker_settings.waiting_for_retry_minutes is 'The same for waiting_for_retry.';
comment on column postrider.tasker_settings.steps_in_process_minutes is 'The same for steps_in_process.';
comment on column postrider.tasker_settings.task_max_lifetime_hours is 'How old a task may become, likewise. In hours.';
comment on column postrider.tasker_settings.worker_unavailable_minutes is 'After how many minutes without a heartbeat of any worker of a namespace its stale tasks say worker_unavailable. If no worker of the namespace was ever heard of, stale tasks with steps say so as long as none of their steps has begun.';
comment on column postrider.tasker_settings.auto_transition_to_error is 'Whether stale tasks are moved to the failed state of their machine. Without it they stay where they are and are flagged.';
comment on column postrider.tasker_settings.auto_move_to_dlq is 'Whether dead letters of stale tasks are written.';
comment on column postrider.tasker_settings.emit_events is 'Whether an event about each stale task is written, beside the events of its transitions.';
comment on column postrider.tasker_settings.reason_staleness_timeout is 'Whether a stale task is dead-lettered for the reason staleness_timeout.';
comment on column postrider.tasker_settings.reason_worker_unavailable is 'Whether a stale task is dead-lettered for the reason worker_unavailable.';
insert into postrider.tasker_settings default values;

create table postrider.tasker_task_namespaces (
    task_namespace_uuid uuid primary key default postrider.uuid_generate_v7(),
    name                text not null unique check (name ~ '^[A-Za-z0-9_.-]+$' and octet_length(name) <= 128),
    description         text,
    lifecycle           jsonb not null default '{}' check (jsonb_typeof(lifecycle) = 'object'),
    created_at          timestamptz not null default now(),
    updated_at          timestamptz not null default now()
);
comment on table postrider.tasker_task_namespaces is 'Namespaces of templates: a team or a system, with its workers.';
comment on column postrider.tasker_task_namespaces.task_namespace_uuid is 'Identity.';
comment on column postrider.tasker_task_namespaces.name is '1 to 128 letters, digits, underscores, dots, hyphens.';
comment on column postrider.tasker_task_namespaces.description is 'For people.';
comment on column postrider.tasker_task_namespaces.lifecycle is 'Staleness thresholds of this namespace, the same keys as in a template; a template''s own go before them, the defaults after.';
comment on column postrider.tasker_task_namespaces.created_at is 'When it was first named.';
comment on column postrider.tasker_task_namespaces.updated_at is 'When it last changed.';

create table postrider.tasker_state_machines (
    state_machine_id  integer generated always as identity primary key,
    name              text not null unique,
    initial_state     text not null,
    complete_state    text,
    failed_state      text,
    cancelled_state   text,
    dead_letter_state text,
    archived_state    text,
    retryable_states  text[] not null default '{}'
);
comment on table postrider.tasker_state_machines is 'State machines as data. ''workflow'' is the built-in one of 12 states; a template with states of its own has a machine of its own.';
comment on column postrider.tasker_state_machines.state_machine_id is 'Identity.';
comment on column postrider.tasker_state_machines.name is 'workflow, or namespace/name@version of the template that declares it.';
comment on column postrider.tasker_state_machines.initial_state is 'Where a task begins, and begins again when it is retried.';
comment on column postrider.tasker_state_machines.complete_state is 'Where a task goes when its steps are done; null if its steps do not lead it.';
comment on column postrider.tasker_state_machines.failed_state is 'Where a stale task, and one whose steps failed for good, is moved aside to; null if it stays where it is.';
comment on column postrider.tasker_state_machines.cancelled_state is 'Where a cancelled task goes; null if it cannot be cancelled.';
comment on column postrider.tasker_state_machines.dead_letter_state is 'Where a task goes when an outbox event of it is dead-lettered; null takes failed_state.';
comment on column postrider.tasker_state_machines.archived_state is 'Where a dead-lettered task goes when it is read after 7 days without a change; null if it stays.';
comment on column postrider.tasker_state_machines.retryable_states is 'States from which a task may be retried as a whole.';

create table postrider.tasker_machine_states (
    state_machine_id integer not null references postrider.tasker_state_machines on delete cascade,
    state            text not null,
    kind             text not null check (kind in ('initial', 'active', 'waiting', 'failed', 'terminal')),
    primary key (state_machine_id, state)
);
comment on table postrider.tasker_machine_states is 'The states of a machine.';
comment on column postrider.tasker_machine_states.state_machine_id is 'The machine.';
comment on column postrider.tasker_machine_states.state is 'Name of the state.';
comment on column postrider.tasker_machine_states.kind is 'initial, active and waiting are live, and can get stale; failed waits for an operator; terminal is the end.';

create table postrider.tasker_machine_transitions (
    state_machine_id integer not null,
    from_state       text not null,
    to_state         text not null,
    primary key (state_machine_id, from_state, to_state),
    foreign key (state_machine_id, from_state) references postrider.tasker_machine_states on delete cascade,
    foreign key (state_machine_id, to_state) references postrider.tasker_machine_states on delete cascade
);
comment on table postrider.tasker_machine_transitions is 'What a machine allows.';
comment on column postrider.tasker_machine_transitions.state_machine_id is 'The machine.';
comment on column postrider.tasker_machine_transitions.from_state is 'From this state …';
comment on column postrider.tasker_machine_transitions.to_state is '… to this one.';
insert into postrider.tasker_machine_transitions (state_machine_id, from_state, to_state)
select m.state_machine_id, t.from_state, unnest(t.to_states)
from postrider.tasker_state_machines m, (values
    ('pending', array['initializing', 'error', 'cancelled']),
    ('initializing', array['enqueuing_steps', 'waiting_for_dependencies', 'complete', 'error', 'cancelled']),
    ('enqueuing_steps', array['steps_in_process', 'error', 'cancelled']),
    ('steps_in_process', array['evaluating_results', 'error', 'cancelled']),
    ('evaluating_results', array['complete', 'enqueuing_steps', 'steps_in_process', 'waiting_for_dependencies',
                                 'waiting_for_retry', 'blocked_by_failures', 'error', 'cancelled']),
    ('waiting_for_dependencies', array['evaluating_results', 'enqueuing_steps', 'steps_in_process', 'error', 'cancelled']),
    ('waiting_for_retry', array['evaluating_results', 'enqueuing_steps', 'steps_in_process', 'error', 'cancelled']),
    ('blocked_by_failures', array['evaluating_results', 'enqueuing_steps', 'steps_in_process', 'error', 'cancelled', 'resolved_manually']),
    ('error', array['pending', 'enqueuing_steps', 'steps_in_process', 'evaluating_results', 'waiting_for_dependencies',
                    'waiting_for_retry', 'complete', 'cancelled', 'resolved_manually'])) t(from_state, to_states)
where m.name = 'workflow';

create table postrider.tasker_named_tasks (
    named_task_uuid     uuid primary key default postrider.uuid_generate_v7(),
    task_namespace_uuid uuid not null references postrider.tasker_task_namespaces,
    name                text not null check (name ~ '^[A-Za-z0-9_.-]+$' and octet_length(name) <= 128),
    version             text not null check (octet_length(version) between 1 and 64),
    description         text,
    configuration       jsonb not null check (jsonb_typeof(configuration) = 'object'),
    state_machine_id    integer not null references postrider.tasker_state_machines,
    created_at          timestamptz not null default now(),
    updated_at          timestamptz not null default now(),
    unique (task_namespace_uuid, name, version)
);
comment on table postrider.tasker_named_tasks is 'Templates, each version a row.';
comment on column postrider.tasker_named_tasks.named_task_uuid is 'Identity.';
comment on column postrider.tasker_named_tasks.task_namespace_uuid is 'Its namespace.';
comment on column postrider.tasker_named_tasks.name is 'Name of the template.';
comment on column postrider.tasker_named_tasks.version is 'Its version, three numbers with dots.';
comment on column postrider.tasker_named_tasks.description is 'For people.';
comment on column postrider.tasker_named_tasks.configuration is 'The whole template as it was applied; lifecycle, steps and input_schema are read from here.';
comment on column postrider.tasker_named_tasks.state_machine_id is 'Its states and transitions.';
comment on column postrider.tasker_named_tasks.created_at is 'When this version was first applied.';
comment on column postrider.tasker_named_tasks.updated_at is 'When it was last applied with a change.';

create table postrider.tasker_tasks (
    task_uuid        uuid primary key default postrider.uuid_generate_v7(),
    named_task_uuid  uuid not null references postrider.tasker_named_tasks,
    state            text not null,
    live             boolean not null,
    state_entered_at timestamptz not null default clock_timestamp(),
    sort_key         integer not null default 0,
    context          jsonb not null default '{}',
    priority         integer not null default 0,
    retry_count      integer not null default 0,
    idempotency_key  text,
    error_reason     text,
    metadata         jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
    stale_flagged_at timestamptz,
    stale_rule       text not null default '',
    stale_until      timestamptz,
    stay_from        timestamptz,
    dead_letters     text[] not null default '{}',
    ready_at         timestamptz,
    resumed_at       timestamptz,
    created_at       timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    completed_at     timestamptz,
    -- Nothing can be computed from an infinite time: one task with it would stop the detector for all tasks. Years that
    -- RFC 3339 cannot express are excluded, because JSON cannot have them.
    constraint tasker_tasks_times check (least(state_entered_at, created_at, updated_at, stale_flagged_at, stale_until, stay_from, ready_at, resumed_at, completed_at) >= '0001-01-01 00:00:00+00'
        and greatest(state_entered_at, created_at, updated_at, stale_flagged_at, stale_until, stay_from, ready_at, resumed_at, completed_at) < '9999-12-31 00:00:00+00')
) with (fillfactor = 70);
comment on table postrider.tasker_tasks is 'Tasks that are under way or ended not long ago; older ones are in tasker_tasks_archive. A transaction that changes a step or a state takes the row lock of the task first.';
comment on column postrider.tasker_tasks.task_uuid is 'Identity: what its creator gave, else a version 7 uuid. It stays in the archive.';
comment on column postrider.tasker_tasks.named_task_uuid is 'Its template.';
comment on column postrider.tasker_tasks.state is 'Where it stands: a state of its template''s machine.';
comment on column postrider.tasker_tasks.live is 'Whether that state is of the kind initial, active or waiting.';
comment on column postrider.tasker_tasks.state_entered_at is 'Since when.';
comment on column postrider.tasker_tasks.sort_key is 'Number of its newest transition.';
comment on column postrider.tasker_tasks.context is 'Its input; must fit the template''s input_schema.';
comment on column postrider.tasker_tasks.priority is 'Higher goes first.';
comment on column postrider.tasker_tasks.retry_count is 'How often the whole task was retried.';
comment on column postrider.tasker_tasks.idempotency_key is 'Given by who created it: a second task of the template with this key is the first one.';
comment on column postrider.tasker_tasks.error_reason is 'Why it failed, for people.';
comment on column postrider.tasker_tasks.metadata is 'Free for tools; the key error has the technical side of error_reason: category, reason, retry_count.';
comment on column postrider.tasker_tasks.stale_flagged_at is 'When it was found to be stale in its present state and left there. A transition, progress of its steps, unflag_task, and a threshold that it is no longer past end the flag.';
comment on column postrider.tasker_tasks.stale_rule is 'By which rule it was flagged: both thresholds in minutes and what was done, see task_stale_rule. Detection looks again at a flagged task whose rule changed. Empty while it has no flag.';
comment on column postrider.tasker_tasks.stale_until is 'When a flagged task passes its other threshold, that of its state or its lifetime, and detection looks again. Null if it has passed both.';
comment on column postrider.tasker_tasks.stay_from is 'From when its stay counts against the threshold of its state, where that is later than state_entered_at: the last start or completion of a step in an active state, the time of the next retry in a waiting one. Null otherwise.';
comment on column postrider.tasker_tasks.dead_letters is 'Ids of the dead letters that were written about it, and of events of it whose giving up moved it, in their order. It is not archived before each of them is recorded and its investigation closed.';
comment on column postrider.tasker_tasks.ready_at is 'From when it can be given to a worker: it has not begun, or one of its steps is ready then. 2000-01-01 if it is ready now; null while there is nothing to give. Kept with each change of its state or its steps; get_next_ready_tasks looks for it.';
comment on column postrider.tasker_tasks.resumed_at is 'When it last left a failed state for a live one, or was unflagged by hand; its lifetime is counted from then, so that a repaired task is not stale at once.';
comment on column postrider.tasker_tasks.created_at is 'When it was created.';
comment on column postrider.tasker_tasks.updated_at is 'When it, or one of its steps, last changed.';
comment on column postrider.tasker_tasks.completed_at is 'When it came to a terminal state.';

-- Tasks change often and are analysed and vacuumed by count rather than by share: the detector walks over
-- the dead entries at the front of an index.
alter table postrider.tasker_tasks set (
    autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 50000,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 100000);
create unique index tasker_tasks_idempotency on postrider.tasker_tasks (named_task_uuid, idempotency_key) where idempotency_key is not null;
comment on index postrider.tasker_tasks_idempotency is 'One task per template and key.';
create index tasker_tasks_stay on postrider.tasker_tasks (named_task_uuid, state, (coalesce(stay_from, state_entered_at))) where live and stale_flagged_at is null;
comment on index postrider.tasker_tasks_stay is 'The longest stay in each state of each template; finds the stale without looking at the healthy.';
create index tasker_tasks_age on postrider.tasker_tasks (named_task_uuid, (coalesce(resumed_at, created_at))) where live and stale_flagged_at is null;
comment on index postrider.tasker_tasks_age is 'The task of each template that began or was resumed longest ago; finds tasks past their lifetime.';
create index tasker_tasks_ready on postrider.tasker_tasks (named_task_uuid, ready_at) where ready_at is not null;
comment on index postrider.tasker_tasks_ready is 'Tasks with something to do, so that waiting tasks cost nothing.';
create index tasker_tasks_ready_newest on postrider.tasker_tasks (named_task_uuid, priority, created_at desc, task_uuid, ready_at)
    where ready_at is not null and priority > 0;
comment on index postrider.tasker_tasks_ready_newest is 'The same tasks by priority. Within one priority above 0, in the order of get_next_ready_tasks: the priority decays, so the newest task weighs most.';
create index tasker_tasks_ready_oldest on postrider.tasker_tasks (named_task_uuid, priority, created_at, task_uuid, ready_at)
    where ready_at is not null and priority <= 0;
comment on index postrider.tasker_tasks_ready_oldest is 'The same for the priorities up to 0, where the oldest task goes first.';
create index tasker_tasks_listed on postrider.tasker_tasks (named_task_uuid, state, task_uuid);
comment on index postrider.tasker_tasks_listed is 'Lists of the tasks of a template or of a state, however few they are.';
create index tasker_tasks_ended on postrider.tasker_tasks (state_entered_at, task_uuid) where not live;
comment on index postrider.tasker_tasks_ended is 'Tasks that the archiver may take, oldest first.';
create index tasker_tasks_flagged on postrider.tasker_tasks (named_task_uuid, state, (coalesce(stay_from, state_entered_at))) where live and stale_flagged_at is not null;
comment on index postrider.tasker_tasks_flagged is 'Tasks that were found to be stale and left in place; with tasker_tasks_stay, the longest stays of all.';
create index tasker_tasks_flag_rules on postrider.tasker_tasks (named_task_uuid, state, stale_rule, stale_until) where live and stale_flagged_at is not null;
comment on index postrider.tasker_tasks_flag_rules is 'Flagged tasks by their rule; finds tasks whose rule changed, or that passed another threshold, without looking at the rest.';

create table postrider.tasker_workflow_steps (
    workflow_step_uuid uuid primary key default postrider.uuid_generate_v7(),
    task_uuid        uuid not null references postrider.tasker_tasks on delete cascade,
    step_name        text not null check (octet_length(step_name) between 1 and 256),
    handler_name     text,
    position         integer not null,
    dependencies     text[] not null default '{}',
    status           text not null default 'pending' check (status in (
                         'pending', 'enqueued', 'in_progress', 'waiting_for_retry', 'complete', 'error',
                         'cancelled', 'resolved_manually')),
    retry_count      integer not null default 0,
    max_retries      integer not null default 3 check (max_retries >= 0),
    retry_base_seconds double precision not null default 1 check (retry_base_seconds > 0 and retry_base_seconds <= 31536000),
    retry_max_seconds  double precision not null default 60 check (retry_max_seconds > 0 and retry_max_seconds <= 31536000),
    next_retry_at    timestamptz,
    inputs           jsonb,
    results          jsonb,
    last_error       text,
    fencing_number   integer not null default 0,
    state_entered_at timestamptz not null default clock_timestamp(),
    created_at       timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    unique (task_uuid, step_name),
    constraint tasker_workflow_steps_times check (least(next_retry_at, state_entered_at, created_at, updated_at) >= '0001-01-01 00:00:00+00'
        and greatest(next_retry_at, state_entered_at, created_at, updated_at) < '9999-12-31 00:00:00+00')
) with (fillfactor = 70);
comment on table postrider.tasker_workflow_steps is 'The steps of tasks.';
comment on column postrider.tasker_workflow_steps.workflow_step_uuid is 'Identity.';
comment on column postrider.tasker_workflow_steps.task_uuid is 'Its task.';
comment on column postrider.tasker_workflow_steps.step_name is 'Its name, once per task.';
comment on column postrider.tasker_workflow_steps.handler_name is 'What does the work, in the words of the service.';
comment on column postrider.tasker_workflow_steps.position is 'Order in the template, from 0.';
comment on column postrider.tasker_workflow_steps.dependencies is 'Names of the steps that must be done before it.';
comment on column postrider.tasker_workflow_steps.status is 'pending (waits for others or for its turn), enqueued (given to a worker), in_progress, waiting_for_retry, complete, error (retries spent, or failed for good), cancelled, resolved_manually (an operator did it by hand).';
comment on column postrider.tasker_workflow_steps.retry_count is 'Retries that were spent.';
comment on column postrider.tasker_workflow_steps.max_retries is 'Retries that it has.';
comment on column postrider.tasker_workflow_steps.retry_base_seconds is 'Pause before the first retry; it doubles with each further one, and up to a fifth is added at random.';
comment on column postrider.tasker_workflow_steps.retry_max_seconds is 'The longest pause, before the random part.';
comment on column postrider.tasker_workflow_steps.next_retry_at is 'When a step that waits for its retry may be tried again. A step that was enqueued by hand has the time of that, until it is handed out.';
comment on column postrider.tasker_workflow_steps.inputs is 'What the step was given.';
comment on column postrider.tasker_workflow_steps.results is 'What it returned.';
comment on column postrider.tasker_workflow_steps.last_error is 'Why it failed last.';
comment on column postrider.tasker_workflow_steps.fencing_number is 'How often it was given to a worker, or taken from one by hand. start_step returns it; complete_step and fail_step refuse a caller that gives an older one.';
comment on column postrider.tasker_workflow_steps.state_entered_at is 'Since when it has its status.';
comment on column postrider.tasker_workflow_steps.created_at is 'When it was created.';
comment on column postrider.tasker_workflow_steps.updated_at is 'When it last changed.';

create table postrider.tasker_task_transitions (
    task_transition_uuid uuid primary key default postrider.uuid_generate_v7(),
    task_uuid   uuid not null references postrider.tasker_tasks on delete cascade,
    from_state  text,
    to_state    text not null,
    metadata    jsonb,
    sort_key    integer not null,
    most_recent boolean not null,
    created_at  timestamptz not null default clock_timestamp(),
    unique (task_uuid, sort_key)
) with (fillfactor = 70);
comment on table postrider.tasker_task_transitions is 'The history of tasks'' states.';
comment on column postrider.tasker_task_transitions.task_transition_uuid is 'Identity.';
comment on column postrider.tasker_task_transitions.task_uuid is 'Its task.';
comment on column postrider.tasker_task_transitions.from_state is 'The state before; null for the first.';
comment on column postrider.tasker_task_transitions.to_state is 'The state after.';
comment on column postrider.tasker_task_transitions.metadata is 'Who changed it and why: actor, reason, and what the caller added.';
comment on column postrider.tasker_task_transitions.sort_key is 'Their order, from 1.';
comment on column postrider.tasker_task_transitions.most_recent is 'Whether it is the newest of its task.';
comment on column postrider.tasker_task_transitions.created_at is 'When.';
create unique index tasker_task_transitions_newest on postrider.tasker_task_transitions (task_uuid) where most_recent;
comment on index postrider.tasker_task_transitions_newest is 'One newest transition per task.';

create table postrider.tasker_workflow_step_transitions (
    step_transition_uuid uuid primary key default postrider.uuid_generate_v7(),
    task_uuid          uuid not null references postrider.tasker_tasks on delete cascade,
    workflow_step_uuid uuid not null references postrider.tasker_workflow_steps on delete cascade,
    from_status        text,
    to_status          text not null,
    metadata           jsonb,
    created_at         timestamptz not null default clock_timestamp()
);
comment on table postrider.tasker_workflow_step_transitions is 'The history of steps.';
comment on column postrider.tasker_workflow_step_transitions.step_transition_uuid is 'Identity. It tells the time to a millisecond: list by created_at, and rows of one moment by the position of their steps.';
comment on column postrider.tasker_workflow_step_transitions.task_uuid is 'Its task.';
comment on column postrider.tasker_workflow_step_transitions.workflow_step_uuid is 'Its step.';
comment on column postrider.tasker_workflow_step_transitions.from_status is 'The status before; null for the first.';
comment on column postrider.tasker_workflow_step_transitions.to_status is 'The status after.';
comment on column postrider.tasker_workflow_step_transitions.metadata is 'Who changed it and why: action, actor, notes.';
comment on column postrider.tasker_workflow_step_transitions.created_at is 'When.';
create index tasker_workflow_step_transitions_task on postrider.tasker_workflow_step_transitions (task_uuid, created_at);
comment on index postrider.tasker_workflow_step_transitions_task is 'The history of a task''s steps, in its order.';
create index tasker_workflow_step_transitions_step on postrider.tasker_workflow_step_transitions (workflow_step_uuid);
comment on index postrider.tasker_workflow_step_transitions_step is 'The history of a step.';

create table postrider.tasker_workers (
    task_namespace_uuid uuid not null references postrider.tasker_task_namespaces on delete cascade,
    worker              text not null check (octet_length(worker) between 1 and 256),
    last_heartbeat_at   timestamptz not null default clock_timestamp() check (isfinite(last_heartbeat_at)),
    primary key (task_namespace_uuid, worker)
);
comment on table postrider.tasker_workers is 'Workers on the tasks of a namespace, and when each was last heard of. When a new worker comes, workers not heard of for 30 days are removed.';
comment on column postrider.tasker_workers.task_namespace_uuid is 'The namespace.';
comment on column postrider.tasker_workers.worker is 'Name of the worker, for example host and process.';
comment on column postrider.tasker_workers.last_heartbeat_at is 'When it last called.';

-- The built-in machine. internal/tasks/task has the same in Go, and a test compares them.
with machine as (
    insert into postrider.tasker_state_machines (name, initial_state, complete_state, failed_state, cancelled_state, retryable_states)
    values ('workflow', 'pending', 'complete', 'error', 'cancelled', '{error}')
    returning state_machine_id
), states as (
    insert into postrider.tasker_machine_states (state_machine_id, state, kind)
    select m.state_machine_id, s.state, s.kind
    from machine m, (values
        ('pending', 'initial'), ('initializing', 'active'), ('enqueuing_steps', 'active'), ('steps_in_process', 'active'),
        ('evaluating_results', 'active'), ('waiting_for_dependencies', 'waiting'), ('waiting_for_retry', 'waiting'),
        ('blocked_by_failures', 'waiting'), ('complete', 'terminal'), ('error', 'failed'), ('cancelled', 'terminal'),
        ('resolved_manually', 'terminal')) s(state, kind)
    returning state_machine_id
)
select count(*) from states;
insert into postrider.tasker_machine_transitions (state_machine_id, from_state, to_state)
select m.state_machine_id, t.from_state, unnest(t.to_states)
from postrider.tasker_state_machines m, (values
    ('pending', array['initializing', 'error', 'cancelled']),
    ('initializing', array['enqueuing_steps', 'waiting_for_dependencies', 'complete', 'error', 'cancelled']),
    ('enqueuing_steps', array['steps_in_process', 'error', 'cancelled']),
    ('steps_in_process', array['evaluating_results', 'error', 'cancelled']),
    ('evaluating_results', array['complete', 'enqueuing_steps', 'steps_in_process', 'waiting_for_dependencies',
                                 'waiting_for_retry', 'blocked_by_failures', 'error', 'cancelled']),
    ('waiting_for_dependencies', array['evaluating_results', 'enqueuing_steps', 'steps_in_process', 'error', 'cancelled']),
    ('waiting_for_retry', array['evaluating_results', 'enqueuing_steps', 'steps_in_process', 'error', 'cancelled']),
    ('blocked_by_failures', array['evaluating_results', 'enqueuing_steps', 'steps_in_process', 'error', 'cancelled', 'resolved_manually']),
    ('error', array['pending', 'enqueuing_steps', 'steps_in_process', 'evaluating_results', 'waiting_for_dependencies',
                    'waiting_for_retry', 'complete', 'cancelled', 'resolved_manually'])) t(from_state, to_states)
where m.name = 'workflow';

create sequence postrider.tasker_tasks_discovered;
comment on sequence postrider.tasker_tasks_discovered is
'How many tasks get_next_ready_tasks has handed out: a metric. A sequence, because counting must not make one transaction wait for another.';

create table postrider.tasker_task_counts (
    count_id bigint generated always as identity primary key,
    kind     text not null check (kind in ('stale', 'dead_letter')),
    state    text not null,
    outcome  text not null,
    tasks    bigint not null check (tasks > 0)
);
comment on table postrider.tasker_task_counts is
'How many tasks were found to be stale, and how many were dead-lettered, since the schema exists: metrics. What was counted is the sum of the rows. Each transaction adds rows of its own, because counting must not make one wait for another; past 1,000 rows tasks_merge_counts merges rows that are alike.';
comment on column postrider.tasker_task_counts.count_id is 'Number of the row.';
comment on column postrider.tasker_task_counts.kind is 'stale: found by detect_and_transition_stale_tasks. dead_letter: a dead letter of the task was written, or it was moved because an event of it was given up.';
comment on column postrider.tasker_task_counts.state is 'The state that the tasks were in.';
comment on column postrider.tasker_task_counts.outcome is 'Of stale tasks the action_taken, of dead-lettered ones the dlq_reason.';
comment on column postrider.tasker_task_counts.tasks is 'How many tasks.';

create table postrider.tasker_switch (
    engine       text primary key check (engine in ('archiver', 'detector')),
    paused_at    timestamptz,
    paused_by    text,
    pause_reason text,
    resume_at    timestamptz,
    constraint tasker_switch_paused check ((paused_at is null) = (paused_by is null) and (paused_at is not null or resume_at is null)),
    constraint tasker_switch_times check (isfinite(paused_at) and isfinite(resume_at))
);
comment on table postrider.tasker_switch is
'The switches of the engines that people pause, one row each, for all processes. A pause whose end has come does not count.';
comment on column postrider.tasker_switch.engine is 'detector: the detectors of stale tasks; archiver: the archivers of tasks.';
comment on column postrider.tasker_switch.paused_at is 'Since when no engine of this kind works on this database; null while they do.';
comment on column postrider.tasker_switch.paused_by is 'Who paused them, in the order in which they did: operators, and latency_limit for a detector that found itself too slow.';
comment on column postrider.tasker_switch.pause_reason is 'Why, for people.';
comment on column postrider.tasker_switch.resume_at is 'When they go on by themselves; null: they wait for an operator.';
insert into postrider.tasker_switch (engine) values ('archiver'), ('detector');

create table postrider.tasker_detector (
    only_row       boolean primary key default true check (only_row),
    last_pass_at   timestamptz,
    last_pass_by   text,
    last_pass_ms   double precision,
    last_pass_stale integer,
    last_pass_batches integer,
    last_pass_dry_run boolean,
    constraint tasker_detector_times check (isfinite(last_pass_at))
);
comment on table postrider.tasker_detector is 'What the last pass of the detectors of stale tasks did. One row, for all processes.';
comment on column postrider.tasker_detector.only_row is 'Always true, so that there is one row.';
comment on column postrider.tasker_detector.last_pass_at is 'When the last pass of any process ended.';
comment on column postrider.tasker_detector.last_pass_by is 'Which process that was: host:pid.';
comment on column postrider.tasker_detector.last_pass_ms is 'How long it took, in milliseconds.';
comment on column postrider.tasker_detector.last_pass_stale is 'How many stale tasks it found.';
comment on column postrider.tasker_detector.last_pass_batches is 'How many batches it made, the empty last one included.';
comment on column postrider.tasker_detector.last_pass_dry_run is 'Whether it changed nothing.';
insert into postrider.tasker_detector default values;

create type postrider.tasker_stale_task as (
    task_uuid uuid, namespace_name text, task_name text, version text, topic text, state text, to_state text, to_kind text,
    sort_key integer, minutes integer, threshold integer, threshold_kind text, threshold_source text, reason postrider.dlq_reason,
    rule text, stale_until timestamptz, moves boolean, letter_id text, letter_event_id uuid, action text, age double precision, error_code text, error_reason text, metadata jsonb
);
comment on type postrider.tasker_stale_task is 'Internal. A stale task in the hands of detect_and_transition_stale_tasks, with what becomes of it.';

-- The archive: tasks that ended long ago are moved out of the tables that services and engines work on. Live
-- and archive together are all tasks at every moment, because a move is one transaction.

-- As the live tables, without their foreign keys: templates may go, and nothing in the archive changes.
create table postrider.tasker_tasks_archive (
    like postrider.tasker_tasks including comments,
    namespace_name text not null,
    task_name      text not null,
    task_version   text not null,
    final_state    text not null check (final_state in ('complete', 'error', 'cancelled', 'dlq_resolved')),
    archived_at    timestamptz not null,
    primary key (task_uuid)
);
alter table postrider.tasker_tasks_archive alter column stale_rule set default '';
comment on table postrider.tasker_tasks_archive is
'Tasks that ended longer ago than the retention, as they were when archive_completed_tasks moved them here. A task is either here or in tasker_tasks. Never changed.';
comment on column postrider.tasker_tasks_archive.namespace_name is 'Name of its namespace, so that it can be read without the template.';
comment on column postrider.tasker_tasks_archive.task_name is 'Name of its template.';
comment on column postrider.tasker_tasks_archive.task_version is 'Version of its template.';
comment on column postrider.tasker_tasks_archive.final_state is 'The policy under which it was archived: cancelled, dlq_resolved (it, or an event of it, was dead-lettered, and each investigation was closed), error (it failed), complete (any other end).';
comment on column postrider.tasker_tasks_archive.archived_at is 'When it was moved here.';
create index tasker_tasks_archive_idempotency on postrider.tasker_tasks_archive (namespace_name, task_name, idempotency_key) where idempotency_key is not null;
comment on index postrider.tasker_tasks_archive_idempotency is 'The key of a task stays taken while the task is archived: create_task asks here, too.';
create index tasker_tasks_archive_order on postrider.tasker_tasks_archive (archived_at, task_uuid);
comment on index postrider.tasker_tasks_archive_order is 'Listing, newest first.';
create index tasker_tasks_archive_listed on postrider.tasker_tasks_archive (namespace_name, task_name, final_state, archived_at, task_uuid);
comment on index postrider.tasker_tasks_archive_listed is 'Lists of a namespace, a template or a final state, however few tasks it has.';

create table postrider.tasker_workflow_steps_archive (
    like postrider.tasker_workflow_steps including comments,
    archived_at timestamptz not null,
    primary key (task_uuid, workflow_step_uuid)
);
comment on table postrider.tasker_workflow_steps_archive is 'The steps of archived tasks.';
comment on column postrider.tasker_workflow_steps_archive.archived_at is 'When its task was moved here.';

create table postrider.tasker_task_transitions_archive (
    like postrider.tasker_task_transitions including comments,
    archived_at timestamptz not null,
    primary key (task_uuid, sort_key)
);
comment on table postrider.tasker_task_transitions_archive is 'The history of archived tasks'' states.';
comment on column postrider.tasker_task_transitions_archive.archived_at is 'When its task was moved here.';

create table postrider.tasker_workflow_step_transitions_archive (
    like postrider.tasker_workflow_step_transitions including comments,
    archived_at timestamptz not null,
    primary key (task_uuid, created_at, step_transition_uuid)
);
comment on table postrider.tasker_workflow_step_transitions_archive is 'The history of the steps of archived tasks.';
comment on column postrider.tasker_workflow_step_transitions_archive.archived_at is 'When its task was moved here.';

create table postrider.tasker_archive_statistics (
    month                date not null,
    final_state          text not null,
    tasks                bigint not null,
    steps                bigint not null,
    transitions          bigint not null,
    last_archived_at     timestamptz not null,
    primary key (month, final_state)
);
comment on table postrider.tasker_archive_statistics is 'How much is in the archive, counted by archive_completed_tasks as it moves tasks, so that no query has to count millions of rows.';
comment on column postrider.tasker_archive_statistics.month is 'First day of the month in which the tasks were created, in UTC.';
comment on column postrider.tasker_archive_statistics.final_state is 'See tasker_tasks_archive.final_state.';
comment on column postrider.tasker_archive_statistics.tasks is 'Tasks in the archive.';
comment on column postrider.tasker_archive_statistics.steps is 'Their steps.';
comment on column postrider.tasker_archive_statistics.transitions is 'Their transitions.';
comment on column postrider.tasker_archive_statistics.last_archived_at is 'When the newest of them came.';

-- Views for dashboards. What would mean to look at every live task is kept as a summary, which the archiver's
-- engine renews every minute; each view says how old its figures are. Where no engine runs they count at once.
create table postrider.dashboard_summary (
    name    text primary key check (name in ('staleness', 'dlq')),
    as_of   timestamptz not null,
    took_ms integer not null,
    content jsonb not null
);
comment on table postrider.dashboard_summary is 'Figures of views that take long to count, as they were a short while ago. refresh_dashboards renews them; views use them for five minutes.';
comment on column postrider.dashboard_summary.name is 'staleness: what task_staleness_now returned. dlq: what dlq_retry_numbers returned.';
comment on column postrider.dashboard_summary.as_of is 'When it was counted; -infinity for never.';
comment on column postrider.dashboard_summary.took_ms is 'How long that took, in milliseconds.';
comment on column postrider.dashboard_summary.content is 'The rows, an array of objects.';
insert into postrider.dashboard_summary values ('staleness', '-infinity', 0, '[]'), ('dlq', '-infinity', 0, '[]');

-- What becomes of a task when an outbox event of it cannot be delivered, and how it gets on the road again.
create table postrider.tasker_undelivered_events (
    event_id      uuid not null,
    episode       integer not null,
    task_uuid     uuid not null,
    topic         text not null,
    attempts      integer not null,
    error_class   text,
    error_code    text,
    error_message text,
    sort_key      integer,
    outcome       text not null check (outcome in ('waiting', 'moved', 'refused')),
    detail        text not null,
    noted_at      timestamptz not null default clock_timestamp(),
    tried_at      timestamptz not null default clock_timestamp(),
    constraint tasker_undelivered_events_times check (isfinite(noted_at) and isfinite(tried_at)),
    primary key (event_id, episode)
);
comment on table postrider.tasker_undelivered_events is
'Outbox events of tasks that were given up and whose task was not moved to its dead-letter state in the same transaction: it waits, or cannot be. Where the task was moved at once there is no row. Rows that wait no longer go after 30 days.';
comment on column postrider.tasker_undelivered_events.event_id is 'The event; outbox_event.event_id.';
comment on column postrider.tasker_undelivered_events.episode is 'How many times it had been given up.';
comment on column postrider.tasker_undelivered_events.task_uuid is 'The task that its writer named; it need not exist.';
comment on column postrider.tasker_undelivered_events.topic is 'The topic that the event was bound for.';
comment on column postrider.tasker_undelivered_events.attempts is 'Attempts before it was given up.';
comment on column postrider.tasker_undelivered_events.error_class is 'Class of the last failure.';
comment on column postrider.tasker_undelivered_events.error_code is 'Code of the last failure.';
comment on column postrider.tasker_undelivered_events.error_message is 'Message of the last failure.';
comment on column postrider.tasker_undelivered_events.sort_key is 'Number of the task''s newest transition when the event was written, as others saw it when it was given up. A task that began anew by a later one is left alone. Null where it could not be read.';
comment on column postrider.tasker_undelivered_events.outcome is 'waiting: another transaction was at work on the task, or moving it failed; it is tried again. moved: a later attempt succeeded. refused: the task is unknown, has ended, or has no state to go to.';
comment on column postrider.tasker_undelivered_events.detail is 'Why, for people.';
comment on column postrider.tasker_undelivered_events.noted_at is 'When the event was given up.';
comment on column postrider.tasker_undelivered_events.tried_at is 'When moving the task was last tried.';
create index tasker_undelivered_events_waiting on postrider.tasker_undelivered_events (tried_at) where outcome = 'waiting';
comment on index postrider.tasker_undelivered_events_waiting is 'Events to try again; the one tried longest ago first.';
create index tasker_undelivered_events_old on postrider.tasker_undelivered_events (noted_at) where outcome <> 'waiting';
comment on index postrider.tasker_undelivered_events_old is 'What may be removed.';
create index tasker_undelivered_events_task on postrider.tasker_undelivered_events (task_uuid);
comment on index postrider.tasker_undelivered_events_task is 'What could not be delivered of a task.';

-- What the desk tells of the dead letters of tasks, so that no function here asks for it.
create table postrider.tasker_letter (
    letter_id  text primary key,
    task_uuid  uuid not null,
    entry_uuid uuid,
    closed_at  timestamptz,
    superseded_at timestamptz,
    superseded_by text
);
comment on table postrider.tasker_letter is
'The dead letters of live tasks, and of events of them whose giving up moved them: each is written with the letter, and the desk notes where its investigation stands. They go when the task is archived.';
comment on column postrider.tasker_letter.letter_id is 'The dead letter, as in tasker_tasks.dead_letters.';
comment on column postrider.tasker_letter.task_uuid is 'The task.';
comment on column postrider.tasker_letter.entry_uuid is 'Its investigation; null until the collector has recorded the letter.';
comment on column postrider.tasker_letter.closed_at is 'When that was closed or purged; null while it is pending, and before it is there.';
comment on column postrider.tasker_letter.superseded_at is 'When the task was retried while that was open. The desk closes it then, or as soon as it is there.';
comment on column postrider.tasker_letter.superseded_by is 'Who retried the task; null if that was not said.';
create index tasker_letter_task on postrider.tasker_letter (task_uuid);
comment on index postrider.tasker_letter_task is 'The dead letters of a task.';
create index tasker_letter_entry on postrider.tasker_letter (entry_uuid) where entry_uuid is not null;
comment on index postrider.tasker_letter_entry is 'The letters of an investigation.';

-- What PostgreSQL made for constraints and identities.
comment on index postrider.dashboard_summary_pkey is 'One summary per view.';
comment on index postrider.tasker_archive_statistics_pkey is 'One row per month and final state.';
comment on index postrider.tasker_detector_pkey is 'There is one row.';
comment on index postrider.tasker_letter_pkey is 'A letter belongs to one task.';
comment on index postrider.tasker_machine_states_pkey is 'The states of a machine, each once.';
comment on index postrider.tasker_machine_transitions_pkey is 'The transitions of a machine, each once; task_move asks it whether a move is allowed.';
comment on index postrider.tasker_named_tasks_pkey is 'A template by its id.';
comment on index postrider.tasker_named_tasks_task_namespace_uuid_name_version_key is 'A template by namespace, name and version.';
comment on index postrider.tasker_settings_pkey is 'There is one row.';
comment on index postrider.tasker_state_machines_name_key is 'A machine by its name.';
comment on index postrider.tasker_state_machines_pkey is 'A machine by its id.';
comment on index postrider.tasker_switch_pkey is 'One switch per kind of engine.';
comment on index postrider.tasker_task_counts_pkey is 'A row of counts.';
comment on index postrider.tasker_task_namespaces_name_key is 'A namespace by its name.';
comment on index postrider.tasker_task_namespaces_pkey is 'A namespace by its id.';
comment on index postrider.tasker_task_transitions_archive_pkey is 'The history of an archived task, in its order.';
comment on index postrider.tasker_task_transitions_pkey is 'A transition by its id.';
comment on index postrider.tasker_task_transitions_task_uuid_sort_key_key is 'The history of a task, in its order; no number is given twice.';
comment on index postrider.tasker_tasks_archive_pkey is 'An archived task by its id.';
comment on index postrider.tasker_tasks_pkey is 'A task by its id.';
comment on index postrider.tasker_undelivered_events_pkey is 'One note per event, and time that it was given up.';
comment on index postrider.tasker_workers_pkey is 'A worker of a namespace.';
comment on index postrider.tasker_workflow_step_transitions_archive_pkey is 'The step transitions of an archived task, in their order.';
comment on index postrider.tasker_workflow_step_transitions_pkey is 'A step transition by its id.';
comment on index postrider.tasker_workflow_steps_archive_pkey is 'The steps of an archived task.';
comment on index postrider.tasker_workflow_steps_pkey is 'A step by its id.';
comment on index postrider.tasker_workflow_steps_task_uuid_step_name_key is 'The steps of a task; no name is given twice.';
comment on sequence postrider.tasker_task_counts_count_id_seq is 'Numbers of tasker_task_counts.count_id.';
comment on sequence postrider.tasker_state_machines_state_machine_id_seq is 'Numbers of tasker_state_machines.state_machine_id.';
