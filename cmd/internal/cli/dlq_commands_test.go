package cli

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestCommandsAreAskedOfSources: an operator asks a source to redrive and is told that it has not answered; later that it is away. A
// look at the sources says what one has not answered.
func TestCommandsAreAskedOfSources(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: d.db.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.From("orders", dlqtest.Event(7, 1)), dlqtest.From("orders", dlqtest.Event(8, 1)), dlqtest.From("orders", dlqtest.Event(9, 1)))); err != nil {
		t.Fatal(err)
	}
	list := decode[api.EntryList](t, d.run(ExitOK, "dlq list --ascending -o json"))
	d.run(ExitOK, "dlq requeue "+list.Items[0].ID, "1 on their way, 0 skipped.", "The sources of 1 of them were asked, and have not answered yet")
	d.run(ExitOK, "dlq resolve "+list.Items[1].ID+" --status cancelled")
	if n := d.ask(`select count(*) from postrider.dlq_command where kind = 'close' and actor like 'cli:%'`); n != "1" {
		t.Errorf("%s events are closed in their source", n)
	}
	pgtest.Exec(t, d.db.Conn(t), `update postrider.dlq_command set created_at = now() - interval '1 minute'`)
	d.run(ExitPartly, "dlq requeue "+list.Items[2].ID, "0 on their way, 1 skipped.", "source_away", "the source orders has answered nothing since 20")
	orders := pgtest.New(t)
	file := settingsFile(t, fmt.Sprintf("sources:\n  - {name: orders, url: %q, topics: {allow: [\"*\"]}}\n", asRole(t, orders, "postrider_relay")))
	d.run(ExitOK, "sources --config "+file, "orders has not answered 2 commands of the desk, the oldest for 1m")
	if looks := decode[api.Sources](t, d.run(ExitOK, "sources -o json --config "+file)).Items; len(looks) != 1 || api.OrZero(looks[0].WaitingCommands) != 2 || looks[0].OldestCommandAt == nil {
		t.Errorf("%+v", looks)
	}
}
