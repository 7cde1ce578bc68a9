-- Who may do what at the desk, and what was done.

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
comment on table postrider.access_audit is 'What was changed by whom, written in the transaction of the change. Rows are added and never changed; retention removes old ones. The roles may set what was done and by whom. The time, the login and the transaction come from the defaults; the roles may not set them.';
comment on column postrider.access_audit.access_audit_id is 'Order of writing.';
comment on column postrider.access_audit.at is 'When, by the clock of the database.';
comment on column postrider.access_audit.actor is 'Who: the name of the API key, or the database user of a command.';
comment on column postrider.access_audit.key_id is 'The API key, if one was used, or the session of the web console, if it stands on none.';
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
comment on index postrider.access_audit_actor is 'What an actor did.';
create index access_audit_action on postrider.access_audit (action, at, access_audit_id);
comment on index postrider.access_audit_action is 'When a thing of one kind was done.';
create index access_audit_target on postrider.access_audit (target_type, target_id, at, access_audit_id);
comment on index postrider.access_audit_target is 'What was done to one thing.';
create index access_audit_target_id on postrider.access_audit (target_id, at, access_audit_id) where target_id is not null;
comment on index postrider.access_audit_target_id is 'The same, where only its id is asked for.';
create index access_audit_entries on postrider.access_audit using gin ((details -> 'entries') jsonb_path_ops) where details ? 'entries';
comment on index postrider.access_audit_entries is 'What was done to one investigation among others.';
create index access_audit_login on postrider.access_audit (split_part(actor, ' (', 1), at, access_audit_id) where actor like 'cli:%';
comment on index postrider.access_audit_login is 'What was done with one login of the database, by all people who used it.';

create table postrider.access_due (
    transaction_id xid8 primary key default pg_current_xact_id()
);
comment on table postrider.access_due is 'Transactions that owe the audit log a row. Each row is deleted before its transaction is committed, so no other transaction ever sees one.';
comment on column postrider.access_due.transaction_id is 'The transaction, as access_audit has it.';

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

create table postrider.access_link (
    access_link_id text primary key,
    secret_hash    bytea not null check (octet_length(secret_hash) = 32),
    access_key_id  text references postrider.access_key,
    name           text not null,
    scopes         text[] not null,
    created_by     text not null,
    created_at     timestamptz not null default now(),
    expires_at     timestamptz not null,
    used_at        timestamptz
);
comment on table postrider.access_link is 'One-time links to the web console: the public id and a SHA-256 of the secret. The first use opens a session, every other is refused.';
comment on column postrider.access_link.access_link_id is 'The part of the link that names it.';
comment on column postrider.access_link.secret_hash is 'SHA-256 of the secret part.';
comment on column postrider.access_link.access_key_id is 'The API key that its session stands on; null for a link that was made for a person.';
comment on column postrider.access_link.name is 'Who signs in with it.';
comment on column postrider.access_link.scopes is 'What its session may do; empty where it stands on a key, whose scopes count.';
comment on column postrider.access_link.created_by is 'Who made it.';
comment on column postrider.access_link.created_at is 'When.';
comment on column postrider.access_link.expires_at is 'Until when it may be used.';
comment on column postrider.access_link.used_at is 'When it was used; null until then.';
create index access_link_age on postrider.access_link (expires_at);
comment on index postrider.access_link_age is 'Which are old enough to go.';
create index access_link_key on postrider.access_link (access_key_id) where access_key_id is not null;
comment on index postrider.access_link_key is 'The links of a key, for the foreign key.';

create table postrider.access_session (
    access_session_id text primary key,
    secret_hash    bytea not null check (octet_length(secret_hash) = 32),
    access_key_id  text references postrider.access_key,
    name           text not null,
    scopes         text[] not null,
    created_at     timestamptz not null default now(),
    last_used_at   timestamptz not null default now(),
    expires_at     timestamptz not null,
    ended_at       timestamptz
);
comment on table postrider.access_session is 'Sessions of the web console: the public id and a SHA-256 of the secret, which the browser alone has.';
comment on column postrider.access_session.access_session_id is 'The part of the cookie that names it. The audit log has it as the key of what was done in a session that stands on no key.';
comment on column postrider.access_session.secret_hash is 'SHA-256 of the secret part.';
comment on column postrider.access_session.access_key_id is 'The API key that it stands on, and with which it ends; null for a person who signed in by a link.';
comment on column postrider.access_session.name is 'Who signed in.';
comment on column postrider.access_session.scopes is 'What it may do; empty where it stands on a key, whose scopes count.';
comment on column postrider.access_session.created_at is 'When it began.';
comment on column postrider.access_session.last_used_at is 'When it was last used, to the minute.';
comment on column postrider.access_session.expires_at is 'When it ends at the latest.';
comment on column postrider.access_session.ended_at is 'When it was ended before its time; null where it was not.';
create index access_session_age on postrider.access_session (expires_at);
comment on index postrider.access_session_age is 'Which are old enough to go.';
create index access_session_key on postrider.access_session (access_key_id) where access_key_id is not null;
comment on index postrider.access_session_key is 'The sessions of a key, for the foreign key.';

-- What PostgreSQL made for constraints and identities.
comment on index postrider.access_answer_pkey is 'One answer per key and Idempotency-Key.';
comment on index postrider.access_audit_pkey is 'Rows by their number, and pages of the log in its order.';
comment on index postrider.access_due_pkey is 'A transaction owes one row, however much it changes.';
comment on index postrider.access_key_pkey is 'A key by its id.';
comment on sequence postrider.access_audit_access_audit_id_seq is 'Numbers of access_audit.access_audit_id.';
comment on index postrider.access_link_pkey is 'A link by its id.';
comment on index postrider.access_session_pkey is 'A session by its id.';
