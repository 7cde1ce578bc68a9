package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestTaskDetectStale(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Pool(t)
	contains(t, succeed(t, db, "task", "detect-stale"), "No task is stale.")
	ledgertest.Apply(t, pool, ledgertest.Template{Namespace: "shop", Name: "order", Configuration: `{"lifecycle": {"max_waiting_for_retry_minutes": 7}}`})
	quick := ledgertest.Create(t, pool, ledgertest.New{Namespace: "shop", Name: "order"})
	ledgertest.Put(t, pool, quick, "waiting_for_retry")
	ledgertest.Age(t, pool, quick, 8*time.Minute)
	slow := ledgertest.Create(t, pool, ledgertest.New{Namespace: "shop", Name: "order"})
	ledgertest.Put(t, pool, slow, "steps_in_process")
	ledgertest.Age(t, pool, slow, 29*time.Minute)

	// Dry by default.
	for _, args := range [][]string{nil, {"--dry-run"}, {"--dry-run=true"}} {
		table := succeed(t, db, append([]string{"task", "detect-stale"}, args...)...)
		contains(t, table, "TASK", quick.String(), "shop/order", "waiting_for_retry", "template", "move_to_dlq", "staleness_timeout", "1 task is stale", "dry run")
		if strings.Contains(table, slow.String()) {
			t.Errorf("a healthy task is listed:\n%s", table)
		}
		if state := ledgertest.State(t, pool, quick); state != "waiting_for_retry" {
			t.Fatalf("a dry run moved the task to %s", state)
		}
	}
	// The command takes the settings of serve.
	table := succeed(t, db, "task", "detect-stale", "--staleness-steps-in-process-minutes=20", "--batch-size", "2")
	contains(t, table, quick.String(), slow.String(), "default", "There may be more")

	view := decode[api.StaleTasks](t, succeed(t, db, "task", "detect-stale", "--dry-run=false", "--batch-size", "50", "-o", "json"))
	if view.DryRun || view.Detected != 1 || view.MovedToDLQ != 1 || view.Transitioned != 1 || len(view.Tasks) != 1 || view.Tasks[0].TaskUUID != quick ||
		view.Tasks[0].StalenessThresholdMinutes != 7 || view.Tasks[0].ThresholdSource != "template" || view.Tasks[0].ActionTaken != ledger.StaleMovedToDLQ {
		t.Errorf("%+v", view)
	}
	if state := ledgertest.State(t, pool, quick); state != "error" {
		t.Errorf("the task is %s", state)
	}
	encoded := succeed(t, db, "task", "detect-stale", "-o", "json")
	contains(t, encoded, `"tasks": []`, `"dry_run": true`)

	for _, args := range [][]string{{"--batch-size", "0"}, {"--batch-size", "10001"}, {"--dry-run=perhaps"}, {"--staleness-batch-size", "0"}} {
		if r := postrider(t, []string{"DATABASE_URL=" + db.URL}, append([]string{"task", "detect-stale"}, args...)...); r.code != ExitUsage {
			t.Errorf("%q: exit code %d, %s", args, r.code, r.stderr)
		}
	}
}

func TestTaskDetector(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	contains(t, succeed(t, db, "task", "detector", "status"), "working", "none yet")
	contains(t, succeed(t, db, "task", "detector", "resume"), "were not paused")
	contains(t, succeed(t, db, "task", "detector", "pause", "--by", "me", "--for", "2h"), "is paused until 2")
	contains(t, succeed(t, db, "task", "detector", "status"), "paused", "me", "or postrider task detector resume")
	contains(t, succeed(t, db, "task", "detector", "pause", "--by", "you\x1b[2J", "--reason", "release"), "until a person resumes it")
	contains(t, succeed(t, db, "task", "detector", "pause", "--by", "me", "--for", "1m"), "was paused before", `you\x1b[2J`)
	status := succeed(t, db, "task", "detector", "status", "-o", "json")
	if s := decode[ledger.DetectorStatus](t, status); !s.Paused || s.PausedBy != "me, you\x1b[2J" || s.Reason != "release" || s.ResumeAt != nil {
		t.Errorf("%s", status)
	}
	contains(t, succeed(t, db, "task", "detector", "resume"), "go on")
	if _, err := db.Conn(t).Exec(t.Context(), `update postrider.tasker_detector set last_pass_at = '2026-01-02T03:04:05Z', last_pass_by = 'here:1', last_pass_ms = 12.34, last_pass_stale = 5, last_pass_dry_run = true`); err != nil {
		t.Fatal(err)
	}
	contains(t, succeed(t, db, "task", "detector", "status"), "2026-01-02T03:04:05Z by here:1, 5 stale tasks in 12.3 ms, a dry run")
	for args, want := range map[string]string{"pause": "--by", "pause --by me --for -1s": "--for", "pause --by me --for 1ns": "--for is 1ns; it must be at least 1s", "stop": "there are pause, resume, status"} {
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, append([]string{"task", "detector"}, strings.Fields(args)...)...)
		if r.code != ExitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, r.code, r.stderr)
		}
	}
}
