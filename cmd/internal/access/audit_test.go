package access_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestAuditIsWrittenWithTheChange(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	k, _ := mustCreate(t, ctx, s, access.NewKey{Name: "k", Scopes: []access.Scope{access.Read}})
	if _, err := s.Revoke(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	done, err := s.History(ctx, access.DoneFilter{TargetType: "key", TargetID: k.ID})
	if err != nil {
		t.Fatal(err)
	}
	if len(done) != 2 || done[0].Action != "key.revoke" || done[1].Action != "key.create" ||
		done[0].Actor != "ada" || done[0].KeyID != "adaskey" || done[0].RequestID != "r-1" {
		t.Errorf("%+v", done)
	}
	older, err := s.History(ctx, access.DoneFilter{Before: done[0].ID, Limit: 1, Actor: "ada", From: done[1].At, To: done[1].At})
	if err != nil || len(older) != 1 || older[0].ID != done[1].ID {
		t.Errorf("%+v, %v", older, err)
	}
}

func TestNothingChangesWithoutAudit(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	if _, _, err := s.Create(t.Context(), access.NewKey{Name: "k", Scopes: []access.Scope{access.Read}}); err == nil {
		t.Error("a key was made without an actor")
	}
	k, token := mustCreate(t, ctx, s, access.NewKey{Name: "k", Scopes: []access.Scope{access.Read}})
	if _, err := pool.Exec(ctx, `alter table postrider.access_audit add constraint full_disk check (false) not valid`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(ctx, k.ID); err == nil {
		t.Error("a key was revoked without a row in the audit log")
	}
	if _, err := s.Authenticate(ctx, token); err != nil {
		t.Errorf("the key works no more: %v", err)
	}
	if _, _, err := s.Create(ctx, access.NewKey{Name: "l", Scopes: []access.Scope{access.Read}}); err == nil {
		t.Error("a key was made without a row in the audit log")
	}
	if keys, err := s.List(ctx); err != nil || len(keys) != 1 {
		t.Errorf("%v, %v", keys, err)
	}
	if err := s.Look(ctx, "payload.reveal", "entry", "x", access.AllSources(), nil); err == nil {
		t.Error("something was shown without a row in the audit log")
	}
}

func TestTheAuditLogIsOnlyAddedTo(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	mustCreate(t, ctx, s, access.NewKey{Name: "k", Scopes: []access.Scope{access.Read}})
	for _, sql := range []string{
		`update postrider.access_audit set actor = 'another person'`,
		`delete from postrider.access_audit`,
		`truncate postrider.access_audit`,
	} {
		_, err := pool.Exec(ctx, sql)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestOldRowsOfTheAuditLogGo in portions, by retention alone, and none that is younger than 30 days.
func TestOldRowsOfTheAuditLogGo(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	if _, err := pool.Exec(ctx, `insert into postrider.access_audit (actor, action, target_type, at)
		select 'a', 'b', 'c', now() - days * interval '1 day' from unnest(array[1, 29, 399, 401, 402, 403]) days`); err != nil {
		t.Fatal(err)
	}
	var refused *pgconn.PgError
	if _, _, err := s.PurgeAudit(ctx, 29*24*time.Hour, 10); !errors.As(err, &refused) || refused.Code != "22023" {
		t.Errorf("less than 30 days: %v", err)
	}
	for _, sql := range []string{
		`delete from postrider.access_audit where at < now() - interval '400 days'`,
		`set postrider.audit_retention = 'on'; delete from postrider.access_audit where at > now() - interval '30 days'`,
	} {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { _, err := tx.Conn().PgConn().Exec(ctx, sql).ReadAll(); return err }); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for i, want := range []int{2, 1, 0} {
		if n, more, err := s.PurgeAudit(ctx, 400*24*time.Hour, 2); n != want || more != (i == 0) || err != nil {
			t.Errorf("call %d: %d, %v, %v", i, n, more, err)
		}
	}
	if done, err := s.History(ctx, access.DoneFilter{}); err != nil || len(done) != 3 {
		t.Errorf("%d rows are left, %v", len(done), err)
	}
}

func TestAuditRollsBackWithTheChange(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	regret := errors.New("regret")
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := s.Audit(ctx, tx, "a", "b", "c", access.AllSources(), map[string]int{"n": 1}); err != nil {
			return err
		}
		return regret
	})
	if !errors.Is(err, regret) {
		t.Fatal(err)
	}
	if done, err := s.History(ctx, access.DoneFilter{}); err != nil || len(done) != 0 {
		t.Errorf("%v, %v", done, err)
	}
	if err := s.Audit(ctx, nil, "a", "b", "c", access.AllSources(), func() {}); err == nil {
		t.Error("details that are no JSON")
	}
	if err := s.Audit(context.Background(), nil, "a", "b", "c", access.AllSources(), nil); err == nil {
		t.Error("a row without an actor was written")
	}
}

// listed returns how many rows a page of the audit log has, and how many were read for it from the table and its indexes.
func listed(t *testing.T, db *pgtest.DB, args ...any) (rows, read int) {
	t.Helper()
	// A connection counts what it read until it reports it; so each has a new one.
	err := pgx.BeginFunc(t.Context(), db.Conn(t), func(tx pgx.Tx) error {
		tag, err := tx.Exec(t.Context(), access.AuditList, append(append([]any{pgx.QueryExecModeExec}, args...), nil)...)
		rows = int(tag.RowsAffected())
		read = pgtest.Value[int](t, tx, `select pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid) + (select sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) from pg_index i where i.indrelid = c.oid)
			from pg_class c where c.oid = 'postrider.access_audit'::regclass`)
		return err
	})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return rows, read
}

// TestTheAuditLogIsFoundByItsIndexes: each filter, and a time long ago, finds rare rows without a walk over the rest,
// and each page begins where the one before ended.
func TestTheAuditLogIsFoundByItsIndexes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Pool(t)
	begin := time.Now().Add(-48 * time.Hour).Truncate(time.Second)
	const insert = `insert into postrider.access_audit (at, actor, action, target_type, target_id) `
	pgtest.Exec(t, pool, insert+`select $1::timestamptz + i * interval '1 second', 'ann', 'dlq.note', 'entry', i::text from generate_series(1, 3) i`, begin.Add(-time.Hour))
	pgtest.Exec(t, pool, insert+`values ($1::timestamptz, 'rare', 'dlq.note', 'entry', 'a'), ($1, 'ann', 'key.create', 'key', 'b'), ($1, 'ann', 'dlq.note', 'entry', 'c')`, begin)
	pgtest.Exec(t, pool, insert+`select $1::timestamptz + i * interval '1 second', 'ann', 'dlq.note', 'entry', i::text from generate_series(10, 20000) i`, begin)
	pgtest.Exec(t, pool, `vacuum (analyze) postrider.access_audit`)
	third := pgtest.Value[int64](t, pool, `select min(access_audit_id) + 3 from postrider.access_audit`)
	at := func(seconds int) *time.Time { v := begin.Add(time.Duration(seconds) * time.Second); return &v }
	for name, c := range map[string]struct {
		actor, action, kind, id string
		from, to                *time.Time
		before                  int64
		want                    int
	}{
		"all":                 {want: 100},
		"a common actor":      {actor: "ann", want: 100},
		"a rare actor":        {actor: "rare", want: 1},
		"no row":              {actor: "bob", want: 0},
		"a rare action":       {action: "key.create", want: 1},
		"an unknown action":   {action: "x", want: 0},
		"a rare kind":         {kind: "key", want: 1},
		"one thing":           {kind: "entry", id: "15000", want: 1},
		"an id":               {id: "b", want: 1},
		"long ago":            {from: at(-4000), to: at(-1), want: 3},
		"a while in between":  {from: at(1000), to: at(1050), want: 51},
		"until then":          {to: at(1000), want: 100},
		"since then":          {from: at(1000), want: 100},
		"ann, long ago":       {actor: "ann", to: at(0), want: 5},
		"the end of the list": {before: third, want: 3},
		"past the newest":     {before: 1 << 60, want: 100},
		"before the first":    {before: third - 3, want: 0},
	} {
		if n, read := listed(t, db, c.actor, c.action, c.kind, c.id, c.from, c.to, c.before, 100, true); n != c.want || read > 500 {
			t.Errorf("%s: %d rows, want %d, with %d reads", name, n, c.want, read)
		}
	}
	s := access.NewStore(pool)
	// The batches of a long operation are passed over, and counted where it was started.
	pgtest.Exec(t, pool, insert+`select now() + i * interval '1 millisecond', 'ann', case i when 0 then 'operation.start' else 'dlq.requeue' end, 'operation', 'long' from generate_series(0, 5000) i`)
	pgtest.Exec(t, pool, `vacuum (analyze) postrider.access_audit`)
	if n, read := listed(t, db, "", "", "", "", nil, nil, int64(0), 100, false); n != 100 || read > 5000 { // 1,001 of them are counted, in an index and in the table
		t.Errorf("without batches: %d rows with %d reads", n, read)
	}
	done, err := s.History(t.Context(), access.DoneFilter{NoBatches: true, Limit: 2})
	if err != nil || len(done) != 2 || done[0].Action != "operation.start" || done[0].Batches != 1001 || done[1].TargetType != "entry" || done[1].Batches != 0 {
		t.Errorf("without batches: %+v, %v", done, err)
	}
	var ids []int64
	for f := (access.DoneFilter{Actor: "ann", To: *at(500), Limit: 100}); ; {
		page, err := s.History(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page {
			ids = append(ids, d.ID)
		}
		if len(page) < f.Limit {
			break
		}
		f.Before = page[len(page)-1].ID
	}
	want := pgtest.Column[int64](t, pool, `select access_audit_id from postrider.access_audit where actor = 'ann' and at <= $1 order by at desc, access_audit_id desc`, at(500))
	if !slices.Equal(ids, want) || len(want) != 496 {
		t.Errorf("%d rows on all pages, want %d", len(ids), len(want))
	}
}
