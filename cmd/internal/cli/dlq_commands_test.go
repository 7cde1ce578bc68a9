package cli

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
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
	d.run(ExitPartly, "dlq release "+list.Items[1].ID+" "+list.Items[2].ID, "1 released, 1 skipped.", "The sources of 1 of them were asked", "not_pending")
	if released := decode[api.ReleasedKeys](t, d.run(ExitPartly, "dlq release -o json "+list.Items[0].ID)); len(released.Skipped) != 1 || released.Skipped[0].Reason != dlq.AlreadyQueued {
		t.Errorf("%+v", released)
	}
	d.run(ExitFailure, "dlq release 0192aaaa-0000-7000-8000-000000000000", "not found", "postrider dlq list")
	d.run(ExitUsage, "dlq release --wait=2h "+list.Items[2].ID, "--wait is 2h0m0s")
	if n := d.ask(`select count(*) from postrider.dlq_command where kind = 'release' and actor like 'cli:%'`); n != "1" {
		t.Errorf("%s keys are to be let go in their source", n)
	}
	pgtest.Exec(t, d.db.Conn(t), `delete from postrider.dlq_command where kind = 'release'; update postrider.dlq_command set created_at = now() - interval '1 minute'`)
	d.run(ExitPartly, "dlq requeue "+list.Items[2].ID, "0 on their way, 1 skipped.", "source_away", "the source orders has answered nothing since 20")
	orders := pgtest.New(t)
	file := settingsFile(t, fmt.Sprintf("sources:\n  - {name: orders, url: %q, topics: {allow: [\"*\"]}}\n", asRole(t, orders, "postrider_relay")))
	d.run(ExitOK, "sources --config "+file, "orders has not answered 2 commands of the desk, the oldest for 1m")
	if looks := decode[api.Sources](t, d.run(ExitOK, "sources -o json --config "+file)).Items; len(looks) != 1 || api.OrZero(looks[0].WaitingCommands) != 2 || looks[0].OldestCommandAt == nil {
		t.Errorf("%+v", looks)
	}
}

// TestSourcesAreLedBackAndForgotten by an operator, who is asked first, and told what is undone.
func TestSourcesAreLedBackAndForgotten(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	store, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: d.db.Pool(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.From("orders", dlqtest.Event(7, 1)))); err != nil {
		t.Fatal(err)
	}
	entry := decode[api.EntryList](t, d.run(ExitOK, "dlq list -o json")).Items[0].ID
	d.run(ExitOK, "dlq requeue --wait=1ms "+entry, "1 on their way, 0 skipped.")
	d.run(ExitUsage, "dlq requeue --wait=2h "+entry, "--wait is 2h0m0s")
	pgtest.Exec(t, d.db.Conn(t), `update postrider.dlq_command set answered_at = now(), answer = 'new'; insert into postrider.dlq_source (source, stopped, stopped_at) values ('orders', 'rewound', now())`)
	orders := pgtest.New(t)
	file := settingsFile(t, fmt.Sprintf("sources:\n  - {name: orders, url: %q, topics: {allow: [\"*\"]}}\n", asRole(t, orders, "postrider_relay")))
	d.run(ExitFailure, "sources --config "+file, "rewound", "postrider sources rejoin orders --dry-run")
	plan := decode[api.Rejoin](t, d.run(ExitOK, "sources rejoin orders --dry-run -o json --config "+file))
	if len(plan.Undone) != 1 || plan.Undone[0].EntryID.String() != entry || plan.Done {
		t.Errorf("%+v", plan)
	}
	d.run(ExitFailure, "sources forget orders --yes --config "+file, "take it out there first")
	d.run(ExitFailure, "sources rejoin billing --yes --config "+file, "postrider sources lists them")
	d.run(ExitUsage, "sources rejoin orders --backlog send --config "+file, "--backlog goes with --new-identity")
	d.run(ExitUsage, "sources rejoin orders --new-identity --config "+file, "say send")
	d.run(ExitOK, "sources rejoin orders --yes --config "+file, "1 command that the source answered", "can be redriven again", "orders is led back: 1 redrives undone")
	d.run(ExitOK, "sources rejoin orders --config "+file, "There is nothing to do.")
	d.run(ExitOK, "dlq requeue "+entry, "1 on their way, 0 skipped.")
	d.run(ExitOK, "sources forget orders --yes", "orders is forgotten since", "1 command is abandoned, of 1 redrive it is unknown")
	d.run(ExitOK, "sources forget orders --yes", "0 commands are abandoned")
	d.run(ExitOK, "sources", "orders is forgotten since", "1 investigation pending")
	d.run(ExitPartly, "dlq requeue "+entry, "source_forgotten")
	d.run(ExitFailure, "sources forget billing --yes", "the desk knows no source")
	if n := d.ask(`select string_agg(action || ' ' || target_id, ', ' order by access_audit_id) from postrider.access_audit where action like 'source.%' and actor like 'cli:%'`); n != "source.rejoin orders, source.forget orders, source.forget orders" {
		t.Errorf("the audit log has %s", n)
	}
}
