package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestArchiveCommands(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Pool(t)
	contains(t, succeed(t, db, "archive", "stats"), "The archive is empty.")
	contains(t, succeed(t, db, "archive", "list"), "no such tasks in the archive")
	ledgertest.Apply(t, pool, ledgertest.Template{Configuration: `{"steps": [{"name": "a\u001b[2J"}, {"name": "b", "dependencies": ["a\u001b[2J"]}]}`})
	ended := func(state string, days int) uuid.UUID {
		id := ledgertest.Create(t, pool, ledgertest.New{Context: `{"text": "x\u001b[31m"}`})
		ledgertest.Put(t, pool, id, state)
		ledgertest.Age(t, pool, id, time.Duration(days)*24*time.Hour)
		return id
	}
	complete, failed, cancelled := ended("complete", 40), ended("error", 40), ended("cancelled", 40)
	young := ended("complete", 20)

	// By hand it goes on while the archivers are paused.
	contains(t, succeed(t, db, "archive", "status"), "Archiving", "working")
	contains(t, succeed(t, db, "archive", "resume"), "The archivers were not paused")
	contains(t, succeed(t, db, "archive", "pause", "--by", "you\x1b[2J", "--reason", "release"), "until a person resumes it")
	contains(t, succeed(t, db, "archive", "pause", "--by", "me", "--for", "1h"), "was paused before", `you\x1b[2J`)
	contains(t, succeed(t, db, "archive", "status"), "paused", "Since", "release", "postrider archive resume")
	contains(t, succeed(t, db, "task", "detector", "status"), "working")

	contains(t, succeed(t, db, "archive", "run"), "WOULD BE ARCHIVED", "tasks           2")
	dry := decode[api.ArchiveRun](t, succeed(t, db, "archive", "run", "--archive-retention-days", "10", "--archive-cancelled", "-o", "json"))
	if !dry.DryRun || dry.Tasks != 4 || dry.Cancelled != 1 {
		t.Errorf("%+v", dry)
	}
	contains(t, succeed(t, db, "archive", "stats"), "The archive is empty.")
	table := succeed(t, db, "archive", "run", "--dry-run=false")
	contains(t, table, "KIND", "ARCHIVED", "tasks           2", "complete      1", "error         1", "steps           4")

	if told := pgtest.Value[string](t, pool, `select coalesce(string_agg((details->>'stage') || coalesce(' ' || (details->'result'->>'tasks_archived'), ''), ', ' order by access_audit_id), '')
		from postrider.access_audit where action = 'archive.run' and target_type = 'task' and actor like 'cli:%'`); told != "begun, ended 2" {
		t.Errorf("the audit log says %q", told)
	}

	list := succeed(t, db, "archive", "list")
	contains(t, list, complete.String(), failed.String(), "default/task@1.0.0", "error")
	if strings.Contains(list, cancelled.String()) {
		t.Errorf("a cancelled task is listed:\n%s", list)
	}
	contains(t, succeed(t, db, "archive", "list", "--limit", "1"), "There are more: --after 20")
	first := decode[api.List[ledger.Task]](t, succeed(t, db, "archive", "list", "--limit", "1", "-o", "json"))
	if len(first.Items) != 1 || first.Next == nil {
		t.Fatalf("the first page is %+v", first)
	}
	second := decode[api.List[ledger.Task]](t, succeed(t, db, "archive", "list", "--after", *first.Next, "-o", "json"))
	if len(second.Items) != 1 || second.Next != nil || first.Items[0].UUID == second.Items[0].UUID {
		t.Errorf("pages %+v and %+v", first, second)
	}
	contains(t, succeed(t, db, "archive", "list", "--final-state", "error", "--namespace", "default", "--name", "task"), failed.String())

	contains(t, succeed(t, db, "archive", "show", begins(complete, failed)), complete.String())
	succeed(t, db, "outbox", "list", "--task", begins(failed, complete, cancelled, young))
	shown := succeed(t, db, "archive", "show", failed.String())
	contains(t, shown, failed.String(), "default/task@1.0.0", "as error", `a\x1b[2J`, "pending", "put there by a test", `x\u001b[31m`)
	if strings.Contains(shown, "\x1b") {
		t.Errorf("control characters in %q", shown)
	}
	detail := decode[ledger.WholeTask](t, succeed(t, db, "archive", "show", failed.String(), "-o", "json"))
	if detail.Task.UUID != failed || len(detail.Steps) != 2 || len(detail.Transitions) != 2 || len(detail.StepTransitions) != 2 {
		t.Errorf("%+v", detail)
	}
	contains(t, succeed(t, db, "archive", "stats"), "MONTH", "The archive takes", "kB")
	if stats := decode[api.List[ledger.ArchiveStatistics]](t, succeed(t, db, "archive", "stats", "-o", "json")).Items; len(stats) != 1 || stats[0].Tasks != 2 {
		t.Errorf("%+v", stats)
	}

	contains(t, succeed(t, db, "archive", "resume"), "The archivers go on")
	status := succeed(t, db, "archive", "status", "-o", "json")
	if s := decode[ledger.Switch](t, status); s != (ledger.Switch{}) {
		t.Errorf("after the pause: %s", status)
	}

	url := []string{"DATABASE_URL=" + db.URL}
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"archive", "show", cancelled.String()}, ExitFailure, "there is no task"},
		{[]string{"archive", "show", "x"}, ExitUsage, "not the id of a task"},
		{[]string{"archive", "list", "--final-state", "x"}, ExitUsage, "must be one of complete, error"},
		{[]string{"archive", "list", "--name", "x"}, ExitUsage, "needs --namespace"},
		{[]string{"archive", "list", "--limit", "0"}, ExitUsage, "from 1 to 1000"},
		{[]string{"archive", "list", "--after", "x"}, ExitUsage, "no place in the archive"},
		{[]string{"archive", "list", "--after", cancelled.String()}, ExitUsage, "no place in the archive"},
		{[]string{"archive", "run", "--archive-batch-size", "0"}, ExitUsage, "archive.archive_batch_size"},
		{[]string{"archive", "thaw"}, ExitUsage, "run"},
		{[]string{"archive", "pause"}, ExitUsage, "--by"},
	} {
		if r := postrider(t, url, c.args...); r.code != c.code || !strings.Contains(r.stderr, c.text) {
			t.Errorf("%v: exit code %d, %s", c.args, r.code, r.stderr)
		}
	}
}
