package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
)

// TestOperationByHand: an operation is planned, started, and watched to its end while a process does the work.
func TestOperationByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 4)
	plan := func(args string) string {
		t.Helper()
		o := decode[api.Operation](t, d.run(ExitOK, "op plan "+args+" -o json"))
		if o.State != "planned" || !strings.HasPrefix(o.Actor, "cli:") {
			t.Fatalf("planned: %+v", o)
		}
		return o.UUID.String()
	}
	id := plan(d.entries[0] + " " + d.entries[1] + " --name incident-7 --why fixed --kind resolve --notes done")
	d.run(ExitOK, "op list --open", id, "incident-7", "planned")
	d.run(ExitOK, "op list --after "+id, "There are no such operations. One is planned with: postrider op plan")
	d.run(ExitUsage, "op list --after 7", `--after is "7"`)
	d.run(ExitOK, "op show "+id, "0 of 2 handled")
	d.run(ExitOK, "op items "+id, d.entries[0], d.entries[1], "waiting")
	d.run(ExitOK, "op items "+id+" --state done", "no such items")
	d.run(ExitUsage, "op items "+id+" --state wait", `--state is "wait"; it must be one of waiting, done, skipped, failed`)
	d.run(ExitOK, "op items "+id+" --limit 1", d.entries[0], "There are more: --after 1")
	items := decode[api.List[api.OperationItem]](t, d.run(ExitOK, "op items "+id+" --limit 1 -o json"))
	if len(items.Items) != 1 || items.Items[0].State != "waiting" || items.Items[0].Entry.String() != d.entries[0] || items.Next == nil {
		t.Fatalf("items: %+v", items)
	}
	items = decode[api.List[api.OperationItem]](t, d.run(ExitOK, "op items "+id+" --after "+*items.Next+" -o json"))
	if len(items.Items) != 1 || items.Items[0].Entry.String() != d.entries[1] || items.Next != nil {
		t.Errorf("the items behind the first: %+v", items)
	}
	d.run(ExitFailure, "op pause "+id, "planned")
	if i := items.Items[0]; i.Topic == nil || i.DLQReason == nil {
		t.Errorf("what an item is about: %+v", i)
	}
	d.run(ExitOK, "op start "+id+" --why mended", "running")
	d.run(ExitOK, "op pause "+id, "paused")
	d.run(ExitOK, "op resume "+id, "running")

	services, err := app.NewServices(d.db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	operator, err := dlq.NewOperator(dlq.OperatorConfig{Operations: services.Redriver, Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx) }()
	for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(d.run(ExitOK, "op show "+id), "completed"); {
		if time.Now().After(deadline) {
			t.Fatal("it does not end")
		}
	}
	if o := decode[api.OperationDetail](t, d.run(ExitOK, "op show "+id+" -o json")); len(o.Commands) != 4 || o.Commands[2].Command != "start" || *o.Commands[2].Reason != "mended" || *o.Commands[3].Reason != "fixed" {
		t.Errorf("commands: %+v", o.Commands)
	}
	d.run(ExitOK, "op show "+id, "COMMAND", "resume", "mended", "cli:")
	// One that has ended does not look as if it had begun.
	for _, command := range []string{"start ", "start --wait ", "resume ", "pause ", "abort "} {
		d.run(ExitFailure, "op "+command+id, "it is completed", "it has ended", "postrider op show "+id)
	}
	d.run(ExitUsage, "op start "+id+" --timeout 5m", "--timeout goes with --wait")
	d.run(ExitUsage, "op start "+id+" --wait --timeout 0s", "--timeout is 0s")

	// Investigations that the first operation closed are skipped by the second, and scripts are told.
	again := plan(strings.Join(d.entries, " ") + " --name again --kind resolve")
	stopped := plan(strings.Join(d.entries, " ") + " --name never --kind resolve")
	d.run(ExitPartly, "op start "+again+" --wait", "4 of 4 handled (2 skipped")
	d.run(ExitOK, "op items "+again+" --state skipped", "it is closed")
	d.run(ExitUsage, "op plan "+d.entries[0]+" --name closed --kind resolve", "nothing is open among the investigations named, 1 in all")
	d.run(ExitOK, "op abort "+stopped, "aborted")
	d.run(ExitFailure, "op start "+stopped+" --wait", "cannot be told to start")

	// What was closed can be purged, by age and by what it says.
	purge := plan("--kind purge --where-status manually_resolved --from 1h --to 0s --text no --code INVALID_RECORD --release-keys --name tidy")
	if o := decode[api.Operation](t, d.run(ExitOK, "op show "+purge+" -o json")); o.Kind != "purge" || o.Items != 4 || !o.Options.ReleaseKeys {
		t.Errorf("planned: %+v", o)
	}
	d.run(ExitUsage, "op plan --where-status cancelled --name n", "only pending ones are redriven")
	d.run(ExitUsage, "op plan --kind purge --assignee ada --name n", "nothing is in its scope")
	d.run(ExitUsage, "op plan --from yesterday --name n", "--from")
	d.run(ExitOK, "op start "+purge+" --wait", "4 of 4 handled (0 skipped")
	if got := d.ask(`select count(*)::text from postrider.dlq_entry`); got != "0" {
		t.Errorf("%s investigations are left", got)
	}

	d.run(ExitUsage, "op plan --name nothing", "give ids, --group ID, filters such as --topic, or --all")
	d.run(ExitUsage, "op plan "+d.entries[0]+" --all --name both", "ids and filters or --all are given; give one of them")
	d.run(ExitUsage, "op plan --all --kind bake --name cake", "bake")
	nowhere := uuid.NewString()
	for _, command := range []string{"show ", "items ", "start ", "pause ", "resume ", "abort "} {
		d.run(ExitFailure, "op "+command+nowhere, "operation "+nowhere+": not found; postrider op list shows them")
	}
	if got := d.ask(`select count(*)::text from postrider.access_audit where action like 'operation.%' and actor like 'cli:%'`); got != "10" {
		t.Errorf("%s changes of operations in the audit log, want 10", got)
	}
}
