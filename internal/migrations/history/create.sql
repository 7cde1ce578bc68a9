-- A schema that an administrator made beforehand is used as it is: its owner may be another
-- role, and this one may lack the right to create schemas.
do $$
begin
    if to_regnamespace('postrider') is null then
        create schema postrider;
        comment on schema postrider is
        'Postrider: the outbox, its dead letters and their investigations, tasks, and the history of this schema.';
    end if;
end
$$;

create table if not exists postrider.schema_migration (
    room       text        not null,
    version    integer     not null,
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default now(),
    constraint schema_migration_pkey primary key (room, version),
    constraint schema_migration_version_positive check (version > 0)
);
comment on table postrider.schema_migration is
'One row per applied migration. Written only by the migration runner, in the transaction of the migration.';
comment on column postrider.schema_migration.room is
'The room of the schema, from the folder of the file: audit, outbox, tasks, access or dlq.';
comment on column postrider.schema_migration.version is
'Number of the migration. The applied versions of a room are 1 to n without a gap.';
comment on column postrider.schema_migration.name is
'Name of the migration, from its file name.';
comment on column postrider.schema_migration.checksum is
'SHA-256 of the file as it was applied (hex, line ends as LF). A different file under the same version is refused.';
comment on column postrider.schema_migration.applied_at is
'Start of the transaction that applied the migration.';

create table if not exists postrider.schema_code (
    room        text        not null,
    checksum    text        not null,
    files       jsonb       not null,
    grants      jsonb       not null default '[]',
    applied_at  timestamptz not null default now(),
    replaced_at timestamptz,
    constraint schema_code_pkey primary key (room, checksum)
);
comment on table postrider.schema_code is
'The code of each room (its functions, views and triggers) that was ever applied. Written only by the migration runner, in the transaction that applies it.';
comment on column postrider.schema_code.room is
'The room of the schema.';
comment on column postrider.schema_code.checksum is
'SHA-256 of all files of the code (hex). Other code takes its place when the schema is migrated.';
comment on column postrider.schema_code.files is
'Its functions, views and triggers by their names, each with the SHA-256 of its file (hex): what goes before other code comes, and which triggers need not be made again.';
comment on column postrider.schema_code.grants is
'Rights that others had on what was dropped in favour of the code to come, which they get again; empty between migrations.';
comment on column postrider.schema_code.applied_at is
'Start of the transaction that last applied it.';
comment on column postrider.schema_code.replaced_at is
'When other code took its place; null for the current code. A binary whose code was replaced is older than the database.';
create unique index if not exists schema_code_current on postrider.schema_code (room) where replaced_at is null;
comment on index postrider.schema_code_current is 'One code per room at a time.';
comment on index postrider.schema_migration_pkey is 'A version of a room is applied once.';
comment on index postrider.schema_code_pkey is 'A code of a room by its checksum.';

create table if not exists postrider.schema_part (
    part     text        not null,
    added_at timestamptz not null default now(),
    constraint schema_part_pkey primary key (part)
);
comment on table postrider.schema_part is
'The parts that this database was installed with: the outbox alone, the outbox and tasks, or all. Migrating brings each part to the newest version and adds no other, unless it is told to by name. Written only by the migration runner.';
comment on column postrider.schema_part.part is
'outbox (the rooms audit and outbox), tasks (the room tasks) or desk (the rooms access and dlq).';
comment on column postrider.schema_part.added_at is
'Start of the transaction that added it.';
comment on index postrider.schema_part_pkey is 'A part is there once.';
