package access_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestGroupScopes(t *testing.T) {
	t.Parallel()
	g, err := access.ParseGroupScopes([]string{"sre=read+resolve+purge", " cn=ops =redrive", "team%2C1=read:payload", "50%25=admin"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		groups []string
		want   []access.Scope
		known  int
	}{
		{nil, nil, 0}, {[]string{"SRE", "", "nobody"}, nil, 0},
		{[]string{"sre", "x"}, []access.Scope{access.Purge, access.Read, access.Resolve}, 1},
		{[]string{"cn=ops", "sre"}, []access.Scope{access.Purge, access.Read, access.Redrive, access.Resolve}, 2},
		{[]string{"team,1"}, []access.Scope{access.ReadPayload}, 1}, {[]string{"team%2C1"}, nil, 0}, {[]string{"50%"}, []access.Scope{access.Admin}, 1},
	} {
		if got := g.Of(c.groups); !slices.Equal(got.Scopes, c.want) || len(c.want) > 0 && !got.Sources.All() || len(g.Known(c.groups)) != c.known {
			t.Errorf("%q have %v, and %q are known", c.groups, got, g.Known(c.groups))
		}
	}
	for _, wrong := range []string{"", "sre", "=read", "sre=", "sre=root", "sre=read resolve", "%zz=read", "sre=read+", "sre=read@", "sre=read@Orders", "sre=read@orders+", "sre=read@*+orders", "sre=read@orders@billing", "sre=@orders"} {
		if g, err := access.ParseGroupScopes([]string{wrong}); err == nil {
			t.Errorf("%q is taken: %v", wrong, g)
		}
	}
	if g, err := access.ParseGroupScopes([]string{"team%2C1=read", "team%2c1=admin"}); err == nil {
		t.Errorf("a group is taken twice: %v", g)
	}
}

func TestAPersonHasASession(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	n, token, err := s.SessionByPerson(ctx, access.Person{By: access.ByOIDC, Name: "ann@example.com", Scopes: []access.Scope{access.Read}, Details: map[string]any{"subject": "u1"}}, time.Hour)
	if err != nil || n.ExpiresAt.Sub(n.CreatedAt) != time.Hour {
		t.Fatalf("%+v, %v", n, err)
	}
	got, err := s.Session(ctx, token)
	if err != nil || got.By != access.ByOIDC || got.KeyID != "" || got.Actor().Name != "ann@example.com" || got.Actor().KeyID != n.ID || !got.Actor().May(access.Read) || got.Actor().May(access.Resolve) {
		t.Errorf("%+v, %v", got, err)
	}
	if row := pgtest.Value[string](t, pool, `select actor || ' ' || action || ' ' || details::text from postrider.access_audit`); row != `ann@example.com session.begin {"by": "oidc", "subject": "u1"}` {
		t.Errorf("the audit log has %s", row)
	}
	if err := s.EndSession(ctx, n.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Session(ctx, token); !errors.Is(err, access.ErrUnknownSession) {
		t.Errorf("a session that was ended: %v", err)
	}
	for _, name := range []string{"", "  ", strings.Repeat("x", 201), "a\nb", "cli:postgres"} {
		if _, _, err := s.SessionByPerson(ctx, access.Person{By: access.ByProxy, Name: name, Scopes: []access.Scope{access.Read}}, time.Hour); !errors.Is(err, access.ErrName) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if _, _, err := s.SessionByPerson(ctx, access.Person{By: access.ByProxy, Name: "ann"}, time.Hour); err == nil {
		t.Error("a session without a scope was begun")
	}
}
