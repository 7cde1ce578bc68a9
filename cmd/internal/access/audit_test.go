package access_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/cmd/internal/access"
)

func TestAuditIsWrittenWithTheChange(t *testing.T) {
	t.Parallel()
	s, _, ctx := desk(t)
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
	s, pool, ctx := desk(t)
	if _, _, err := s.Create(t.Context(), access.NewKey{Name: "k", Scopes: []access.Scope{access.Read}}); err == nil {
		t.Error("nobody made a key")
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
	if err := s.Look(ctx, "payload.reveal", "entry", "x", nil); err == nil {
		t.Error("something was shown without a row in the audit log")
	}
}

func TestTheAuditLogIsOnlyAddedTo(t *testing.T) {
	t.Parallel()
	s, pool, ctx := desk(t)
	mustCreate(t, ctx, s, access.NewKey{Name: "k", Scopes: []access.Scope{access.Read}})
	for _, sql := range []string{
		`update postrider.access_audit set actor = 'somebody else'`,
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

func TestAuditRollsBackWithTheChange(t *testing.T) {
	t.Parallel()
	s, pool, ctx := desk(t)
	regret := errors.New("regret")
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := s.Audit(ctx, tx, "a", "b", "c", map[string]int{"n": 1}); err != nil {
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
	if err := s.Audit(ctx, nil, "a", "b", "c", func() {}); err == nil {
		t.Error("details that are no JSON")
	}
	if err := s.Audit(context.Background(), nil, "a", "b", "c", nil); err == nil {
		t.Error("done by nobody")
	}
}
