package cli

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestCommandsSayTheSource: tables have a column for it only if they show another source than main, and filters select one.
func TestCommandsSayTheSource(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	for _, command := range []string{"dlq list", "dlq groups", "dlq show " + d.entries[0]} {
		if out := d.run(ExitOK, command); strings.Contains(strings.ToLower(out), "source") {
			t.Errorf("%s has a source, where main alone is:\n%s", command, out)
		}
	}
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: d.db.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.From("orders", dlqtest.Event(7, 1)), dlqtest.From("orders", dlqtest.Task(8, 1)))); err != nil {
		t.Fatal(err)
	}
	d.run(ExitOK, "dlq list", "SOURCE", "orders", "main")
	d.run(ExitOK, "dlq groups", "SOURCE", "orders", "main")
	if out := d.run(ExitOK, "dlq list --source main"); strings.Contains(out, "SOURCE") {
		t.Errorf("of main:\n%s", out)
	}
	list := decode[api.EntryList](t, d.run(ExitOK, "dlq list --source orders --ascending -o json"))
	if len(list.Items) != 2 || list.Items[0].Source != "orders" || list.Items[0].SubjectID != "orders/"+dlqtest.EventID(7).String() || list.Items[1].TaskUUID != nil {
		t.Fatalf("%+v", list.Items)
	}
	groups := decode[api.List[api.Group]](t, d.run(ExitOK, "dlq groups --source orders -o json"))
	if len(groups.Items) != 2 || groups.Items[0].Source != "orders" {
		t.Errorf("%+v", groups.Items)
	}
	pgtest.Exec(t, d.db.Conn(t), `update postrider.dlq_letter set halts_key = true where source = 'orders' and episode is not null`)
	d.run(ExitOK, "dlq show "+list.Items[0].ID, "is halted: its later events wait")
	task := list.Items[1]
	out := d.run(ExitOK, "dlq show "+task.ID, "Source", "orders", "in the database of the source orders", "postrider dlq resolve "+task.ID)
	if strings.Contains(out, "postrider task") {
		t.Errorf("it names a command for a task that is not here:\n%s", out)
	}
	d.run(ExitOK, "dlq groups "+task.Group.String(), "Source", "in the database of the source orders")
	d.run(ExitUsage, "dlq list --source Orders", "--source is", "the name of a source")
	d.run(ExitUsage, "dlq groups --source Orders", "--source is", "the name of a source")
	planned := decode[api.Operation](t, d.run(ExitOK, "op plan --source orders --name n -o json"))
	if planned.Items != 2 || planned.Scope.Filter.Source != "orders" {
		t.Errorf("%+v", planned)
	}
	d.run(ExitOK, "op show "+planned.UUID.String(), "halting their key: 1,")
	d.run(ExitOK, "dlq resolve "+list.Items[0].ID, "closed now; its key goes on without it when orders is told")
	whole := &dlq.Letter{KeyKind: dlq.Reference, Source: "orders", SourceOutboxID: new(int64)}
	if text := keyText(whole); !strings.Contains(text, "of the source orders, id 0") {
		t.Errorf("a reference: %s", text)
	}
}

// TestALoginNamesATopic: a login of the desk's database is no tenant and has every source, main too. So a command takes the name of a
// topic as a target, which the API takes from keys with the source main alone.
func TestALoginNamesATopic(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: d.db.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.From("orders", dlqtest.Event(7, 1)))); err != nil {
		t.Fatal(err)
	}
	of := decode[api.EntryList](t, d.run(ExitOK, "dlq list --source orders -o json")).Items[0].ID
	if done := decode[api.Requeued](t, d.run(ExitOK, "dlq requeue "+of+" --target orders.elsewhere -o json")); len(done.Asked) != 1 {
		t.Errorf("of a source: %+v", done)
	}
	if got := d.ask(`select string_agg(request->>'target', ' ') from postrider.dlq_command`); got != "orders.elsewhere" {
		t.Errorf("the source is asked to send it to %q", got)
	}
	d.run(ExitOK, "dlq requeue "+d.entries[0]+" --target elsewhere")
	if got := d.ask(`select string_agg(topic, ' ') from postrider.outbox_event where kind = 'redrive'`); got != "elsewhere" {
		t.Errorf("the desk's outbox sends it to %q", got)
	}
	if planned := decode[api.Operation](t, d.run(ExitOK, "op plan --source orders --target orders.other --name n -o json")); planned.Options.Target != "orders.other" {
		t.Errorf("planned: %+v", planned.Options)
	}
}
