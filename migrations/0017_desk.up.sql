-- The desk: groups of investigations, redrives and the operations that make many, who may do what, and
-- what was done.

create table postrider.dlq_group (
    dlq_group_uuid      uuid primary key default postrider.uuid_generate_v7(),
    fingerprint         text not null unique check (octet_length(fingerprint) <= 128),
    fingerprint_version integer not null,
    parts               jsonb not null check (jsonb_typeof(parts) = 'object'),
    title               text not null,
    topic               text,
    state               text not null default 'new' check (state in ('new', 'ongoing', 'regressed', 'resolved', 'muted')),
    muted_until         timestamptz,
    total               bigint not null default 0,
    pending             bigint not null default 0,
    first_seen_at       timestamptz not null,
    last_seen_at        timestamptz not null,
    resolved_through    timestamptz,
    last_entry_uuid     uuid,
    note                text,
    updated_at          timestamptz not null default now()
);
comment on table postrider.dlq_group is
'Investigations of the same cause: those whose fingerprint is the same. The fingerprint is a hash of parts, which say why an investigation is here.';
comment on column postrider.dlq_group.dlq_group_uuid is 'Identity.';
comment on column postrider.dlq_group.fingerprint is 'Version, a colon and the hash of the parts.';
comment on column postrider.dlq_group.fingerprint_version is 'Which rule made it; a new rule makes new groups and leaves the old ones.';
comment on column postrider.dlq_group.parts is 'What the hash is of: error_code, error_class, message (normalised), topic, template.';
comment on column postrider.dlq_group.title is 'One line for people.';
comment on column postrider.dlq_group.topic is 'The topic that the messages were bound for or came from.';
comment on column postrider.dlq_group.state is 'new (since the first one, until somebody acts or a day has passed), ongoing, regressed (came back after all were closed), resolved (none pending), muted (until muted_until, or for good).';
comment on column postrider.dlq_group.muted_until is 'When a muted group becomes ongoing again; null is never.';
comment on column postrider.dlq_group.total is 'Investigations that it ever had.';
comment on column postrider.dlq_group.pending is 'Those that are open.';
comment on column postrider.dlq_group.first_seen_at is 'When the first of its letters failed.';
comment on column postrider.dlq_group.last_seen_at is 'When the newest one did.';
comment on column postrider.dlq_group.resolved_through is 'Letters that failed until then do not make a resolved group regressed: they were on their way when it was resolved.';
comment on column postrider.dlq_group.last_entry_uuid is 'Its newest investigation.';
comment on column postrider.dlq_group.note is 'What people wrote about it.';
comment on column postrider.dlq_group.updated_at is 'When it last changed.';
create index dlq_group_seen on postrider.dlq_group (state, last_seen_at desc, dlq_group_uuid desc);
comment on index postrider.dlq_group_seen is 'Listing by state, newest first.';

alter table postrider.dlq_entry
    add column dlq_group_uuid uuid references postrider.dlq_group,
    add column attempts integer,
    add column assignee text;
