package access_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestALinkOpensOneSession(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	link, _, err := s.Link(ctx, access.NewLink{Name: "mira", Scopes: []access.Scope{access.Read, access.Resolve}, ExpiresIn: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if name, err := s.LinkOf(ctx, link); err != nil || name != "mira" {
		t.Errorf("the link is for %q, %v", name, err)
	}
	opened := make(chan string, 8)
	var uses sync.WaitGroup
	for range 8 {
		uses.Go(func() {
			n, token, err := s.SessionByLink(ctx, link, time.Hour)
			switch {
			case err == nil && n.Name == "mira":
				opened <- token
			case !errors.Is(err, access.ErrLinkUsed):
				t.Errorf("a link that was used: %v", err)
			}
		})
	}
	uses.Wait()
	if len(opened) != 1 {
		t.Fatalf("%d sessions by one link", len(opened))
	}
	token := <-opened
	n, err := s.Session(ctx, token)
	if err != nil || n.KeyID != "" || !slices.Equal(n.Scopes, []access.Scope{access.Read, access.Resolve}) {
		t.Errorf("the session is %+v, %v", n, err)
	}
	if who := pgtest.Value[string](t, pool, `select actor || ' ' || key_id from postrider.access_audit where action = 'session.begin'`); who != "mira "+n.ID {
		t.Errorf("the audit log says %q", who)
	}
	if _, err := s.LinkOf(ctx, link); !errors.Is(err, access.ErrLinkUsed) {
		t.Errorf("a used link: %v", err)
	}
	if err := s.EndSession(access.WithActor(ctx, n.Actor()), n.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Session(ctx, token); !errors.Is(err, access.ErrUnknownSession) {
		t.Errorf("an ended session: %v", err)
	}
}

func TestASessionEndsWithItsKey(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	k, key := mustCreate(t, ctx, s, access.NewKey{Name: "on-call", Scopes: []access.Scope{access.Read}})
	link, _, err := s.Link(ctx, access.NewLink{KeyID: k.ID, ExpiresIn: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	n, token, err := s.SessionByKey(ctx, key, time.Hour)
	if err != nil || n.Name != "on-call" || !slices.Equal(n.Scopes, k.Scopes) {
		t.Fatalf("%+v, %v", n, err)
	}
	recently := access.Recently{Store: s}
	if got, err := recently.Session(ctx, token, access.Reading); err != nil || !slices.Equal(got.Scopes, k.Scopes) {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := s.Revoke(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := recently.Session(ctx, token, access.Reading); !errors.Is(err, access.ErrUnknownSession) {
		t.Errorf("the session of a key that this process revoked: %v", err)
	}
	if _, _, err := s.SessionByLink(ctx, link, time.Hour); !errors.Is(err, access.ErrUnknownLink) {
		t.Errorf("the link of a revoked key: %v", err)
	}
	if _, _, err := s.Link(ctx, access.NewLink{KeyID: k.ID, ExpiresIn: time.Minute}); !errors.Is(err, access.ErrInvalid) {
		t.Errorf("a link for a revoked key: %v", err)
	}
}

func TestASessionEndsByAge(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	_, key := mustCreate(t, ctx, s, access.NewKey{Name: "on-call", Scopes: []access.Scope{access.Read}})
	for name, change := range map[string]string{
		"old":  `update postrider.access_session set expires_at = now()`,
		"idle": `update postrider.access_session set last_used_at = now() - interval '121 minutes'`,
	} {
		_, token, err := s.SessionByKey(ctx, key, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Session(ctx, token); err != nil {
			t.Errorf("%s: before its time: %v", name, err)
		}
		pgtest.Exec(t, pool, change)
		if _, err := s.Session(ctx, token); !errors.Is(err, access.ErrUnknownSession) {
			t.Errorf("%s: %v", name, err)
		}
	}
	link, _, err := s.Link(ctx, access.NewLink{Name: "mira", Scopes: []access.Scope{access.Read}, ExpiresIn: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pool, `update postrider.access_link set expires_at = now()`)
	if _, _, err := s.SessionByLink(ctx, link, time.Hour); !errors.Is(err, access.ErrUnknownLink) {
		t.Errorf("a link that has expired: %v", err)
	}
	pgtest.Exec(t, pool, `update postrider.access_link set expires_at = now() - interval '25 hours'; update postrider.access_session set expires_at = now() - interval '25 hours'`)
	if n, more, err := s.PurgeSessions(ctx, 26*time.Hour, 10); err != nil || n != 0 || more {
		t.Errorf("%d were purged before their time, %v, %v", n, more, err)
	}
	if n, more, err := s.PurgeSessions(ctx, 24*time.Hour, 1); err != nil || n != 2 || !more {
		t.Errorf("%d of the first portion were purged, %v, %v", n, more, err)
	}
	if n, _, err := s.PurgeSessions(ctx, 24*time.Hour, 10); err != nil || n != 1 {
		t.Errorf("%d sessions and links were left to purge, %v", n, err)
	}
}

func TestOddLinksAndSessions(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	_, key := mustCreate(t, ctx, s, access.NewKey{Name: "k", Scopes: []access.Scope{access.Admin}})
	_, token, err := s.SessionByKey(ctx, key, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	last := len(token) - 9 // the last letter of the secret
	wrong := "A"
	if token[last] == 'A' {
		wrong = "B"
	}
	// The one is never taken for the other.
	for _, other := range []string{"", "x", key, access.Resum("prs_" + token[4:last] + wrong + token[last+1:])} {
		if _, err := s.Session(ctx, other); !errors.Is(err, access.ErrUnknownSession) {
			t.Errorf("session %q: %v", other, err)
		}
		if _, _, err := s.SessionByLink(ctx, other, time.Hour); !errors.Is(err, access.ErrUnknownLink) {
			t.Errorf("link %q: %v", other, err)
		}
	}
	if _, err := s.Authenticate(ctx, token); !errors.Is(err, access.ErrUnknownKey) {
		t.Errorf("a session as a key: %v", err)
	}
	for name, n := range map[string]access.NewLink{
		"nobody":    {Scopes: []access.Scope{access.Read}, ExpiresIn: time.Minute},
		"no scope":  {Name: "mira", ExpiresIn: time.Minute},
		"no time":   {Name: "mira", Scopes: []access.Scope{access.Read}},
		"odd scope": {Name: "mira", Scopes: []access.Scope{"all"}, ExpiresIn: time.Minute},
	} {
		if _, _, err := s.Link(ctx, n); !errors.Is(err, access.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.Link(ctx, access.NewLink{KeyID: "nobody", ExpiresIn: time.Minute}); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("a link for an unknown key: %v", err)
	}
}
