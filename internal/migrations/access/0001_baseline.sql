-- Who may do what at the desk: keys, sessions, and the answers that they got.

create table postrider.access_key (
    access_key_id  text primary key,
    secret_hash    bytea not null check (octet_length(secret_hash) = 32),
    name           text not null,
    scopes         text[] not null,
    sources        text[] not null default '{*}',
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
comment on column postrider.access_key.scopes is 'What it may do: read, read:payload, resolve, redrive, redrive:edit, purge, admin.';
comment on column postrider.access_key.sources is 'The sources whose things it sees and acts on, by name; {*} is all, {} is none.';
comment on column postrider.access_key.created_by is 'Who made it.';
comment on column postrider.access_key.created_at is 'When.';
comment on column postrider.access_key.expires_at is 'Until when it works; null is for good.';
comment on column postrider.access_key.last_used_at is 'When it was last used, to the minute.';
comment on column postrider.access_key.revoked_at is 'Since when it works no more.';

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
    sources        text[] not null default '{*}',
    created_by     text not null,
    created_at     timestamptz not null default now(),
    expires_at     timestamptz not null,
    used_at        timestamptz
);
comment on table postrider.access_link is 'One-time links to the web console: the public id and a SHA-256 of the secret. The first use opens a session, every other is refused.';
comment on column postrider.access_link.access_link_id is 'The part of the link that names it.';
comment on column postrider.access_link.secret_hash is 'SHA-256 of the secret part.';
comment on column postrider.access_link.access_key_id is 'The API key that its session is for; null for a link that was made for a person.';
comment on column postrider.access_link.name is 'Who signs in with it.';
comment on column postrider.access_link.scopes is 'What its session may do; empty where it has a key, whose scopes count.';
comment on column postrider.access_link.sources is 'The sources of its session, as access_key has them; of no account where it has a key, whose sources count.';
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
    signed_in_by   text not null check (signed_in_by in ('key', 'link', 'oidc', 'proxy')),
    name           text not null,
    person         text not null check (person <> ''),
    scopes         text[] not null,
    sources        text[] not null default '{*}',
    created_at     timestamptz not null default now(),
    last_used_at   timestamptz not null default now(),
    expires_at     timestamptz not null,
    ended_at       timestamptz
);
comment on table postrider.access_session is 'Sessions of the web console: the public id and a SHA-256 of the secret, which the browser alone has.';
comment on column postrider.access_session.access_session_id is 'The part of the cookie that names it. The audit log has it as the key of what was done in a session without a key.';
comment on column postrider.access_session.secret_hash is 'SHA-256 of the secret part.';
comment on column postrider.access_session.access_key_id is 'The API key that it began with, and with which it ends; null for a person who signed in otherwise.';
comment on column postrider.access_session.signed_in_by is 'What its person came with: an API key, a one-time link, the word of an OpenID provider, or that of a trusted proxy.';
comment on column postrider.access_session.name is 'Who signed in.';
comment on column postrider.access_session.person is 'Which person of that name it is: key: and the API key''s id, link: and the name, oidc: and issuer and subject, or proxy: and the name. Sessions with the same text are one person''s.';
comment on column postrider.access_session.scopes is 'What it may do; empty where it has a key, whose scopes count.';
comment on column postrider.access_session.sources is 'The sources whose things it sees and acts on, as access_key has them; of no account where it has a key, whose sources count.';
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
comment on index postrider.access_key_pkey is 'A key by its id.';
comment on index postrider.access_link_pkey is 'A link by its id.';
comment on index postrider.access_session_pkey is 'A session by its id.';