comment on column postrider.dlq_entry.dlq_group_uuid is 'Its group; null only for what was there before groups.';
comment on column postrider.dlq_entry.attempts is 'Attempts of its newest letter (retry_count of the API).';
comment on column postrider.dlq_entry.assignee is 'Who looks at it.';
create index dlq_entry_group on postrider.dlq_entry (dlq_group_uuid, resolution_status, created_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_group is 'The investigations of a group.';
create index dlq_entry_created on postrider.dlq_entry (created_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_created is 'Listing by age.';
create index dlq_entry_updated on postrider.dlq_entry (updated_at, dlq_entry_uuid);
comment on index postrider.dlq_entry_updated is 'Listing by the time of the last change.';

create table postrider.dlq_operation (
    dlq_operation_uuid uuid primary key default postrider.uuid_generate_v7(),
    kind          text not null check (kind in ('redrive', 'resolve', 'purge')),
    name          text not null,
    actor         text not null,
    state         text not null check (state in ('planned', 'canary', 'running', 'paused', 'halted', 'aborted', 'completed')),
    scope         jsonb not null,
    options       jsonb not null default '{}',
    plan          jsonb not null default '{}',
    reason        text,
    items         bigint not null default 0,
    done          bigint not null default 0,
    skipped       bigint not null default 0,
    failed        bigint not null default 0,
    came_back     bigint not null default 0,
    delivered     bigint not null default 0,
    error         text,
    next_at       timestamptz,
    created_at    timestamptz not null default now(),
    started_at    timestamptz,
    treated_at    timestamptz,
    treated_through bigint not null default 0,
    finished_at   timestamptz,
    updated_at    timestamptz not null default now()
);
comment on table postrider.dlq_operation is 'Redrives, resolutions and purges of many investigations at once. The scope is frozen when it is planned. Those that ended are removed after dlq.operation_retention_days.';
comment on column postrider.dlq_operation.dlq_operation_uuid is 'Identity.';
comment on column postrider.dlq_operation.kind is 'redrive, resolve or purge.';
comment on column postrider.dlq_operation.name is 'Given by who started it, for example the incident. Those that have not ended have different ones.';
comment on column postrider.dlq_operation.actor is 'Who started it.';
comment on column postrider.dlq_operation.state is 'planned (not begun), canary (the first few are out, the rest waits for them), running, paused (by somebody), halted (too many came back dead), aborted, completed.';
comment on column postrider.dlq_operation.scope is 'What was asked for: ids, a filter or a group, and the cut-off time.';
comment on column postrider.dlq_operation.options is 'target, rate (a second), canary (how many), halt_ratio, edits.';
comment on column postrider.dlq_operation.plan is 'What it would do when it was planned: how many, bytes, topics, keys whose order is affected, already redriven.';
comment on column postrider.dlq_operation.reason is 'Why, in the words of who started it.';
comment on column postrider.dlq_operation.items is 'Investigations in its scope.';
comment on column postrider.dlq_operation.done is 'Those that it has treated.';
comment on column postrider.dlq_operation.skipped is 'Those that it left alone, each with its reason.';
comment on column postrider.dlq_operation.failed is 'Those that it could not treat.';
comment on column postrider.dlq_operation.came_back is 'Redriven ones that died again: given up by the relay, or by a consumer group whose letter was here when their delivery was seen.';
comment on column postrider.dlq_operation.delivered is 'Redriven ones that their topic acknowledged.';
comment on column postrider.dlq_operation.error is 'Why it halted, or why its last batch failed, which is made again.';
comment on column postrider.dlq_operation.next_at is 'When its next items are due, by its rate.';
comment on column postrider.dlq_operation.created_at is 'When it was planned.';
comment on column postrider.dlq_operation.started_at is 'When it began.';
comment on column postrider.dlq_operation.treated_at is 'When its last item was treated; what was redriven may still be on its way.';
comment on column postrider.dlq_operation.treated_through is 'All items up to this place were treated: what is next is looked for behind it, and not among those.';
comment on column postrider.dlq_operation.finished_at is 'When it ended.';
comment on column postrider.dlq_operation.updated_at is 'When it last changed.';
create index dlq_operation_open on postrider.dlq_operation (created_at) where state in ('canary', 'running', 'paused', 'halted', 'planned');
comment on index postrider.dlq_operation_open is 'Operations that have not ended.';
create unique index dlq_operation_name on postrider.dlq_operation (name) where state in ('canary', 'running', 'paused', 'halted', 'planned');
comment on index postrider.dlq_operation_name is 'Operations that have not ended have different names, so that a name says which one is meant.';

create table postrider.dlq_operation_item (
    dlq_operation_uuid uuid not null references postrider.dlq_operation on delete cascade,
    item               bigint not null,
    dlq_entry_uuid     uuid not null,
    state              text not null default 'waiting' check (state in ('waiting', 'done', 'skipped', 'failed')),
    reason             text,
    primary key (dlq_operation_uuid, item)
);
comment on table postrider.dlq_operation_item is 'The frozen scope of an operation, in the order in which it is treated: that of the outbox per key.';
-- By item + 0, which the primary key has not: a walk along that would pass all that were treated.
create index dlq_operation_item_waiting on postrider.dlq_operation_item (dlq_operation_uuid, (item + 0)) where state = 'waiting';
comment on index postrider.dlq_operation_item_waiting is 'What an operation has yet to treat, in order.';
create index dlq_operation_item_left on postrider.dlq_operation_item (dlq_operation_uuid, state, item) where state in ('skipped', 'failed');
comment on index postrider.dlq_operation_item_left is 'The few that an operation left alone, among many that it treated.';
comment on column postrider.dlq_operation_item.dlq_operation_uuid is 'The operation.';
comment on column postrider.dlq_operation_item.item is 'Place, from 1.';
comment on column postrider.dlq_operation_item.dlq_entry_uuid is 'The investigation; it may be gone by now.';
comment on column postrider.dlq_operation_item.state is 'waiting, done, skipped or failed.';
comment on column postrider.dlq_operation_item.reason is 'Why it was skipped or failed, for example already_queued.';

create table postrider.dlq_replay (
    replay_id          text primary key check (octet_length(replay_id) <= 128),
    dlq_entry_uuid     uuid not null,
    generation         integer not null,
    dlq_operation_uuid uuid references postrider.dlq_operation on delete set null,
    letter_id          text,
    outbox_id          bigint not null,
    event_id           uuid not null,
    in_place           boolean not null default false,
    target             text not null,
    edited             boolean not null default false,
    actor              text not null,
    episode            integer not null default 0,
    outcome            text check (outcome in ('delivered', 'came_back')),
    created_at         timestamptz not null default now(),
    finished_at        timestamptz,
    unique (dlq_entry_uuid, generation)
);
comment on table postrider.dlq_replay is 'Redrives: a dead letter''s message sent again. At most one per investigation is on its way. They go with their investigation.';
comment on column postrider.dlq_replay.replay_id is 'Investigation and generation; sent as the header replay_id, so that consumers know a repeated one.';
comment on column postrider.dlq_replay.dlq_entry_uuid is 'The investigation.';
comment on column postrider.dlq_replay.generation is 'Which redrive of it this is, from 1.';
comment on column postrider.dlq_replay.dlq_operation_uuid is 'The operation that made it, if any.';
comment on column postrider.dlq_replay.letter_id is 'The letter that was sent again.';
comment on column postrider.dlq_replay.outbox_id is 'outbox_event.id of the row that carries it.';
comment on column postrider.dlq_replay.event_id is 'Its event id; a new one, unless the same row was put back.';
comment on column postrider.dlq_replay.in_place is 'Whether the same row was put back (halt_key).';
comment on column postrider.dlq_replay.target is 'The topic that it goes to.';
comment on column postrider.dlq_replay.edited is 'Whether headers or payload were changed.';
comment on column postrider.dlq_replay.actor is 'Who asked for it.';
comment on column postrider.dlq_replay.episode is 'How many times that row had been given up when it was sent again.';
comment on column postrider.dlq_replay.outcome is 'Null while it is on its way; then delivered, or came_back (given up again).';
comment on column postrider.dlq_replay.created_at is 'When.';
comment on column postrider.dlq_replay.finished_at is 'When its outcome was seen.';
-- In words that no query uses: a partial index that was empty when statistics were taken looks like one page to read, and
-- any query with its condition may walk all of it.
create unique index dlq_replay_one_open on postrider.dlq_replay (dlq_entry_uuid) where coalesce(outcome, '') = '';
comment on index postrider.dlq_replay_one_open is 'At most one redrive of an investigation is on its way.';
create index dlq_replay_open on postrider.dlq_replay (outbox_id, replay_id) where outcome is null;
comment on index postrider.dlq_replay_open is 'Redrives whose outcome is looked for.';
create index dlq_replay_event on postrider.dlq_replay (event_id);
comment on index postrider.dlq_replay_event is 'Which redrive a dead letter came from.';
create index dlq_replay_operation on postrider.dlq_replay (dlq_operation_uuid) where dlq_operation_uuid is not null;
comment on index postrider.dlq_replay_operation is 'The redrives of an operation.';

create function postrider.dlq_replay_forget() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    delete from postrider.dlq_replay r using removed d where r.dlq_entry_uuid = d.dlq_entry_uuid and r.outcome is not null;
    return null;
end $$;
comment on function postrider.dlq_replay_forget() is
'Removes the redrives of purged investigations. One that is on its way stays until it ended, because its operation waits for that.';
revoke all on function postrider.dlq_replay_forget() from public;
create trigger dlq_entry_forgotten after delete on postrider.dlq_entry
referencing old table as removed for each statement execute function postrider.dlq_replay_forget();
comment on trigger dlq_entry_forgotten on postrider.dlq_entry is 'Redrives stay as long as their investigation.';

create function postrider.dlq_retry_numbers() returns table(dlq_reason postrider.dlq_reason, requeued bigint, avg_retries double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off as $$
    with letters as (
        select l.dlq_entry_uuid, max(l.attempts) as attempts, max(l.episode) as episode
        from postrider.dlq_letter l where l.dlq_entry_uuid is not null group by l.dlq_entry_uuid
    ), entries as (
        select e.dlq_entry_uuid, e.dlq_reason, e.resolution_status,
               case when e.subject_type = 'event' and e.subject_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then e.subject_id::uuid end as event_id,
               case when e.subject_type = 'task' and e.subject_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then e.subject_id::uuid end as task_uuid
        from postrider.dlq_entry e
    )
    select e.dlq_reason,
           count(*) filter (where r.replay_id is not null or l.episode > 1 or t.retry_count > 0 or a.retry_count > 0
               or e.event_id is not null and e.resolution_status = 'pending' and not exists (
                   select from postrider.outbox_event o where o.event_id = e.event_id and o.state in ('exhausted', 'dead_lettered'))),
           avg(coalesce(l.attempts, t.retry_count, a.retry_count))::double precision
    from entries e
    left join letters l on l.dlq_entry_uuid = e.dlq_entry_uuid
    left join postrider.dlq_replay r on r.dlq_entry_uuid = e.dlq_entry_uuid and r.generation = 1
    left join postrider.tasker_tasks t on t.task_uuid = e.task_uuid
    left join postrider.tasker_tasks_archive a on a.task_uuid = e.task_uuid
    group by e.dlq_reason
$$;
comment on function postrider.dlq_retry_numbers() is
'Per reason: how many investigations are of something that was sent again (redriven from the desk, or put back by hand; a task that was retried as a whole), and how many attempts or retries it had on average.';
revoke all on function postrider.dlq_retry_numbers() from public;

create table postrider.access_key (
    access_key_id  text primary key,
    secret_hash    bytea not null check (octet_length(secret_hash) = 32),
    name           text not null,
    scopes         text[] not null,
    created_by     text not null,
    created_at     timestamptz not null default now(),
    expires_at     timestamptz,
    last_used_at   timestamptz,
    revoked_at     timestamptz
);
comment on table postrider.access_key is 'API keys: the public id and a SHA-256 of the secret, which is shown once and kept nowhere.';
comment on column postrider.access_key.access_key_id is 'The part of the key that names it.';
comment on column postrider.access_key.secret_hash is 'SHA-256 of the secret part. The secret has 256 random bits, so a slow hash would add nothing.';
comment on column postrider.access_key.name is 'Whose it is or what for.';
comment on column postrider.access_key.scopes is 'What it may do: read, read:payload, resolve, redrive, purge, admin.';
comment on column postrider.access_key.created_by is 'Who made it.';
comment on column postrider.access_key.created_at is 'When.';
comment on column postrider.access_key.expires_at is 'Until when it works; null is for good.';
comment on column postrider.access_key.last_used_at is 'When it was last used, to the minute.';
comment on column postrider.access_key.revoked_at is 'Since when it works no more.';

create table postrider.access_audit (
    access_audit_id bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    actor       text not null,
    key_id      text,
    action      text not null,
    target_type text not null,
    target_id   text,
    request_id  text,
    details     jsonb not null default '{}',
    session_user_name text not null default session_user,
    transaction_id xid8 not null default pg_current_xact_id()
);
comment on table postrider.access_audit is 'What was changed by whom, written in the transaction of the change. Rows are added and never changed. The roles may say what was done and by whom, and not when, by which login and in which transaction: those are the defaults, which nobody else may set.';
comment on column postrider.access_audit.access_audit_id is 'Order of writing.';
comment on column postrider.access_audit.at is 'When, by the clock of the database.';
comment on column postrider.access_audit.actor is 'Who: the name of the API key, or the database user of a command.';
comment on column postrider.access_audit.key_id is 'The API key, if one was used.';
comment on column postrider.access_audit.action is 'What, for example dlq.requeue.';
comment on column postrider.access_audit.target_type is 'On what kind of thing: entry, group, operation, event, task, key, payload …';
comment on column postrider.access_audit.target_id is 'On which.';
comment on column postrider.access_audit.request_id is 'The request, as in the log and the answer.';
comment on column postrider.access_audit.details is 'Before and after, or counts; never payloads or secrets.';
comment on column postrider.access_audit.session_user_name is 'The login of the database that wrote the row: that of postrider serve for what came by the API. actor is what that login said.';
comment on column postrider.access_audit.transaction_id is 'The transaction that made the change.';
create index access_audit_at on postrider.access_audit (at, access_audit_id);
comment on index postrider.access_audit_at is 'What was done when.';
create index access_audit_actor on postrider.access_audit (actor, at, access_audit_id);
comment on index postrider.access_audit_actor is 'What somebody did.';
create index access_audit_action on postrider.access_audit (action, at, access_audit_id);
comment on index postrider.access_audit_action is 'When a thing of one kind was done.';
create index access_audit_target on postrider.access_audit (target_type, target_id, at, access_audit_id);
comment on index postrider.access_audit_target is 'What was done to one thing.';
create index access_audit_target_id on postrider.access_audit (target_id, at, access_audit_id) where target_id is not null;
comment on index postrider.access_audit_target_id is 'The same, where only its id is asked for.';
create index access_audit_entries on postrider.access_audit using gin ((details -> 'entries') jsonb_path_ops) where details ? 'entries';
comment on index postrider.access_audit_entries is 'What was done to one investigation among others.';
create function postrider.access_audit_keep() returns trigger language plpgsql as $$
begin
    raise exception using errcode = '42501', message = 'postrider: the audit log is only added to';
end $$;
comment on function postrider.access_audit_keep() is 'Refuses to change or remove what was written to the audit log.';
create index access_audit_login on postrider.access_audit (split_part(actor, ' (', 1), at, access_audit_id) where actor like 'cli:%';
comment on index postrider.access_audit_login is 'What was done with one login of the database, whoever used it.';
create trigger access_audit_keep before update or delete on postrider.access_audit
for each row execute function postrider.access_audit_keep();
comment on trigger access_audit_keep on postrider.access_audit is 'The audit log is only added to.';
create trigger access_audit_keep_all before truncate on postrider.access_audit
for each statement execute function postrider.access_audit_keep();
comment on trigger access_audit_keep_all on postrider.access_audit is 'The audit log is only added to.';

create table postrider.access_due (
    transaction_id xid8 primary key default pg_current_xact_id()
);
comment on table postrider.access_due is 'Transactions that owe the audit log a row. Each goes before its transaction is committed, so nobody else ever sees one.';
comment on column postrider.access_due.transaction_id is 'The transaction, as access_audit has it.';

create or replace function postrider.access_owe(p_service boolean default false) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    taken name := coalesce(nullif(current_setting('role'), 'none'), session_user); -- the role that was taken on; not the one of this function
begin
    -- What services do they may do. A login is one of a service where it may take steps of tasks, which operators may not;
    -- and where it may not write to the audit log, so that nobody gave it the rights of an operator.
    if p_service and (has_function_privilege(session_user, 'postrider.start_step(uuid, text)', 'execute')
                      or has_function_privilege(taken, 'postrider.start_step(uuid, text)', 'execute')
                      or not (has_any_column_privilege(session_user, 'postrider.access_audit', 'insert')
                              or has_any_column_privilege(taken, 'postrider.access_audit', 'insert'))) then
        return;
    end if;
    -- Not of the owner and of serve, which may write the tables as they like anyway.
    if not has_table_privilege(session_user, 'postrider.dlq_entry', 'delete') and not has_table_privilege(taken, 'postrider.dlq_entry', 'delete') then
        insert into postrider.access_due (transaction_id) values (default) on conflict do nothing;
    end if;
end $$;

create function postrider.access_settle() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    -- Of this transaction's time: what a restored log has may bear numbers that are yet to come. A clock is put back now and then.
    if not exists (select from postrider.access_audit a where a.at > now() - interval '1 minute' and a.transaction_id = new.transaction_id) then
        raise exception using errcode = '42501', message = 'postrider: what this transaction changed is not in the audit log',
            hint = 'The commands of postrider write it. Whoever writes SQL inserts a row into postrider.access_audit in the same transaction.';
    end if;
    delete from postrider.access_due d where d.transaction_id = new.transaction_id;
    return null;
end $$;
comment on function postrider.access_settle() is 'Refuses to commit a transaction that owes the audit log a row.';
create constraint trigger access_settle after insert on postrider.access_due deferrable initially deferred
for each row execute function postrider.access_settle();
comment on trigger access_settle on postrider.access_due is 'Asks when the transaction is committed.';

create function postrider.access_owe_change() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform postrider.access_owe();
    return null;
end $$;
comment on function postrider.access_owe_change() is 'access_owe, for tables that operators write themselves.';
revoke all on function postrider.access_settle(), postrider.access_owe_change() from public;
create trigger dlq_entry_owes before update on postrider.dlq_entry
for each statement execute function postrider.access_owe_change();
comment on trigger dlq_entry_owes on postrider.dlq_entry is 'Operators lock investigations, which takes the right to change a column: who uses it for that is in the audit log.';

create table postrider.access_answer (
    access_key_id   text not null,
    idempotency_key text not null check (octet_length(idempotency_key) between 1 and 255),
    request_hash    bytea not null,
    status          integer,
    body            bytea,
    changed_action  text,
    changed_target_id text,
    changed_request_id text,
    created_at      timestamptz not null default now(),
    primary key (access_key_id, idempotency_key)
);
comment on table postrider.access_answer is 'Answers to changing requests that had an Idempotency-Key, so that a repeated one changes nothing and gets the same answer.';
comment on column postrider.access_answer.access_key_id is 'Who asked.';
comment on column postrider.access_answer.idempotency_key is 'The Idempotency-Key of the request.';
comment on column postrider.access_answer.request_hash is 'SHA-256 of method, path and body: the same key with another request is refused.';
comment on column postrider.access_answer.status is 'Status of the answer; null while the first one is in work.';
comment on column postrider.access_answer.body is 'Body of the answer.';
comment on column postrider.access_answer.changed_action is 'What it did, as the audit log has it, written in the transaction that does it; null until then. Once it is here the request is never made again.';
comment on column postrider.access_answer.changed_target_id is 'What it was done to, as the audit log has it.';
comment on column postrider.access_answer.changed_request_id is 'The request id under which the audit log has it.';
comment on column postrider.access_answer.created_at is 'When it was claimed, which tells one who claims it from another; kept for a time that is set.';
create index access_answer_age on postrider.access_answer (created_at);
comment on index postrider.access_answer_age is 'Which are old enough to go.';

create function postrider.outbox_resend(
    p_letter_ids text[], p_event_ids uuid[], p_topics text[], p_headers jsonb[], p_edited boolean, p_payload bytea, p_traceparent text default null)
returns table (event_id uuid, id bigint) language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
    most    constant integer := postrider.outbox_max_payload_bytes();
    refused text;
    owed    boolean := false;
    -- Version, trace and span; where the span is not recorded, nothing that comes of it is.
    begun   constant text := left(p_traceparent, 53);
    flags   constant text := case when right(p_traceparent, 2) = '00' then '00' end;
begin
    if p_traceparent !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$' then
        raise exception using errcode = '22023', message = format('postrider: %L is no traceparent of version 00', left(p_traceparent, 100));
    end if;
    -- Each thing is looked up by its key, once for each message: as joins, statistics or an old plan of the session could
    -- make them walks.
    for event_id, id, refused in
        with given as materialized (
            select w.place, w.event_id, w.topic, w.letter_id,
                   -- Nothing enters the outbox here but the message of somebody's investigation, and it says which.
                   case when e.resolution_status is distinct from 'pending' or r.generation is not null and r.outcome is null
                             or r.outcome = 'came_back' and (select true from postrider.dlq_letter b
                                    where b.letter_id = 'event:' || r.event_id || ':' || (r.episode + 1) limit 1) is null then -2
                        when (l.key_kind = 'reference' or l.payload_kind = 'reference' and not p_edited) and o.id is null then 0
                        when octet_length(p.payload) > most then -1 end as refusal,
                   coalesce(o.kind, 'event') as kind, o.task_uuid, o.max_attempts, p.payload, l.hops,
                   case l.key_kind when 'reference' then o.key else l.key end as key,
                   -- Its headers were left out with the key.
                   coalesce(w.headers, case l.key_kind when 'reference' then o.headers else l.headers end) as headers,
                   e.dlq_entry_uuid::text || ':' || (coalesce(r.generation, 0) + 1) as replay_id,
                   case when l.event_id is not null then 'event:' || l.event_id
                        when l.origin_topic <> '' and l.origin_partition is not null and l.origin_offset is not null
                        then 'record:' || l.origin_topic || '/' || l.origin_partition || '/' || l.origin_offset
                        else 'record:' || l.dlq_topic || '/' || l.dlq_partition || '/' || l.dlq_offset end as replay_of,
                   -- A group that fails again at what came to its retry topic says where it read the message first.
                   case when e.subject_type = 'record' and l.origin_topic <> '' and l.origin_partition is not null and l.origin_offset is not null
                        then jsonb_build_array(jsonb_build_array('replay_origin', e.subject_id)) else '[]' end as replay_origin
            from unnest(p_letter_ids, p_event_ids, p_topics, p_headers) with ordinality as w(letter_id, event_id, topic, headers, place)
            left join lateral (
                select l.dlq_entry_uuid, l.key, l.key_kind, l.payload, l.payload_kind, l.headers, l.hops, l.outbox_id, l.event_id,
                       l.origin_topic, l.origin_partition, l.origin_offset, l.dlq_topic, l.dlq_partition, l.dlq_offset
                from postrider.dlq_letter l where l.letter_id = w.letter_id limit 1) l on true
            left join lateral (
                select e.dlq_entry_uuid, e.resolution_status, e.subject_type, e.subject_id
                from postrider.dlq_entry e where e.dlq_entry_uuid = l.dlq_entry_uuid limit 1) e on true
            left join lateral (
                select r.generation, r.outcome, r.event_id, r.episode
                from postrider.dlq_replay r where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) r on true
            left join lateral (
                select o.id, o.kind, o.key, o.payload, o.headers, o.task_uuid, o.max_attempts
                from postrider.outbox_event o where o.id = l.outbox_id and o.event_id = l.event_id limit 1) o on true
            cross join lateral (
                select case when p_edited then p_payload when l.payload_kind = 'reference' then o.payload else l.payload end as payload) p
        ), fresh as (
            insert into postrider.outbox_event as n (event_id, kind, topic, key, payload, headers, task_uuid, max_attempts)
            select g.event_id, g.kind, g.topic, g.key, g.payload,
                   h.pairs
                   || jsonb_build_array(jsonb_build_array('replay_of', g.replay_of), jsonb_build_array('replay_id', g.replay_id))
                   || g.replay_origin
                   || jsonb_build_array(jsonb_build_array('postrider-hops', (g.hops + 1)::text))
                   || case when t.parent is null then '[]' else jsonb_build_array(jsonb_build_array('replay_traceparent', t.parent)) end,
                   g.task_uuid, g.max_attempts
            from given g
            cross join lateral (
                select case when jsonb_typeof(g.headers) = 'object'
                            then (select coalesce(jsonb_agg(jsonb_build_array(x.key, x.value)), '[]') from jsonb_each(g.headers) x)
                            else g.headers end as pairs offset 0) a
            -- Those of an earlier redrive go, so that they do not pile up; and ours, which a consumer that gave a message up
            -- copied with the rest, and nameless ones, because the relay refuses both from whoever writes. Most have none.
            cross join lateral (
                select case when jsonb_path_exists(a.pairs, 'strict $[*] ? (@[0] == "" || @[0] == "replay_of" || @[0] == "replay_id" || @[0] == "replay_origin" || @[0] == "replay_traceparent" || @[0] like_regex "^postrider-" flag "i")')
                            then (select coalesce(jsonb_agg(x.pair order by x.place), '[]')
                                  from jsonb_array_elements(a.pairs) with ordinality x(pair, place)
                                  where x.pair->>0 <> '' and lower(left(x.pair->>0, 10)) <> 'postrider-'
                                    and x.pair->>0 not in ('replay_of', 'replay_id', 'replay_origin', 'replay_traceparent'))
                            else a.pairs end as pairs offset 0) b
            -- A redrive is a trace of its own, recorded if the old one is, which the relay links to it. What cannot be read
            -- as one traceparent stays as it is.
            cross join lateral (
                select case when b.pairs @> '[["traceparent"]]'
                            then (select min(x.pair->>1) from jsonb_array_elements(b.pairs) x(pair)
                                  where x.pair->>0 = 'traceparent' having count(*) = 1) end as parent offset 0) c
            cross join lateral (
                select case when c.parent ~ '^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|(?!00|ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?)$'
                             and substr(c.parent, 4, 32) <> repeat('0', 32) and substr(c.parent, 37, 16) <> repeat('0', 16)
                            then c.parent end as parent offset 0) t
            -- It begins with the span of the redrive; where nobody makes such spans its ids are made of the event's, which is
            -- random and nobody else's.
            cross join lateral (
                select case when t.parent is null then b.pairs
                            else (select jsonb_agg(case when x.pair->>0 = 'traceparent'
                                         then jsonb_build_array('traceparent', coalesce(begun, '00-' || left(s.ids, 32) || '-' || substr(s.ids, 33, 16) || '-') || coalesce(flags, substr(t.parent, 54, 2)))
                                         else x.pair end order by x.place)
                                  from jsonb_array_elements(b.pairs) with ordinality x(pair, place),
                                       (select encode(sha256(uuid_send(g.event_id)), 'hex') as ids) s
                                  where x.pair->>0 <> 'tracestate') end as pairs offset 0) h -- it says something about the old one
            where g.refusal is null
            order by g.place
            returning n.event_id, n.id
        )
        select g.event_id, g.refusal::bigint, case g.refusal when -2 then coalesce(g.letter_id, 'null') end from given g where g.refusal is not null
        union all
        select f.event_id, f.id, null from fresh f
    loop
        if refused is not null then
            raise exception using errcode = '55000', message = format('postrider: letter %s has no pending investigation, or a redrive of that is on its way', refused),
                hint = 'postrider dlq requeue sends messages again, one after the other.';
        end if;
        if id > 0 and not owed then
            owed := true;
            perform postrider.access_owe();
        end if;
        return next;
    end loop;
end $$;
comment on function postrider.outbox_resend(text[], uuid[], text[], jsonb[], boolean, bytea, text) is
'Writes the messages of letters as new events with the given event ids, each for its topic, in the given order, and returns their ids. Each letter must be of a pending investigation of which no redrive is on its way, or nothing is written; whoever calls notes the redrives in the same transaction. What a letter only refers to comes from the event that it is about: if that is gone, 0 is returned for it, and -1 for a payload beyond the limit; these are not written. With p_edited the payload of all is p_payload instead; where headers are given for one, they take the place of its own. p_traceparent is the span of the redrive, with which the new trace of each message begins that has a traceparent; null begins one trace for each.';
revoke all on function postrider.outbox_resend(text[], uuid[], text[], jsonb[], boolean, bytea, text) from public;

create function postrider.dlq_complete_letter(
    p_letter_id text, p_state text, p_key bytea, p_payload bytea, p_headers jsonb, p_event_id uuid, p_note jsonb, p_snapshot jsonb)
returns boolean language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    entry uuid;
begin
    -- What a letter has is never changed: only one that has neither key nor value, or whose value was left out, and that
    -- points to a record, is completed, once.
    update postrider.dlq_letter l
    set original_record = p_state,
        key = case when p_state = 'fetched' then p_key else l.key end,
        key_kind = case when p_state <> 'fetched' then l.key_kind when p_key is null then 'tombstone' else 'inline' end,
        payload = case when p_state = 'fetched' then p_payload end,
        payload_kind = case when p_state <> 'fetched' then l.payload_kind when p_payload is null then 'tombstone' else 'inline' end,
        payload_bytes = case when p_state = 'fetched' then octet_length(p_payload) else l.payload_bytes end,
        headers = case when p_state = 'fetched' and l.headers = '[]' then p_headers else l.headers end,
        event_id = case when p_state = 'fetched' then coalesce(l.event_id, p_event_id) else l.event_id end
    where l.letter_id = p_letter_id and l.outbox_id is null
      and l.origin_topic <> '' and l.origin_partition is not null and l.origin_offset is not null
      and (l.payload_kind = 'reference' or l.key is null and l.payload is null)
      and l.original_record is distinct from 'fetched'
    returning l.dlq_entry_uuid into entry;
    if not found then
        return false;
    end if;
    update postrider.dlq_entry e set metadata = coalesce(e.metadata, '{}') || p_note, snapshot = coalesce(p_snapshot, e.snapshot), updated_at = now()
    where e.dlq_entry_uuid = entry;
    return true;
end $$;
comment on function postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb) is
'Notes what became of asking for the record that a letter points to (see dlq_letter.original_record), and, for fetched, stores its key, payload, headers and event id. The note is merged into the metadata of its investigation, and the snapshot, if not null, takes the place of what is there. False, and nothing changed, for a letter that points to none, or that has its bytes.';
revoke all on function postrider.dlq_complete_letter(text, text, bytea, bytea, jsonb, uuid, jsonb, jsonb) from public;
create index dlq_letter_away on postrider.dlq_letter (dlq_entry_uuid) where original_record in ('no_leader', 'refused', 'unanswered');
comment on index postrider.dlq_letter_away is 'Letters that point to records which could not be asked for yet.';

create function postrider.outbox_amend(p_letter_id text, p_edited boolean, p_payload bytea, p_headers jsonb)
returns integer language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    letter record;
    was    record;
begin
    select l.outbox_id, l.event_id, l.episode, l.payload_kind, l.key_kind,
           (select h.pair->>1 from jsonb_array_elements(l.headers) h(pair) where h.pair->>0 = 'postrider-invalid-headers' limit 1) as invalid
    into letter
    from postrider.dlq_letter l
    cross join lateral (
        select e.dlq_entry_uuid, e.resolution_status from postrider.dlq_entry e where e.dlq_entry_uuid = l.dlq_entry_uuid limit 1) e
    where l.letter_id = p_letter_id and l.dialect = 'postrider' and e.resolution_status = 'pending'
      and (select r.outcome is null from postrider.dlq_replay r
           where r.dlq_entry_uuid = e.dlq_entry_uuid order by r.generation desc limit 1) is not true;
    -- This transaction put it back: nobody else can have it in work, and nothing was sent of it.
    select e.id, e.episode, e.headers::text as headers into was from postrider.outbox_event e
    where letter.outbox_id is not null and e.id = letter.outbox_id and e.event_id = letter.event_id
      and e.state = 'pending' and e.updated_at = now();
    if not found then
        raise exception using errcode = '55000', message = format('postrider: the event of letter %s cannot be changed', p_letter_id),
            detail = 'only the event of a pending investigation can be, in the transaction that puts it back in its place';
    end if;
    -- The letter keeps what was given up.
    if was.episode <> letter.episode or p_edited and letter.payload_kind = 'reference'
       or p_headers is not null and (letter.key_kind = 'reference' or letter.invalid <> was.headers) then
        return -2;
    end if;
    if p_edited and octet_length(p_payload) > postrider.outbox_max_payload_bytes() then
        return -1;
    end if;
    perform postrider.access_owe();
    update postrider.outbox_event e
    set payload = case when p_edited then p_payload else e.payload end, headers = coalesce(p_headers, e.headers)
    where e.id = was.id;
    return 1;
end $$;
comment on function postrider.outbox_amend(text, boolean, bytea, jsonb) is
'Changes the payload (with p_edited) or the headers (where given) of an event that the same transaction put back in its place with outbox_redrive. Its letter, of a pending investigation, keeps the original. -1 is returned for a payload beyond the limit, -2 where the letter has not the whole of what would be replaced; then nothing is changed.';
revoke all on function postrider.outbox_amend(text, boolean, bytea, jsonb) from public;

create function postrider.outbox_standing(p_ids bigint[], p_event_ids uuid[])
returns table (place bigint, state text, episode integer)
language sql stable security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select w.place, e.state::text, e.episode
    from unnest(p_ids, p_event_ids) with ordinality w(id, event_id, place)
    join postrider.outbox_event e on e.id = any (array[w.id]) and e.event_id = w.event_id
$$;
comment on function postrider.outbox_standing(bigint[], uuid[]) is
'How events stand that were given up before: place in the arrays, state, and how often they were given up. Events that are gone are left out: those that had been published, or that no investigation needs.';
revoke all on function postrider.outbox_standing(bigint[], uuid[]) from public;
