package httpapi_test

import (
	"strings"
	"testing"
)

// TestListsSurviveOddTimes: a row with a time that RFC 3339 cannot say, which was written past the checks of the
// tables, is answered with the nearest time, and takes nothing away from the others.
func TestListsSurviveOddTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.furnish()
	r.exec(`alter table postrider.tasker_tasks drop constraint tasker_tasks_times`)
	r.exec(`alter domain postrider.outbox_available_at drop constraint outbox_event_available_at_range`)
	late, early := r.task(""), r.task("")
	r.exec(`update postrider.tasker_tasks set created_at = '20000-01-01' where task_uuid = $1`, late)
	r.exec(`update postrider.tasker_tasks set state_entered_at = '4713-01-01 BC' where task_uuid = $1`, early)
	r.exec(`insert into postrider.outbox_event (topic, available_at) values ('odd', '20000-01-01'), ('odd', '0044-03-15 BC')`)
	const last, first = "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z"
	for path, parts := range map[string][]string{"/tasks": {late, early, last, first}, "/tasks/" + late: {last}, "/outbox?topic=odd": {last, first}} {
		answer := r.ask("GET", path, "").is(200)
		for _, part := range parts {
			if !strings.Contains(answer.Raw, part) {
				t.Errorf("%s is not in the answer to %s: %s", part, path, answer.Raw)
			}
		}
	}
}
