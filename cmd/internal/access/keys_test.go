package access_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// newStore is a store, the pool of its database, and a context with an actor.
func newStore(t *testing.T) (*access.Store, *pgxpool.Pool, context.Context) {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	return access.NewStore(pool), pool, access.WithActor(t.Context(), access.Actor{Name: "ada", KeyID: "adaskey", RequestID: "r-1"})
}

func mustCreate(t *testing.T, ctx context.Context, s *access.Store, n access.NewKey) (access.Key, string) {
	t.Helper()
	k, token, err := s.Create(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return k, token
}

func TestAKeyWorksUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	made, token := mustCreate(t, ctx, s, access.NewKey{Name: "console", Scopes: []access.Scope{access.Read, access.Redrive}})
	got, err := s.Authenticate(ctx, token)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != made.ID || got.Name != "console" || got.CreatedBy != "ada" || !slices.Equal(got.Scopes, []access.Scope{access.Read, access.Redrive}) {
		t.Errorf("authenticated as %+v", got)
	}
	if got, err = s.Authenticate(ctx, token); err != nil || got.LastUsedAt == nil {
		t.Errorf("its use was not noted: %+v, %v", got, err)
	}
	if _, err := s.Revoke(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Authenticate(ctx, token); !errors.Is(err, access.ErrUnknownKey) {
		t.Errorf("a revoked key: %v", err)
	}
	if again, err := s.Revoke(ctx, made.ID); err != nil || again.RevokedAt == nil {
		t.Errorf("revoking twice: %+v, %v", again, err)
	}
	if _, err := s.Revoke(ctx, "nobody"); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("revoking an unknown key: %v", err)
	}
}

// TestTheTableNamesEveryScope: who reads the comment of the column learns of all.
func TestTheTableNamesEveryScope(t *testing.T) {
	t.Parallel()
	_, pool, ctx := newStore(t)
	var comment string
	if err := pool.QueryRow(ctx, `select col_description(a.attrelid, a.attnum) from pg_attribute a where a.attrelid = 'postrider.access_key'::regclass and a.attname = 'scopes'`).Scan(&comment); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range access.Scopes() {
		all = append(all, string(s))
	}
	if want := strings.Join(all, ", "); !strings.Contains(comment, want) {
		t.Errorf("the comment is %q, want one that has %s", comment, want)
	}
}

func TestAKeyExpires(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	k, token := mustCreate(t, ctx, s, access.NewKey{Name: "for an hour", Scopes: []access.Scope{access.Read}, ExpiresIn: time.Hour})
	if k.ExpiresAt == nil || k.ExpiresAt.Sub(k.CreatedAt) != time.Hour || !k.Works(k.CreatedAt) || k.Works(*k.ExpiresAt) {
		t.Errorf("%+v", k)
	}
	if _, err := s.Authenticate(ctx, token); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, `update postrider.access_key set expires_at = now()`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Authenticate(ctx, token); !errors.Is(err, access.ErrUnknownKey) {
		t.Errorf("an expired key: %v", err)
	}
}

func TestTheSecretIsNowhere(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	_, token := mustCreate(t, ctx, s, access.NewKey{Name: "k", Scopes: []access.Scope{access.Admin}})
	secret := token[len("pr_")+16+1:]
	for _, table := range []string{"access_key", "access_audit"} {
		var rows string
		if err := pool.QueryRow(ctx, `select coalesce(string_agg(t::text, '|'), '') from postrider.`+table+` t`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if rows == "" || strings.Contains(rows, secret[:20]) {
			t.Errorf("%s is empty or has the secret: %s", table, rows)
		}
	}
}

func TestTokensThatAreNone(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	_, token := mustCreate(t, ctx, s, access.NewKey{Name: "k", Scopes: []access.Scope{access.Read}})
	_, other := mustCreate(t, ctx, s, access.NewKey{Name: "l", Scopes: []access.Scope{access.Read}})
	split := len("pr_") + 16
	for name, wrong := range map[string]string{
		"empty":                 "",
		"cut":                   token[:len(token)-1],
		"longer":                token + "0",
		"one letter changed":    token[:30] + flip(token[30]) + token[31:],
		"another prefix":        "px_" + token[3:],
		"upper case":            strings.ToUpper(token),
		"the secret of another": token[:split] + other[split:],
		"a bare id":             token[:split],
		"the secret alone":      token[split+1:],
		"injected":              `pr_' or 1=1 --`,
		"zero bytes":            strings.Repeat("\x00", len(token)),
		"a checksum of its own": access.Resum(token[:split-1] + flip(token[split-1]) + token[split:]),
		"a secret of its own":   access.Resum(token[:split+5] + flip(token[split+5]) + token[split+6:]),
	} {
		if _, err := s.Authenticate(ctx, wrong); !errors.Is(err, access.ErrUnknownKey) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), token[split+1:split+20]) {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

func flip(b byte) string {
	if b == 'a' {
		return "b"
	}
	return "a"
}

func TestKeysThatAreRefused(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	for name, n := range map[string]access.NewKey{
		"no name":       {Scopes: []access.Scope{access.Read}},
		"a long name":   {Name: strings.Repeat("x", 201), Scopes: []access.Scope{access.Read}},
		"control":       {Name: "a\x1b[2Jb", Scopes: []access.Scope{access.Read}},
		"direction":     {Name: "a\u202eb", Scopes: []access.Scope{access.Read}},
		"no scope":      {Name: "k"},
		"unknown scope": {Name: "k", Scopes: []access.Scope{"root"}},
		"the past":      {Name: "k", Scopes: []access.Scope{access.Read}, ExpiresIn: -time.Second},
		"now":           {Name: "k", Scopes: []access.Scope{access.Read}, ExpiresIn: time.Nanosecond},
	} {
		if _, _, err := s.Create(ctx, n); !errors.Is(err, access.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if keys, err := s.List(ctx); err != nil || len(keys) != 0 {
		t.Errorf("refused keys were made: %v, %v", keys, err)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	got, err := access.ParseScopes("redrive, read,redrive")
	if err != nil || !slices.Equal(got, []access.Scope{access.Read, access.Redrive}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := access.ParseScopes("read,root"); err == nil || !strings.Contains(err.Error(), `"root"`) {
		t.Errorf("an unknown scope: %v", err)
	}
	for _, has := range access.Scopes() {
		for _, wanted := range access.Scopes() {
			a := access.Actor{Scopes: []access.Scope{has}}
			if want := has == wanted || has == access.Admin; a.May(wanted) != want {
				t.Errorf("%s may %s: %v", has, wanted, !want)
			}
		}
	}
	if access.ActorOf(t.Context()).May(access.Read) {
		t.Error("no key may read")
	}
}
