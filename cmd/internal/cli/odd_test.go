package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// TestOddTimesArePrinted: a row whose time RFC 3339 cannot say, written past the checks of the table, does not hide the
// other rows.
func TestOddTimesArePrinted(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	id, other := createOrder(t, db), createOrder(t, db)
	for _, sql := range []string{`alter table postrider.tasker_tasks drop constraint tasker_tasks_times`,
		`update postrider.tasker_tasks set created_at = '20000-01-01', state_entered_at = '4713-01-01 BC' where task_uuid = '` + id + `'`} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, format := range []string{"json", "yaml"} {
		contains(t, succeed(t, db, "task", "list", "-o", format), id, other, "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z")
		contains(t, succeed(t, db, "task", "show", id, "-o", format), id, "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z")
	}
	contains(t, succeed(t, db, "task", "list"), id, other)
}

// TestAuditListSaysTheLogin: beside the name that was given stands the login of the database.
func TestAuditListSaysTheLogin(t *testing.T) {
	t.Parallel()
	db, _ := shop(t)
	succeed(t, db, "task", "cancel", createOrder(t, db), "--actor", "another person")
	login := ask(t, db.Conn(t), `select session_user::text`)
	contains(t, succeed(t, db, "audit", "list", "--action", "task.cancel", "-o", "json"), `"session_user_name": "`+login+`"`, "(another person)")
	contains(t, succeed(t, db, "audit", "list", "--action", "task.cancel"), "LOGIN", login, "(another person)")
}

// TestDetectStaleSaysTheAge: of a task that is too old, and not too long in its state, the age is said, which is what the
// limit is for.
func TestDetectStaleSaysTheAge(t *testing.T) {
	t.Parallel()
	db, pool := shop(t)
	old := uuid.MustParse(createOrder(t, db))
	ledgertest.Age(t, pool, old, 100_001*time.Minute)
	ledgertest.Put(t, pool, old, "initializing")
	for line := range strings.Lines(succeed(t, db, "task", "detect-stale", "--staleness-task-max-lifetime-hours=1666")) {
		if !strings.Contains(line, old.String()) {
			continue
		}
		cells := strings.Fields(line)
		if len(cells) < 6 || cells[3] != "100001" || cells[5] != "lifetime" {
			t.Errorf("%q", cells)
		}
		return
	}
	t.Error("the task is not listed")
}

// TestDetectStaleHelpIsAboutIt: flags of the settings of others are taken, and not listed.
func TestDetectStaleHelpIsAboutIt(t *testing.T) {
	t.Parallel()
	help := postrider(t, nil, "task", "detect-stale", "--help").stdout
	contains(t, help, "--dry-run", "--batch-size", "--staleness-task-max-lifetime-hours", "--database-url")
	if n := strings.Count(help, "\n      --"); n > 40 || strings.Contains(help, "--outbox-") || strings.Contains(help, "--http-address") {
		t.Errorf("%d flags:\n%s", n, help)
	}
	db, _ := shop(t)
	succeed(t, db, "task", "detect-stale", "--http-address=127.0.0.1:0")
}
