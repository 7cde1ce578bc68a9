-- What people did, and what a transaction owes the log of it. Every other room writes here by functions.

create table postrider.access_audit (
    access_audit_id bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    actor       text not null default 'cli:' || session_user,
    key_id      text,
    action      text not null,
    target_type text not null,
    target_id   text,
    request_id  text,
    sources     text[] not null default '{*}',
    details     jsonb not null default '{}',
    session_user_name text not null default session_user,
    transaction_id xid8 not null default pg_current_xact_id()
);
comment on table postrider.access_audit is 'What was changed by whom, written in the transaction of the change. Rows are added and never changed; retention removes old ones. The roles may set what was done and by whom. The time, the login and the transaction come from the defaults; the roles may not set them.';
comment on column postrider.access_audit.access_audit_id is 'Order of writing.';
comment on column postrider.access_audit.at is 'When, by the clock of the database.';
comment on column postrider.access_audit.actor is 'Who: the name of the API key, of who signed in to the web console, or cli: and the login of the database, for a command and for SQL. The default is that of SQL. A row that an operator''s transaction owes must name its own login (access_owe).';
comment on column postrider.access_audit.key_id is 'The API key, if one was used, or the session of the web console, if it has no key.';
comment on column postrider.access_audit.action is 'What, for example dlq.requeue.';
comment on column postrider.access_audit.target_type is 'On what kind of thing: entry, group, operation, event, task, key, payload …';
comment on column postrider.access_audit.target_id is 'On which.';
comment on column postrider.access_audit.request_id is 'The request, as in the log and the answer.';
comment on column postrider.access_audit.sources is 'The sources whose things it was about, by name. {*} is the whole installation, such as a key, or what the writer of the row did not say: a person with all sources alone sees such a row.';
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
create index access_audit_operation on postrider.access_audit (target_id, at, access_audit_id) where target_type = 'operation' and action like 'operation.%';
comment on index postrider.access_audit_operation is 'What people did with one operation, whose batches have a row each beside it.';
create index access_audit_deeds on postrider.access_audit (at, access_audit_id) where target_type <> 'operation' or action like 'operation.%';
comment on index postrider.access_audit_deeds is 'What was done when, without the batches of operations: an operation of a million investigations has thousands.';
create index access_audit_target_id on postrider.access_audit (target_id, at, access_audit_id) where target_id is not null;
comment on index postrider.access_audit_target_id is 'The same, where only its id is asked for.';
create index access_audit_entries on postrider.access_audit using gin ((details -> 'entries') jsonb_path_ops) where details -> 'entries' is not null;
comment on index postrider.access_audit_entries is 'What was done to one investigation among others.';
create index access_audit_login on postrider.access_audit (split_part(actor, ' (', 1), at, access_audit_id) where actor like 'cli:%';
comment on index postrider.access_audit_login is 'What was done with one login of the database, by all people who used it.';

create table postrider.access_due (
    access_due_id  bigint generated always as identity primary key,
    transaction_id xid8 not null default pg_current_xact_id(),
    actions        text[] not null check (cardinality(actions) > 0),
    target_type    text not null,
    target_ids     text[] not null check (cardinality(target_ids) > 0)
);
comment on table postrider.access_due is 'What a transaction changed with an operator''s rights, and owes the audit log for. One row is for one call of a function, whatever number of things that changed. All rows are deleted before their transaction is committed, so no other transaction ever sees one.';
comment on column postrider.access_due.access_due_id is 'Order of writing.';
comment on column postrider.access_due.transaction_id is 'The transaction, as access_audit has it.';
comment on column postrider.access_due.actions is 'As which action the audit log may have it: the function''s own first, then the actions that it is a part of.';
comment on column postrider.access_due.target_type is 'What kind of thing was changed, as access_audit has it.';
comment on column postrider.access_due.target_ids is 'Which were changed; an empty text is for no thing in particular, which access_audit has as null.';
create index access_due_transaction on postrider.access_due (transaction_id);
comment on index postrider.access_due_transaction is 'What one transaction owes.';

-- What PostgreSQL made for constraints and identities.
comment on index postrider.access_audit_pkey is 'Rows by their number, and pages of the log in its order.';
comment on index postrider.access_due_pkey is 'Dues by their number.';
comment on sequence postrider.access_due_access_due_id_seq is 'Numbers of access_due.access_due_id.';
comment on sequence postrider.access_audit_access_audit_id_seq is 'Numbers of access_audit.access_audit_id.';
