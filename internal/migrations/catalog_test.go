package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// catalogQuery describes everything that migrations can make in a database, a line per thing,
// without the numbers that differ from run to run.
const catalogQuery = `
with space as (
	select oid, nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
), rel as (
	select c.*, s.nspname || '.' || c.relname as name from pg_class c join space s on s.oid = c.relnamespace
)
select concat_ws(' | ', 'schema', s.nspname, n.nspacl::text, obj_description(s.oid, 'pg_namespace'))
from space s join pg_namespace n using (oid)
union all
select concat_ws(' | ', 'relation', name, relkind::text, relpersistence::text, relispartition::text, relrowsecurity::text,
	reloptions::text, relacl::text, pg_get_expr(relpartbound, oid), obj_description(oid, 'pg_class'),
	case when relkind in ('v', 'm') then pg_get_viewdef(oid) when relkind in ('i', 'I') then pg_get_indexdef(oid)
	when relkind = 'p' then pg_get_partkeydef(oid) end)
from rel
union all
select concat_ws(' | ', 'column', name, rank() over (partition by rel.oid order by attnum), attname, format_type(atttypid, atttypmod),
	attnotnull::text, attidentity::text, attgenerated::text, attstorage::text, attacl::text,
	-- PostgreSQL 15.20 notes there when the column was made: pg_attver.
	(select array_agg(o) from unnest(attoptions) o where o not like 'pg\_attver=%')::text,
	pg_get_expr(d.adbin, d.adrelid), col_description(rel.oid, attnum))
from rel join pg_attribute a on a.attrelid = rel.oid and attnum > 0 and not attisdropped
left join pg_attrdef d on d.adrelid = rel.oid and d.adnum = attnum
union all
select concat_ws(' | ', 'constraint', s.nspname, conrelid::regclass::text, contypid::regtype::text, conname,
	pg_get_constraintdef(c.oid), convalidated::text, obj_description(c.oid, 'pg_constraint'))
from pg_constraint c join space s on s.oid = c.connamespace
union all
select concat_ws(' | ', 'routine', s.nspname, p.oid::regprocedure::text, p.prokind::text, p.proacl::text,
	case when p.prokind in ('f', 'p') then pg_get_functiondef(p.oid) end, obj_description(p.oid, 'pg_proc'))
from pg_proc p join space s on s.oid = p.pronamespace
union all
select concat_ws(' | ', 'type', s.nspname, t.typname, t.typtype::text, format_type(t.typbasetype, t.typtypmod), t.typdefault,
	(select string_agg(enumlabel, ', ' order by enumsortorder) from pg_enum where enumtypid = t.oid),
	t.typacl::text, obj_description(t.oid, 'pg_type'))
from pg_type t join space s on s.oid = t.typnamespace
union all
select concat_ws(' | ', 'trigger', name, pg_get_triggerdef(t.oid), tgenabled::text, obj_description(t.oid, 'pg_trigger'))
from pg_trigger t join rel on rel.oid = tgrelid where not tgisinternal
union all
select concat_ws(' | ', 'rule', name, pg_get_ruledef(r.oid)) from pg_rewrite r join rel on rel.oid = ev_class
union all
select concat_ws(' | ', 'policy', name, polname, polcmd::text, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
from pg_policy join rel on rel.oid = polrelid
union all
select concat_ws(' | ', 'sequence', name, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle::text)
from pg_sequence join rel on rel.oid = seqrelid
union all
select concat_ws(' | ', 'statistics', s.nspname, pg_get_statisticsobjdef(e.oid)) from pg_statistic_ext e join space s on s.oid = e.stxnamespace
union all
select concat_ws(' | ', 'extension', extname) from pg_extension
union all
select concat_ws(' | ', 'event trigger', evtname) from pg_event_trigger
union all
select concat_ws(' | ', 'default privileges', defaclnamespace::regnamespace::text, defaclacl::text) from pg_default_acl
union all
select concat_ws(' | ', 'setting', setconfig::text) from pg_db_role_setting
where setdatabase = (select oid from pg_database where datname = current_database())`

// catalog describes a database; two databases made in the same way have equal catalogs.
func catalog(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), catalogQuery)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// sameCatalog reports every line that only one of two catalogs has.
func sameCatalog(t *testing.T, what string, got, want []string) {
	t.Helper()
	var difference []string
	for _, line := range want {
		if !slices.Contains(got, line) {
			difference = append(difference, "- "+line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			difference = append(difference, "+ "+line)
		}
	}
	if len(difference) > 0 {
		t.Errorf("%s:\n%s", what, strings.Join(difference, "\n"))
	}
}
