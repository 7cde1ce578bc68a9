package postgres_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

type stalenessRow struct {
	State            string
	Count            int64
	Avg, Max         float64
	Over1h, Over1day int64
	Top              []uuid.UUID
	Warning, Stale   int64
	AsOf             time.Time
}

func (r *archiveRig) staleness() map[string]stalenessRow {
	r.Helper()
	rows, err := r.pool.Query(r.Context(), `select * from postrider.v_task_staleness_monitoring`)
	if err != nil {
		r.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stalenessRow])
	if err != nil {
		r.Fatal(err)
	}
	byState := map[string]stalenessRow{}
	for i, row := range all {
		if i > 0 && row.Over1h > all[i-1].Over1h {
			r.Errorf("%s with %d over an hour comes behind %d", row.State, row.Over1h, all[i-1].Over1h)
		}
		byState[row.State] = row
	}
	return byState
}

func TestStalenessMonitoring(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "slow", Name: "patient", NamespaceLifecycle: `{"max_waiting_for_retry_minutes": 100}`,
		Configuration: `{"lifecycle": {"max_waiting_for_dependencies_minutes": 600, "max_duration_minutes": 10000}}`})
	at := func(n ledgertest.New, state string, minutes, age float64) uuid.UUID {
		id := ledgertest.Create(t, r.pool, n)
		ledgertest.Put(t, r.pool, id, state)
		r.exec(`update postrider.tasker_tasks set state_entered_at = now() - $2 * interval '1 minute', created_at = now() - $3 * interval '1 minute' where task_uuid = $1`, id, minutes, age)
		return id
	}
	plain, patient := ledgertest.New{}, ledgertest.New{Namespace: "slow", Name: "patient"}
	at(plain, "waiting_for_dependencies", 10, 10)
	at(plain, "waiting_for_dependencies", 50, 50)             // past 80 % of 60
	stale := at(plain, "waiting_for_dependencies", 120, 120)  // past 60
	calm := at(patient, "waiting_for_dependencies", 470, 470) // of 600
	warned := at(patient, "waiting_for_dependencies", 500, 500)
	at(plain, "waiting_for_retry", 25, 25)
	at(patient, "waiting_for_retry", 25, 25) // of 100, by its namespace
	at(plain, "pending", 1, 1200)            // 80 % of its lifetime
	at(plain, "pending", 1, 1500)            // past it
	flagged := at(plain, "steps_in_process", 5000, 5000)
	r.exec(`update postrider.tasker_tasks set stale_flagged_at = now() where task_uuid = $1`, flagged)
	for _, ended := range []string{"complete", "error", "cancelled"} {
		at(plain, ended, 9999, 9999)
	}
	check := func(what string, fresh bool) {
		t.Helper()
		got := r.staleness()
		if len(got) != 4 {
			t.Errorf("%s: states %v", what, got)
		}
		for state, want := range map[string]stalenessRow{
			"waiting_for_dependencies": {Count: 5, Avg: 230, Max: 500, Over1h: 3, Top: []uuid.UUID{warned, calm, stale}, Warning: 2, Stale: 1},
			"waiting_for_retry":        {Count: 2, Avg: 25, Max: 25, Warning: 1},
			"pending":                  {Count: 2, Avg: 1, Max: 1, Warning: 1, Stale: 1},
			"steps_in_process":         {Count: 1, Avg: 5000, Max: 5000, Over1h: 1, Over1day: 1, Top: []uuid.UUID{flagged}, Stale: 1},
		} {
			row := got[state]
			if math.Abs(row.Avg-want.Avg) > 2 || math.Abs(row.Max-want.Max) > 2 || !slices.Equal(row.Top, want.Top) ||
				row.Count != want.Count || row.Over1h != want.Over1h || row.Over1day != want.Over1day || row.Warning != want.Warning || row.Stale != want.Stale {
				t.Errorf("%s: %s is %+v, want %+v", what, state, row, want)
			}
			if of := one[bool](r, `select as_of = $1 from postrider.dashboard_summary where name = 'staleness'`, row.AsOf); of == fresh {
				t.Errorf("%s: %s is of %v, that of the summary: %v", what, state, row.AsOf, of)
			}
		}
	}
	check("counted at once", true)
	if done, err := r.archive.RefreshDashboards(t.Context(), 0); !done || err != nil {
		t.Fatal(done, err)
	}
	check("from the summary", false)
	if done, err := r.archive.RefreshDashboards(t.Context(), time.Minute); done || err != nil {
		t.Errorf("a young summary was renewed: %v, %v", done, err)
	}
	// A summary is used for five minutes, and says how old it is.
	at(plain, "initializing", 1, 1)
	check("from the summary, before it is renewed", false)
	r.exec(`update postrider.dashboard_summary set as_of = now() - interval '301 seconds'`)
	if row := r.staleness()["initializing"]; row.Count != 1 || time.Since(row.AsOf) > time.Minute {
		t.Errorf("an old summary is used: %+v", row)
	}
	// Its own settings.
	r.exec(`update postrider.tasker_settings set waiting_for_retry_minutes = 1000`)
	if _, err := r.archive.RefreshDashboards(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if row := r.staleness()["waiting_for_retry"]; row.Warning != 0 {
		t.Errorf("with 1000 minutes for retries: %+v", row)
	}
}

