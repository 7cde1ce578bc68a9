package postgres

import (
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/message"
)

// TestWhetherAnEventOfASourceHaltsItsKey: its newest letter says it, in lists, alone, after a change and in a plan. Where that does
// not say, it is not known. A closed one holds no key.
func TestWhetherAnEventOfASourceHaltsItsKey(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	yes, no := true, false
	for n, c := range []struct {
		headers []string
		want    *bool
		halting int64
	}{
		{[]string{message.HeaderHaltsKey, "true"}, &yes, 1},
		{[]string{message.HeaderHaltsKey, "false"}, &no, 0},
		{nil, nil, 0},
		{[]string{message.HeaderHaltsKey, "perhaps"}, nil, 0},
	} {
		entry := r.record(from("orders", dlqtest.Event(n, 1), message.HeaderHaltsKey, "false"))
		r.record(from("orders", dlqtest.Event(n, 2), c.headers...))
		shown, err := r.investigations.Show(t.Context(), entry)
		if err != nil {
			t.Fatal(err)
		}
		page, err := r.investigations.Find(t.Context(), dlq.Search{Filter: dlq.Filter{EventID: dlqtest.EventID(n), Limit: 2}})
		if err != nil || len(page.Entries) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		noted, err := r.people().Change(t.Context(), entry, dlq.Change{Notes: ref("looked at"), Actor: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		for where, e := range map[string]dlq.Entry{"shown": shown.Entry, "listed": page.Entries[0], "noted": noted} {
			if !reflect.DeepEqual(e.KeyHeld, c.want) {
				t.Errorf("%q, %s: %v", c.headers, where, e.KeyHeld)
			}
		}
		for target, want := range map[string]int64{"": c.halting, dlq.TargetOrigin: c.halting, "elsewhere": 0} {
			o, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpRedrive, Name: "n " + uuid.NewString(), Actor: "ada",
				Scope: dlq.Scope{Entries: []uuid.UUID{entry}}, Options: dlq.OperationOptions{Target: target}})
			if err != nil || o.Plan.Halting != want || o.Plan.Keys != 1-want {
				t.Errorf("%q to %q: the plan is %+v, %v", c.headers, target, o.Plan, err)
			}
		}
		closed, err := r.people().Change(t.Context(), entry, dlq.Change{Status: ref(dlq.Cancelled), Actor: "ada"})
		if err != nil || closed.KeyHeld == nil || *closed.KeyHeld {
			t.Errorf("%q: closed it is %v, %v", c.headers, closed.KeyHeld, err)
		}
	}
}
