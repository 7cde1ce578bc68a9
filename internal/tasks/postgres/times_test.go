package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

// TestTimesHaveAnEnd: a time with which nothing can be computed, and which no program could read, cannot be written, not
// even by the owner of the tables.
func TestTimesHaveAnEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", "{}")
	f.stuck("x", "steps_in_process", time.Hour)
	f.must(f.Heartbeat(t.Context(), "default", "w"))
	f.exec(`update postrider.tasker_switch set paused_at = now(), paused_by = 'me'`)
	for table, columns := range map[string][]string{
		"tasker_tasks":          {"state_entered_at", "created_at", "updated_at", "stale_flagged_at", "stale_until", "stay_from", "ready_at", "resumed_at", "completed_at"},
		"tasker_workflow_steps": {"next_retry_at", "state_entered_at", "created_at", "updated_at"},
		"tasker_workers":        {"last_heartbeat_at"},
		"tasker_switch":         {"paused_at", "resume_at"},
		"tasker_detector":       {"last_pass_at"},
	} {
		for _, column := range columns {
			times := []string{"infinity", "-infinity"}
			if table == "tasker_tasks" || table == "tasker_workflow_steps" { // answers list them, in JSON
				times = append(times, "20000-01-01", "9999-12-31T00:00:00Z", "0001-12-31 BC", "4713-01-01 BC")
			}
			for _, at := range times {
				_, err := f.pool.Exec(t.Context(), fmt.Sprintf(`update postrider.%s set %s = '%s'`, table, column, at))
				if err == nil || !strings.Contains(err.Error(), "23514") {
					t.Errorf("%s.%s may be %s: %v", table, column, at, err)
				}
			}
		}
	}
}

// TestFarTimesDoNotStopDetection: the first and the last times that are taken, and one is found beside them.
func TestFarTimesDoNotStopDetection(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.template("x", "{}")
	for _, times := range []string{
		`state_entered_at = '9999-12-30', created_at = '2020-01-01'`, `state_entered_at = '0001-01-01', created_at = '0001-01-01'`,
		`state_entered_at = '9999-12-30', created_at = '9999-12-30'`, `created_at = '9999-12-30', resumed_at = '0001-01-01'`,
	} {
		f.exec(`update postrider.tasker_tasks set `+times+` where task_uuid = $1`, f.stuck("x", "steps_in_process", time.Hour))
	}
	plain := f.stuck("x", "steps_in_process", time.Hour)
	found := f.detect(ledger.DefaultDetection())
	f.foundBy(found, plain, 30, "state", "default")
	if len(found) != 4 {
		t.Errorf("found %+v", found)
	}
	if _, err := f.NearStale(t.Context(), ledger.DefaultDetection(), 0.8); err != nil {
		t.Error(err)
	}
}
