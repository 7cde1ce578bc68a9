package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// The figures are the last count, and none if that is more than five minutes old.
func TestFigures(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	read := func() ledger.Figures {
		t.Helper()
		f, err := ledgerpostgres.On(r.pool).Figures(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := read(); !f.CountedAt.IsZero() || len(f.States) != 0 {
		t.Errorf("at the beginning: %+v", f)
	}
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "n", Name: "work"})
	for range 3 {
		ledgertest.Create(t, r.pool, ledgertest.New{Namespace: "n", Name: "work"})
	}
	r.exec(`select postrider.refresh_dashboards()`)
	f := read()
	if time.Since(f.CountedAt) > 5*time.Minute || len(f.States) != 1 || f.States[0] != (ledger.StateFigures{State: "pending", Tasks: 3}) {
		t.Errorf("counted: %+v", f)
	}
	r.exec(`update postrider.tasker_tasks set state_entered_at = now() - interval '2 days', created_at = now() - interval '2 days'`)
	r.exec(`select postrider.refresh_dashboards()`)
	if f = read(); len(f.States) != 1 || f.States[0].Stale != 3 {
		t.Errorf("when all are stale: %+v", f)
	}
	r.exec(`update postrider.dashboard_summary set as_of = now() - interval '6 minutes'`)
	if f = read(); !f.CountedAt.IsZero() || len(f.States) != 0 {
		t.Errorf("when counting has ended: %+v", f)
	}
}

