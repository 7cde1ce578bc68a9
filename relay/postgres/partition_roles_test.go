package postgres

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/postrider/postrider/relay"
)

// givenTo makes somebody who is no superuser the owner of the schema and of what is in it, and returns their name.
func (f *fixture) givenTo() (owner string) {
	f.Helper()
	owner = "test_owner_" + strings.ToLower(rand.Text())
	f.exec(`create role ` + owner)
	f.Cleanup(func() {
		for _, sql := range []string{`reassign owned by ` + owner + ` to current_user`, `drop owned by ` + owner, `drop role ` + owner} {
			if _, err := f.pool.Exec(context.Background(), sql); err != nil {
				f.Errorf("%s: %v", sql, err)
			}
		}
	})
	f.exec(`do $$ declare step text; begin
		for step in
			select 'alter table ' || c.oid::regclass from pg_class c where c.relnamespace = 'postrider'::regnamespace and c.relkind in ('r', 'v', 'm', 'S')
			   and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i') -- sequences of tables
			union all
			select 'alter routine ' || p.oid::regprocedure from pg_proc p where p.pronamespace = 'postrider'::regnamespace
			   and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e') -- of pg_trgm
			union all
			select 'alter schema postrider'
		loop
			execute step || ' owner to ` + owner + `';
		end loop;
	end $$`)
	return owner
}

// TestPartitionsAreTheOwners: whoever makes them, partitions belong to the owner of the table, who drops them, and can
// be read by those who read the table, and by nobody else.
func TestPartitionsAreTheOwners(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.givenTo()
	f.store = f.as("postrider_relay")
	f.exec(`grant select on postrider.outbox_event to public`)
	f.outlived() // partitioned by a superuser; more are added by the relay
	if got := f.parts(); got != "outbox_event_p0 outbox_event_p1 outbox_event_p1001 outbox_event_p4500 outbox_event_p5500" {
		t.Fatalf("the partitions are %s, want some that the relay added", got)
	}
	const ofPartitions = `from pg_class c join pg_inherits i on i.inhrelid = c.oid where i.inhparent = 'postrider.outbox_event'::regclass`
	if got := value[string](f, `select string_agg(distinct c.relowner::regrole::text, ' ') `+ofPartitions); got != owner {
		t.Errorf("they belong to %s, the table to %s", got, owner)
	}
	if got := value[string](f, `select relowner::regrole::text from pg_class where oid = 'postrider.outbox_event_id_seq'::regclass`); got != owner {
		t.Errorf("the sequence belongs to %s, the table to %s", got, owner)
	}
	rows, err := f.pool.Query(t.Context(), `
		select c.relname::text, coalesce(string_agg(case a.grantee when 0 then 'public' else a.grantee::regrole::text end || ' ' || a.privilege_type, ', '
		                                            order by a.grantee::regrole::text, a.privilege_type) filter (where a.grantee <> c.relowner), '')
		from pg_class c join pg_inherits i on i.inhrelid = c.oid left join aclexplode(c.relacl) a on true
		where i.inhparent = 'postrider.outbox_event'::regclass and c.relname <> 'outbox_event_p0' group by 1`)
	f.done(err)
	defer rows.Close()
	for rows.Next() {
		var part, rights string
		f.done(rows.Scan(&part, &rights))
		if rights != "public SELECT, postrider_operator SELECT, postrider_relay SELECT" {
			t.Errorf("%s can be used by %q", part, rights)
		}
	}
	f.done(rows.Err())
}

// TestRetentionOfPartitionsAsTheRelay: with the rights of the relay, which are not the owner's, retention adds and
// drops partitions, and purges the default one. So it is when a superuser partitioned the table of somebody else.
func TestRetentionOfPartitionsAsTheRelay(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]bool{"partitioned by the owner": false, "partitioned by a superuser": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if given {
				f.givenTo()
			}
			f.store = f.as("postrider_relay")
			f.outlived() // 1 to 2000 have partitions, 2001 to 3500 are in the default one
			f.exec(`update postrider.outbox_partition set settled_at = settled_at - interval '31 days'`)
			f.exec(`update postrider.outbox_event set created_at = now() - interval '32 days', sent_at = now() - interval '31 days' * (id % 2), updated_at = now()`)
			retention := relay.Retention{Published: month}
			got, err := relay.Cleanup(t.Context(), f.store, retention, relay.CleanupOptions{DryRun: true})
			if err != nil || got.Partitions != 3 {
				t.Errorf("a dry run: %+v, %v, want 3 partitions", got, err)
			}
			got, err = relay.Cleanup(t.Context(), f.store, retention, relay.CleanupOptions{})
			if err != nil || got.Partitions != 3 || got.Published != 750 {
				t.Errorf("%+v, %v, want 3 partitions and 750 events of the default one", got, err)
			}
			if n := value[int](f, `select count(*) from postrider.outbox_event`); n != 750 {
				t.Errorf("%d events are left, want 750", n)
			}
		})
	}
}

// TestRetentionWithoutRotation: where partitions cannot be added, old ones are dropped all the same, the default one is
// purged, and so are the other kinds of rows; the error is reported, beside what was done.
func TestRetentionWithoutRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store = f.as("postrider_relay")
	f.outlived()
	f.exec(`update postrider.outbox_partition set settled_at = settled_at - interval '31 days'`)
	f.exec(`update postrider.outbox_event set created_at = now() - interval '32 days', sent_at = now() - case id when 3000 then interval '31 days' else '0' end, updated_at = now()`)
	f.exec(`insert into postrider.outbox_idempotency_key (topic, idempotency_key, event_id, created_at) values ('t', 'k', gen_random_uuid(), now() - interval '31 days')`)
	f.exec(`revoke execute on function postrider.outbox_add_partitions(integer) from postrider_relay`)
	got, err := f.store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 10_000})
	if err == nil || !strings.Contains(err.Error(), "add partitions: ") || got.Rows != 1 || got.Partitions != 1 {
		t.Errorf("a step: %+v, %v", got, err)
	}
	all, err := relay.Cleanup(t.Context(), f.store, relay.Retention{Published: month}, relay.CleanupOptions{})
	if err == nil || !strings.Contains(err.Error(), "purge published rows: add partitions: ") || all.Partitions != 1 || all.IdempotencyKeys != 1 {
		t.Errorf("a cleanup: %+v, %v", all, err)
	}
	// Nor is what can be added kept by what cannot be dropped.
	f.exec(`grant execute on function postrider.outbox_add_partitions(integer) to postrider_relay`)
	f.exec(`revoke execute on function postrider.outbox_drop_partition(interval, boolean) from postrider_relay`)
	f.many(6000) // beyond the newest partition
	before := f.parts()
	_, err = f.store.Purge(t.Context(), relay.PurgeLimits{Kind: relay.PurgePublished, Keep: month, Rows: 10})
	if err == nil || !strings.Contains(err.Error(), "drop a partition: ") {
		t.Errorf("without the right to drop: %v", err)
	}
	if after := f.parts(); after == before {
		t.Errorf("the partitions are still %s", after)
	}
}
