package access_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
)

// lookups counts the queries that a pool is asked.
type lookups struct{ n atomic.Int64 }

func (l *lookups) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	l.n.Add(1)
	return ctx
}

func (l *lookups) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is a store like another one on the same database, as another process has it, and how often it asks.
func counted(t *testing.T, pool *pgxpool.Pool) (*access.Store, *lookups) {
	t.Helper()
	l := &lookups{}
	cfg := pool.Config()
	cfg.ConnConfig.Tracer = l
	traced, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	return access.NewStore(traced), l
}

func TestAKeyThatWorkedIsNotLookedUpAgain(t *testing.T) {
	t.Parallel()
	first, pool, ctx := newStore(t)
	s, asked := counted(t, pool)
	made, token := mustCreate(t, ctx, s, access.NewKey{Name: "console", Scopes: []access.Scope{access.Read}})
	_, other := mustCreate(t, ctx, s, access.NewKey{Name: "other", Scopes: []access.Scope{access.Admin}})
	recently := access.Recently{Store: s}
	known, err := recently.Authenticate(ctx, token, access.Reading)
	if err != nil {
		t.Fatal(err)
	}
	before := asked.n.Load()
	for range 10 {
		k, err := recently.Authenticate(ctx, token, access.Reading)
		if err != nil || k.ID != made.ID || k.Name != known.Name || len(k.Scopes) != 1 || k.Scopes[0] != access.Read {
			t.Fatalf("%+v, %v", k, err)
		}
	}
	if n := asked.n.Load() - before; n != 0 {
		t.Errorf("%d lookups of a key that worked", n)
	}
	// A secret that does not belong to the key is looked up, and is not the key.
	const split = len("pr_") + 16
	forged := access.Resum(token[:split] + other[split:])
	if _, err := recently.Authenticate(ctx, forged, access.Reading); !errors.Is(err, access.ErrUnknownKey) || asked.n.Load() == before {
		t.Errorf("the secret of another: %v, %d lookups", err, asked.n.Load()-before)
	}
	if k, err := recently.Authenticate(ctx, token, access.Reading); err != nil || k.ID != made.ID {
		t.Errorf("behind a forged one: %+v, %v", k, err)
	}
	// Another process revokes the key: here it may work for the time that is documented; the next lookup knows.
	if _, err := first.Revoke(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	access.Outlive(s)
	if _, err := recently.Authenticate(ctx, token, access.Reading); !errors.Is(err, access.ErrUnknownKey) {
		t.Errorf("a key that another process revoked works after %v: %v", access.Remembered, err)
	}
}

func TestAKeyThatIsRevokedHereEndsHereAtOnce(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	recently := access.Recently{Store: s}
	made, token := mustCreate(t, ctx, s, access.NewKey{Name: "console", Scopes: []access.Scope{access.Read}})
	for range 2 {
		if _, err := recently.Authenticate(ctx, token, access.Reading); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := recently.Revoke(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := recently.Authenticate(ctx, token, access.Reading); !errors.Is(err, access.ErrUnknownKey) {
		t.Errorf("a revoked key: %v", err)
	}
}