// TestCountsOfAllWork: what was done with tasks counts once, whether an operator's or a service's SQL or the relay did it.
// What was rolled back and what a dry run finds does not count, but a task that was handed out does. The sums stay when
// refresh_dashboards adds the rows up.
func TestCountsOfAllWork(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a", "max_retries": 0}]}`)
	ledgertest.AddMachine(t, f.pool, ledgertest.Protocol())
	ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "document", Machine: "protocol"})
	ledgertest.Apply(t, f.pool, ledgertest.Template{Name: "flagged", Configuration: `{"lifecycle": {"auto_fail_on_timeout": false, "auto_dlq_on_timeout": false}}`})
	operator, writer := as(f, "postrider_operator"), as(f, "postrider_writer")
	// An operator's change is committed with a row of the audit log.
	change := func(sql string, args ...any) {
		operator.ask("begin; " + fmt.Sprintf(sql, args...) + "; insert into postrider.access_audit (actor, action, target_type) values ('ann', 'change', 'task'); commit")
	}
	counts := func(when string, want ...string) {
		t.Helper()
		all, err := f.Counts(t.Context())
		f.must(err)
		var got []string
		for _, c := range all {
			if c.Tasks > 0 {
				got = append(got, strings.Join(strings.Fields(fmt.Sprint(c.Kind, " ", c.State, " ", c.Outcome, " ", c.Tasks)), " "))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	counts("at the beginning")

	stale := []any{f.task(), f.task(), ledgertest.Create(t, f.pool, ledgertest.New{Name: "flagged"})}
	for _, id := range stale {
		f.exec(`update postrider.tasker_tasks set state_entered_at = now() - interval '2 days', created_at = now() - interval '2 days' where task_uuid = $1`, id)
	}
	const detect = `select count(*) from postrider.detect_and_transition_stale_tasks(false)`
	_ = operator.ask(`select count(*) from postrider.detect_and_transition_stale_tasks(true)`)
	_ = operator.ask("begin; " + detect + "; rollback")
	counts("after a dry run, and one that was rolled back")
	change(detect)
	change(detect) // finds nothing more
	counts("found stale by an operator", "dead_letter pending worker_unavailable 2", "stale pending flag 1", "stale pending move_to_dlq 2")

	_ = writer.ask("begin; select * from postrider.get_next_ready_tasks(5); rollback")
	failing := f.task()
	_ = writer.ask("begin; select * from postrider.get_next_ready_tasks(5); rollback")
	_ = writer.ask(fmt.Sprintf(`select postrider.start_step('%[1]s', 'w'); select postrider.fail_step('%[1]s', 'no')`, f.step(failing, "a").UUID))
	change(`select postrider.dead_letter_task('%s', 'by hand')`, f.task())
	undelivered := ledgertest.Create(t, f.pool, ledgertest.New{Name: "document"})
	event, _ := ledgertest.MustGiveUp(t, f.pool, undelivered, "route", "X")
	f.exec(`select postrider.outbox_tell_tasks($1)`, []int64{event})
	done := f.task()
	ledgertest.Put(t, f.pool, done, "complete")
	ledgertest.Age(t, f.pool, done, 40*day)
	change(`select * from postrider.archive_completed_tasks(p_dry_run => false)`)
	all := []string{"archived complete 1", "dead_letter pending manual_dlq 1", "dead_letter pending worker_unavailable 2",
		"dead_letter steps_in_process max_retries_exceeded 1", "dead_letter uploaded staleness_timeout 1", "discovered 1", "stale pending flag 1", "stale pending move_to_dlq 2"}
	counts("by everybody", all...)

	manyCounts(f)
	all = append(all, "stale z many 1001")
	f.exec(`select postrider.refresh_dashboards()`)
	counts("added up", all...)
	change(`select postrider.dead_letter_task('%s', 'by hand')`, f.task())
	all[1] = "dead_letter pending manual_dlq 2"
	for range 2 {
		f.exec(`select postrider.refresh_dashboards()`)
		counts("added up again", all...)
	}
	if n := f.answer(`select count(*)::text from postrider.tasker_task_counts`); n != "8" {
		t.Errorf("%s rows are left, want one for each of seven sums, and one that was added later", n)
	}
}

// manyCounts adds so many rows to the counts that they are merged.
func manyCounts(f *fixture) {
	f.exec(`insert into postrider.tasker_task_counts (kind, state, outcome, tasks) select 'stale', 'z', 'many', 1 from generate_series(1, 1001)`)
}

// TestTheDetectorAddsCountsUp: the table of counts stays small where no archiver runs. A few rows stay as they are. A dry run
// changes nothing, and while another transaction adds them up, the detector does not wait for it.
func TestTheDetectorAddsCountsUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{"steps": [{"name": "a"}]}`)
	for range 3 {
		f.exec(`select postrider.dead_letter_task($1, 'by hand')`, f.task())
	}
	rows := func(when, want string) {
		t.Helper()
		if got := f.answer(`select count(*) || ' ' || sum(tasks) from postrider.tasker_task_counts where kind = 'dead_letter'`); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	f.exec(`select postrider.detect_and_transition_stale_tasks(false)`)
	rows("where there are few", "3 3")
	manyCounts(f)
	f.exec(`select postrider.detect_and_transition_stale_tasks(true)`)
	rows("after a dry run", "3 3")
	tx, err := f.pool.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `select postrider.tasks_merge_counts()`)
	f.must(err)
	f.exec(`select postrider.detect_and_transition_stale_tasks(false)`)
	rows("while another adds up", "3 3")
	f.must(tx.Rollback(t.Context()))
	f.exec(`select postrider.detect_and_transition_stale_tasks(false)`)
	rows("after a pass", "1 3")
}

// TestCountingWaitsForNothing: transactions that count the same, and one that adds up, are open at once.
func TestCountingWaitsForNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.apply(`{}`)
	open := func(sql string, args ...any) (commit func()) {
		tx, err := f.pool.Begin(t.Context())
		f.must(err)
		_, err = tx.Exec(t.Context(), "set local lock_timeout = '5s'")
		f.must(err)
		_, err = tx.Exec(t.Context(), sql, args...)
		f.must(err)
		return func() { t.Helper(); f.must(tx.Commit(t.Context())) }
	}
	const byHand = `select postrider.dead_letter_task($1, 'by hand')`
	manyCounts(f)
	f.exec(byHand, f.task())
	f.exec(byHand, f.task())
	first, second, sum := open(byHand, f.task()), open(byHand, f.task()), open(`select postrider.refresh_dashboards()`)
	for i, end := range []func(){second, sum, first} {
		end()
		counts, err := f.Counts(t.Context())
		f.must(err)
		if want := int64([]int{3, 3, 4}[i]); !slices.Contains(counts, ledger.Count{Kind: ledger.CountDeadLetter, State: "pending", Outcome: "manual_dlq", Tasks: want}) {
			t.Errorf("%d: %+v, want %d dead-lettered by hand", i, counts, want)
		}
	}
}
