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
    version    integer     not null,
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default now(),
    constraint schema_migration_pkey primary key (version),
    constraint schema_migration_version_positive check (version > 0)
);
comment on table postrider.schema_migration is
'One row per applied migration. Written only by the migration runner, in the transaction of the migration.';
comment on column postrider.schema_migration.version is
'Number of the migration. The applied versions are 1 to n without a gap.';
comment on column postrider.schema_migration.name is
'Name of the migration, from its file name.';
comment on column postrider.schema_migration.checksum is
'SHA-256 of the up file as it was applied (hex, line ends as LF). A different file under the same version is refused.';
comment on column postrider.schema_migration.applied_at is
'Start of the transaction that applied the migration.';
