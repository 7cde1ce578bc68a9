package access_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAPersonEndsTheirOtherSessions: sessions on their key, or of their name, and no other person's, whatever ids are given.
func TestAPersonEndsTheirOtherSessions(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	recently := access.Recently{Store: s}
	_, key := mustCreate(t, ctx, s, access.NewKey{Name: "mira", Scopes: []access.Scope{access.Read}})
	open := map[string]func() (access.Session, string, error){
		"by key": func() (access.Session, string, error) { return s.SessionByKey(ctx, key, time.Hour) },
		"by link": func() (access.Session, string, error) { // of the same name as the key, and another person for all that
			link, _, err := s.Link(ctx, access.NewLink{Name: "mira", Scopes: []access.Scope{access.Read}, ExpiresIn: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return s.SessionByLink(ctx, link, time.Hour)
		},
	}
	tokens, sessions := map[string][]string{}, map[string][]access.Session{}
	for name, opens := range open {
		for range 3 {
			n, token, err := opens()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := recently.Session(ctx, token, access.Reading); err != nil { // it is remembered from now on
				t.Fatal(err)
			}
			tokens[name], sessions[name] = append(tokens[name], token), append(sessions[name], n)
		}
	}
	pgtest.Exec(t, pool, `update postrider.access_session set expires_at = now() where access_session_id = $1`, sessions["by link"][2].ID)
	for name, want := range map[string]int{"by key": 2, "by link": 1} {
		own, all, err := s.OtherSessionsOf(ctx, sessions[name][0])
		if err != nil || len(own) != want || all != want || slices.ContainsFunc(own, func(o access.OwnSession) bool { return o.LastUsedAt.IsZero() || !o.Actor().May(access.Read) }) {
			t.Errorf("%s: %+v, %v", name, own, err)
		}
	}
	me := sessions["by key"][0]
	if n, err := s.EndSessionsOf(ctx, me, sessions["by link"][0].ID, "odd", ""); err != nil || len(n) != 0 {
		t.Errorf("%q sessions of another person were ended, %v", n, err)
	}
	if n, err := s.EndSessionsOf(ctx, me); err != nil || len(n) != 0 {
		t.Errorf("without an id %q were ended, %v", n, err)
	}
	if n, err := s.EndSessionsOf(access.WithActor(ctx, me.Actor()), me, sessions["by key"][1].ID, sessions["by key"][2].ID); err != nil || len(n) != 2 {
		t.Errorf("%q were ended, %v", n, err)
	}
	for i, want := range []error{nil, access.ErrUnknownSession, access.ErrUnknownSession} {
		if _, err := recently.Session(ctx, tokens["by key"][i], access.Reading); !errors.Is(err, want) {
			t.Errorf("session %d: %v, not %v", i, err, want)
		}
	}
	if n := pgtest.Value[int](t, pool, `select count(*) from postrider.access_audit where action = 'session.end' and actor = 'mira' and details->>'by' = $1`, me.ID); n != 2 {
		t.Errorf("the audit log has %d ends", n)
	}
}

// TestPeopleOfOneName: a key, a link, an OpenID provider and a trusted proxy may name people alike, and the provider may give one
// name to two of them. Each has sessions of their own.
func TestPeopleOfOneName(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	may := []access.Scope{access.Read}
	_, key := mustCreate(t, ctx, s, access.NewKey{Name: "ann", Scopes: may})
	sessions := map[string][]access.Session{}
	for range 2 {
		for name, open := range map[string]func() (access.Session, string, error){
			"key": func() (access.Session, string, error) { return s.SessionByKey(ctx, key, time.Hour) },
			"link": func() (access.Session, string, error) {
				link, _, err := s.Link(ctx, access.NewLink{Name: "ann", Scopes: may, ExpiresIn: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return s.SessionByLink(ctx, link, time.Hour)
			},
			"oidc": func() (access.Session, string, error) {
				return s.SessionByPerson(ctx, access.Person{By: access.ByOIDC, Name: "ann", Subject: "https://id.example 1", Scopes: may}, time.Hour)
			},
			"oidc, another": func() (access.Session, string, error) {
				return s.SessionByPerson(ctx, access.Person{By: access.ByOIDC, Name: "ann", Subject: "https://id.example 2", Scopes: may}, time.Hour)
			},
			"proxy": func() (access.Session, string, error) {
				return s.SessionByPerson(ctx, access.Person{By: access.ByProxy, Name: "ann", Scopes: may}, time.Hour)
			},
		} {
			_, token, err := open()
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.Session(ctx, token)
			if err != nil {
				t.Fatal(err)
			}
			sessions[name] = append(sessions[name], n)
		}
	}
	var first []string
	for _, two := range sessions {
		first = append(first, two[0].ID)
	}
	for name, two := range sessions {
		if own, _, err := s.OtherSessionsOf(ctx, two[1]); err != nil || len(own) != 1 || own[0].ID != two[0].ID {
			t.Errorf("%s: %+v, %v", name, own, err)
		}
		if ended, err := s.EndSessionsOf(ctx, two[1], first...); err != nil || !slices.Equal(ended, []string{two[0].ID}) {
			t.Errorf("%s has ended %q, %v", name, ended, err)
		}
	}
}

// TestAPersonEndsAllOtherSessions: however many there are, and not the one that asks.
func TestAPersonEndsAllOtherSessions(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	var me access.Session
	for range 3 {
		n, _, err := s.SessionByPerson(ctx, access.Person{By: access.ByProxy, Name: "ann", Scopes: []access.Scope{access.Read}}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		me = n
	}
	pgtest.Exec(t, pool, `insert into postrider.access_session (access_session_id, secret_hash, signed_in_by, name, person, scopes, expires_at)
		select 'more' || i, sha256('x'), 'proxy', 'ann', 'proxy:ann', '{read}'::text[], now() + interval '1 hour' from generate_series(1, 120) i
		union all values ('old', sha256('x'), 'proxy', 'ann', 'proxy:ann', '{read}'::text[], now() - interval '1 hour'), ('other', sha256('x'), 'proxy', 'bob', 'proxy:bob', '{read}'::text[], now() + interval '1 hour')`)
	if newest, all, err := s.OtherSessionsOf(ctx, me); err != nil || len(newest) != 100 || all != 122 || slices.ContainsFunc(newest, func(o access.OwnSession) bool { return o.ID == me.ID }) {
		t.Errorf("%d sessions, of %d, %v", len(newest), all, err)
	}
	if ended, err := s.EndOtherSessionsOf(ctx, me); err != nil || len(ended) != 122 {
		t.Errorf("%d were ended, %v", len(ended), err)
	}
	if left := pgtest.Column[string](t, pool, `select access_session_id from postrider.access_session where ended_at is null and expires_at > now() order by name`); !slices.Equal(left, []string{me.ID, "other"}) {
		t.Errorf("left are %q", left)
	}
}