// TestStalenessWarnsAsItIsSet: past the share that the settings say, counted at once and by the summary.
func TestStalenessWarnsAsItIsSet(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	for _, minutes := range []int{20, 35, 50} { // of 60
		id := ledgertest.Create(t, r.pool, ledgertest.New{})
		ledgertest.Put(t, r.pool, id, "waiting_for_dependencies")
		ledgertest.Age(t, r.pool, id, time.Duration(minutes)*time.Minute)
	}
	for percent, want := range map[int]int64{30: 3, 50: 2, 80: 1, 100: 0} {
		r.exec(`update postrider.tasker_settings set warn_percent = $1`, percent)
		r.exec(`update postrider.dashboard_summary set as_of = '-infinity'`)
		if got := r.staleness()["waiting_for_dependencies"].Warning; got != want {
			t.Errorf("at %d %% it warns of %d, want %d", percent, got, want)
		}
		if _, err := r.archive.RefreshDashboards(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := r.staleness()["waiting_for_dependencies"].Warning; got != want {
			t.Errorf("at %d %% the summary warns of %d, want %d", percent, got, want)
		}
	}
}

// TestStalenessShowsAHundred: the longest stays, of all templates together.
func TestStalenessShowsAHundred(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	a := ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "a"})
	b := ledgertest.Apply(t, r.pool, ledgertest.Template{Name: "b"})
	r.exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live, state_entered_at, stale_flagged_at)
		select case when i % 2 = 0 then $1::uuid else $2 end, 'pending', true, now() - i * interval '1 minute', case when i % 3 = 0 then now() end
		from generate_series(1, 400) i`, a, b)
	top := r.staleness()["pending"].Top
	want := one[[]uuid.UUID](r, `select array_agg(task_uuid order by state_entered_at) from (select * from postrider.tasker_tasks order by state_entered_at limit 100) t`)
	if len(top) != 100 || !slices.Equal(top, want) {
		t.Errorf("%d tasks are shown, or not the longest stays", len(top))
	}
}

func TestDLQDashboard(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	type row struct {
		Reason                              dlq.Reason
		Total, Pending, Requeued, Permanent int64
		AvgRetries                          *float64
		Oldest, Newest                      time.Time
		Resolved, Cancelled                 int64
		RetriesAsOf                         time.Time
	}
	read := func() map[dlq.Reason]row {
		rows, err := r.pool.Query(t.Context(), `select * from postrider.v_dlq_dashboard`)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		if err != nil {
			t.Fatal(err)
		}
		by := map[dlq.Reason]row{}
		for _, a := range all {
			by[a.Reason] = a
		}
		return by
	}
	if got := read(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	// Tasks: one pending, one resolved that was retried and is archived, one given up.
	for i, status := range []dlq.Status{dlq.Pending, dlq.ManuallyResolved, dlq.PermanentlyFailed} {
		id := r.ended("error", 40*day)
		entry := r.collect(r.letter(id, dlq.StalenessTimeout), id, dlq.StalenessTimeout)
		if status != dlq.Pending {
			r.close(entry, status)
		}
		r.exec(`update postrider.tasker_tasks set retry_count = $2 where task_uuid = $1`, id, map[bool]int{true: 3}[i == 1])
	}
	r.run()
	// Events: two letters of one, given up again after a redrive; one that is given up; one that was put back.
	events := make([]uuid.UUID, 3)
	for i := range events {
		events[i] = uuid.New()
		if i < 2 {
			r.exec(`insert into postrider.outbox_exception (id, state, copied, event_id, topic) values ($1, 'dead_lettered', true, $2, 't')`, i+1, events[i])
		}
		for episode := range map[bool]int{true: 2, false: 1}[i == 0] {
			r.exec(`insert into postrider.dlq_entry (subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot)
				values ('event', $1, 'exhausted', 'max_retries_exceeded', now() - $2::int * interval '1 hour', now(), '{}') on conflict do nothing`, events[i].String(), i)
			r.exec(`insert into postrider.dlq_letter (letter_id, dlq_entry_uuid, dialect, dlq_topic, dlq_partition, dlq_offset, key_kind, payload_kind, attempts, episode)
				select $1, dlq_entry_uuid, 'postrider', 'd', 0, 0, 'tombstone', 'tombstone', $3, $4 from postrider.dlq_entry where subject_id = $2`,
				fmt.Sprintf("event:%s:%d", events[i], episode+1), events[i].String(), 5*(i+1), episode+1)
		}
	}
	check := func(what string) map[dlq.Reason]row {
		t.Helper()
		got := read()
		tasks, outbox := got[dlq.StalenessTimeout], got[dlq.MaxRetriesExceeded]
		if len(got) != 2 || tasks.Total != 3 || tasks.Pending != 1 || tasks.Requeued != 1 || tasks.Permanent != 1 || tasks.Resolved != 1 || tasks.AvgRetries == nil || *tasks.AvgRetries != 1 {
			t.Errorf("%s: tasks %+v", what, tasks)
		}
		if outbox.Total != 3 || outbox.Pending != 3 || outbox.Requeued != 2 || *outbox.AvgRetries != 10 || outbox.Newest.Sub(outbox.Oldest).Round(time.Minute) != 2*time.Hour {
			t.Errorf("%s: events %+v, average %v", what, outbox, *outbox.AvgRetries)
		}
		return got
	}
	check("counted at once")
	// One that was redriven from the desk, as a new event: its own row stays as it is.
	r.exec(`insert into postrider.dlq_redrive (redrive_id, dlq_entry_uuid, generation, outbox_id, event_id, target, actor)
		select dlq_entry_uuid || ':1', dlq_entry_uuid, 1, 1, gen_random_uuid(), 't', 'ada' from postrider.dlq_entry where subject_id = $1`, events[1].String())
	if got := read()[dlq.MaxRetriesExceeded]; got.Requeued != 3 {
		t.Errorf("redriven from the desk: %+v", got)
	}
	r.exec(`delete from postrider.dlq_redrive`)
	if _, err := r.archive.RefreshDashboards(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	check("from the summary")
	// The status is of now even while the summary is of before; retries are of when it says.
	r.exec(`update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() where subject_id = $1`, events[1].String())
	r.exec(`update postrider.dlq_letter set attempts = 100`)
	got := read()[dlq.MaxRetriesExceeded]
	if got.Pending != 2 || got.Cancelled != 1 || *got.AvgRetries != 10 || !got.RetriesAsOf.Equal(one[time.Time](r, `select as_of from postrider.dashboard_summary where name = 'dlq'`)) {
		t.Errorf("after a change %+v", got)
	}
	r.exec(`update postrider.dashboard_summary set as_of = '-infinity'`)
	if got := read()[dlq.MaxRetriesExceeded]; *got.AvgRetries != 100 {
		t.Errorf("without a summary %+v", got)
	}
}

// TestSummaryOfATimeToCome: a summary that was counted while the clock was ahead is not used, and is renewed.
func TestSummaryOfATimeToCome(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	id := ledgertest.Create(t, r.pool, ledgertest.New{})
	if _, err := r.archive.RefreshDashboards(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	ledgertest.Put(t, r.pool, id, "steps_in_process")
	r.collect(r.letter(id, dlq.ManualDLQ), id, dlq.ManualDLQ)
	r.exec(`update postrider.dashboard_summary set as_of = now() + interval '1 hour'`)
	if row := r.staleness()["steps_in_process"]; row.Count != 1 || time.Until(row.AsOf) > time.Minute {
		t.Errorf("live tasks: %+v", row)
	}
	if of := one[time.Time](r, `select retries_as_of from postrider.v_dlq_dashboard`); time.Until(of) > time.Minute {
		t.Errorf("investigations are of %v", of)
	}
	if done, err := r.archive.RefreshDashboards(t.Context(), time.Minute); !done || err != nil {
		t.Errorf("renewed %v, %v", done, err)
	}
	if n := one[int](r, `select count(*) from postrider.dashboard_summary where as_of > now() + interval '1 minute'`); n != 0 {
		t.Errorf("%d summaries are of a time to come", n)
	}
}

// TestStalenessWithAClockThatWasWrong: one task from the past of the calendar, or from its future, makes no figure
// negative or absurd.
func TestStalenessWithAClockThatWasWrong(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	r.exec(`alter table postrider.tasker_tasks drop constraint tasker_tasks_times`)
	for state, at := range map[string]string{"waiting_for_retry": "4713-01-01 BC", "steps_in_process": "294276-12-31", "initializing": "0001-01-01"} {
		for range 3 {
			ledgertest.Put(t, r.pool, ledgertest.Create(t, r.pool, ledgertest.New{}), state)
		}
		r.exec(`update postrider.tasker_tasks set state_entered_at = $1::text::timestamptz
			where task_uuid = (select task_uuid from postrider.tasker_tasks where state = $2 limit 1)`, at, state)
	}
	const longest = 525_600_000
	for i := range 2 { // at once, and from the summary
		for state, max := range map[string]float64{"waiting_for_retry": longest, "steps_in_process": 10, "initializing": longest} {
			row := r.staleness()[state]
			if row.Count != 3 || row.Avg < 0 || row.Avg > max/3+10 || row.Max < 0 || row.Max > max {
				t.Errorf("%d %s: %+v", i, state, row)
			}
		}
		if _, err := r.archive.RefreshDashboards(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInvestigationsOfTasksByTheirView: tasker_tasks_dlq has the names that programs of tasks ask for, and tasks alone.
func TestInvestigationsOfTasksByTheirView(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	task := ledgertest.Create(t, r.pool, ledgertest.New{})
	entry := r.collect("letter of the task", task, dlq.StalenessTimeout)
	r.collectOf("letter of an event", dlq.Subject{Type: dlq.SubjectEvent, ID: uuid.NewString()}, dlq.StalenessTimeout)
	rows, err := r.pool.Query(t.Context(), `select * from postrider.tasker_tasks_dlq`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0]["task_uuid"] != [16]byte(task) || all[0]["dlq_entry_uuid"] != [16]byte(entry) || all[0]["original_state"] != "steps_in_process" {
		t.Fatalf("the view has %v", all)
	}
	names := slices.Sorted(maps.Keys(all[0]))
	if want := []string{"created_at", "dlq_entry_uuid", "dlq_reason", "dlq_timestamp", "metadata", "original_state", "resolution_notes",
		"resolution_status", "resolution_timestamp", "resolved_by", "task_snapshot", "task_uuid", "updated_at"}; !slices.Equal(names, want) {
		t.Errorf("the view has the columns %v, want %v", names, want)
	}
}
