package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestOperationsOfSources: an operation has the sources of its scope, is seen with all of them, and has a name that is free among
// operations of the same sources. A list does not go on behind an operation that is not seen.
func TestOperationsOfSources(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entries := map[string]uuid.UUID{}
	for n, source := range []string{"orders", "billing"} {
		l := dlq.Decode(dlqtest.From(source, dlqtest.Event(n+1, 1)))
		if _, err := r.RecordLetters(t.Context(), []dlq.Letter{l}); err != nil {
			t.Fatal(err)
		}
		entries[source] = pgtest.Value[uuid.UUID](t, r.subject.pool, `select dlq_entry_uuid from postrider.dlq_letter where letter_id = $1`, l.ID)
	}
	group := pgtest.Value[uuid.UUID](t, r.subject.pool, `select dlq_group_uuid from postrider.dlq_entry where dlq_entry_uuid = $1`, entries["orders"])
	only := func(sources ...string) context.Context { return dlq.WithSources(t.Context(), sources) }
	plan := func(ctx context.Context, name string, scope dlq.Scope) (dlq.Operation, error) {
		return r.PlanOperation(ctx, dlq.NewOperation{Kind: dlq.OpResolve, Name: name, Actor: "ada", Scope: scope})
	}
	made := map[string]uuid.UUID{}
	for _, c := range []struct {
		name  string
		ctx   context.Context
		scope dlq.Scope
		want  string
	}{
		{"group", t.Context(), dlq.Scope{Group: group}, "[orders]"},
		{"ids", t.Context(), dlq.Scope{Entries: []uuid.UUID{entries["orders"], entries["billing"]}}, "[billing orders]"},
		{"filter", t.Context(), dlq.Scope{Filter: &dlq.Filter{Source: "billing"}}, "[billing]"},
		{"any", t.Context(), dlq.Scope{Filter: &dlq.Filter{Status: dlq.Pending}}, "[*]"},
		{"limited", only("orders", "billing"), dlq.Scope{Filter: &dlq.Filter{Status: dlq.Pending}}, "[billing orders]"},
		{"group", only("billing"), dlq.Scope{Filter: &dlq.Filter{Status: dlq.Pending}}, "[billing]"}, // the name is taken among others
	} {
		o, err := plan(c.ctx, c.name, c.scope)
		if err != nil || fmt.Sprint(o.Sources) != c.want {
			t.Fatalf("%s: %v, %v", c.name, o.Sources, err)
		}
		made[c.name+c.want] = o.UUID
	}
	if _, err := plan(only("billing"), "group", dlq.Scope{Filter: &dlq.Filter{Status: dlq.Pending}}); !errors.Is(err, dlq.ErrExists) {
		t.Errorf("a name is taken twice: %v", err)
	}
	for want, ctx := range map[string]context.Context{"6": t.Context(), "1": only("orders"), "2": only("billing"), "5": only("orders", "billing"), "0": only()} {
		found, err := r.ListOperations(ctx, dlq.OperationFilter{}, uuid.Nil, 100)
		if err != nil || fmt.Sprint(len(found)) != want {
			t.Errorf("%s: %d are listed, %v", want, len(found), err)
		}
		for _, o := range found {
			if !o.SeenWith(dlq.SourcesOf(ctx)) || slices.ContainsFunc(o.Plan.Overlaps, func(v dlq.Overlap) bool { return dlq.SourcesOf(ctx) != nil && v.UUID == made["any[*]"] }) {
				t.Errorf("%s: %s of %v is listed, %v", want, o.Name, o.Sources, o.Plan.Overlaps)
			}
		}
	}
	if _, err := r.ListOperations(only("orders"), dlq.OperationFilter{}, made["any[*]"], 100); !errors.Is(err, dlq.ErrRequest) {
		t.Errorf("a list goes on behind an operation that is not seen: %v", err)
	}
	detail, err := r.people().Show(only("orders"), entries["orders"])
	if err != nil || len(detail.Operations) != 1 {
		t.Errorf("the investigation is in %+v, %v", detail.Operations, err)
	}
}

// TestWithSources: limits are never widened, and an empty one is none.
func TestWithSources(t *testing.T) {
	t.Parallel()
	two := dlq.WithSources(t.Context(), []string{"a", "b"})
	for want, got := range map[string][]string{
		"[a b]": dlq.SourcesOf(two), "[b]": dlq.SourcesOf(dlq.WithSources(two, []string{"b", "c"})), "[a]": dlq.OnlySource(two, "a"), "[c]": dlq.OnlySource(t.Context(), "c"),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("%v, not %s", got, want)
		}
	}
	for _, none := range [][]string{dlq.OnlySource(two, "c"), dlq.SourcesOf(dlq.WithSources(two, nil)), dlq.SourcesOf(dlq.WithSources(t.Context(), nil))} {
		if none == nil || len(none) != 0 {
			t.Errorf("%v is no limit", none)
		}
	}
	if dlq.SourcesOf(t.Context()) != nil || dlq.OnlySource(t.Context(), "") != nil {
		t.Error("there is a limit without one")
	}
}
