package access_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestGroupsGiveSources: a person sees the sources of all groups, and never may do at one source what a group gives at another.
func TestGroupsGiveSources(t *testing.T) {
	t.Parallel()
	g, err := access.ParseGroupScopes([]string{"all=read", "orders=read+resolve@orders", "billing=read+redrive@billing", "boss=admin@billing", "two=read@orders+billing", "every=redrive@*"})
	if err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string]string{
		"orders": "[read resolve] orders", "orders two": "[read] billing, orders", "orders billing": "[read] billing, orders",
		"orders boss": "[read resolve] billing, orders", "billing boss": "[admin read redrive] billing", "all orders": "[read] all", "every all": "[read redrive] all", "nobody": "[] none",
	} {
		if got := g.Of(strings.Fields(groups)); fmt.Sprintf("%v %s", got.Scopes, got.Sources) != want {
			t.Errorf("%s: %v %s, not %s", groups, got.Scopes, got.Sources, want)
		}
	}
}

// TestSourcesOfKeysAndSessions: a key, its sessions and links, and people without a key have the sources that they were given; all
// where nothing was said.
func TestSourcesOfKeysAndSessions(t *testing.T) {
	t.Parallel()
	s, _, ctx := newStore(t)
	scopes := []access.Scope{access.Read}
	for _, c := range []struct {
		sources access.Sources
		want    string
	}{{nil, "all"}, {access.Sources{}, "none"}, {access.Sources{"orders", "billing", "orders"}, "billing, orders"}, {access.AllSources(), "all"}} {
		k, token, err := s.Create(ctx, access.NewKey{Name: "k", Scopes: scopes, Sources: c.sources})
		if err != nil {
			t.Fatal(err)
		}
		known, err := s.Authenticate(ctx, token)
		if err != nil || k.Sources.String() != c.want || known.Sources.String() != c.want {
			t.Errorf("a key for %v has %s, then %s, %v", c.sources, k.Sources, known.Sources, err)
		}
		sessions := map[string]func() (access.Session, string, error){
			"key": func() (access.Session, string, error) { return s.SessionByKey(ctx, token, time.Hour) },
			"link of the key": func() (access.Session, string, error) {
				link, _, err := s.Link(ctx, access.NewLink{KeyID: k.ID, ExpiresIn: time.Hour, Sources: access.Sources{"other"}})
				if err != nil {
					t.Fatal(err)
				}
				return s.SessionByLink(ctx, link, time.Hour)
			},
			"link": func() (access.Session, string, error) {
				link, _, err := s.Link(ctx, access.NewLink{Name: "ann", Scopes: scopes, ExpiresIn: time.Hour, Sources: c.sources})
				if err != nil {
					t.Fatal(err)
				}
				return s.SessionByLink(ctx, link, time.Hour)
			},
		}
		for by, begin := range sessions {
			_, cookie, err := begin()
			if err != nil {
				t.Fatal(err)
			}
			if n, err := s.Session(ctx, cookie); err != nil || n.Actor().Sources.String() != c.want {
				t.Errorf("a session by %s for %v has %s, %v", by, c.sources, n.Actor().Sources, err)
			}
		}
	}
	_, cookie, err := s.SessionByPerson(ctx, access.Person{By: access.ByOIDC, Name: "ann", Scopes: scopes, Sources: access.Sources{"orders"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Session(ctx, cookie); err != nil || n.Sources.String() != "orders" {
		t.Errorf("a person's session has %s, %v", n.Sources, err)
	}
	if _, _, err := s.Create(ctx, access.NewKey{Name: "k", Scopes: scopes, Sources: access.Sources{"Orders"}}); err == nil {
		t.Error("a key for what is no name of a source was made")
	}
}

// TestAuditOfSources: who is limited to sources sees what was done to these alone; of an act that was also about others, the
// investigation's own history shows that it was, and no details.
func TestAuditOfSources(t *testing.T) {
	t.Parallel()
	s, pool, ctx := newStore(t)
	for sources, entries := range map[string][]string{"orders": {"a"}, "billing": {"b"}, "billing orders": {"a", "b"}, "*": {"a"}} {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return s.Audit(ctx, tx, "dlq.requeue", "entry", "", access.Sources(strings.Fields(sources)), map[string]any{"entries": entries, "of": sources})
		}); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, pool, `insert into postrider.access_audit (action, target_type, details) values ('x', 'entry', '{"of": "by hand"}')`)
	limited := func(sources ...string) context.Context {
		return access.Limited(t.Context(), access.Actor{Name: "tenant", Sources: sources})
	}
	for want, in := range map[string]context.Context{
		"5": ctx, "orders 1": limited("orders"), "0": limited(), "3": limited("orders", "billing"), "other 0": limited("other"),
	} {
		rows, err := s.History(in, access.DoneFilter{})
		if err != nil || fmt.Sprint(len(rows)) != want[strings.LastIndex(want, " ")+1:] {
			t.Errorf("%s: %d rows, %v", want, len(rows), err)
		}
	}
	rows, err := s.EntryHistory(limited("orders"), "a", nil)
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for _, row := range rows {
		if text := string(row.Details); strings.Contains(text+row.Sources.String(), "billing") || strings.Contains(text, "entries_in_all") && !strings.Contains(text, `"of": "orders"`) {
			t.Errorf("it shows %s, %s", text, row.Sources)
		}
	}
}
