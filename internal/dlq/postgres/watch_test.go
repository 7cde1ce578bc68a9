package postgres

import (
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// The figures match the rows: by reason, by age, of the oldest.
func TestStanding(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	st, err := s.Standing(t.Context(), 100)
	if err != nil || len(st.Pending) != 0 || st.Oldest != 0 || st.AgeSum != 0 || len(st.Ages) != len(dlq.AgeBounds())+1 {
		t.Errorf("of none: %+v, %v", st, err)
	}
	const hour = time.Hour
	var sum time.Duration
	for i, age := range []time.Duration{time.Minute, 2 * hour, 2 * hour, 200 * hour, 1000 * hour} {
		reason, status := "undeliverable", "pending"
		if i == 0 {
			reason = "manual_dlq"
		}
		insertEntry(t, s, reason, status, age)
		sum += age
	}
	insertEntry(t, s, "manual_dlq", "cancelled", 5000*hour)
	if st, err = s.Standing(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if len(st.Pending) != 2 || st.Pending[dlq.Undeliverable] != 4 || st.Pending[dlq.ManualDLQ] != 1 {
		t.Errorf("pending %v", st.Pending)
	}
	near := func(got, want time.Duration) bool { return got >= want && got < want+10*time.Minute }
	if !near(st.Oldest, 1000*hour) || !near(st.AgeSum, sum) {
		t.Errorf("the oldest is %v, together they are %v", st.Oldest, st.AgeSum)
	}
	for i, want := range []int64{1, 2, 0, 0, 0, 0, 1, 1} {
		if st.Ages[i] != want {
			t.Errorf("ages %v, want %d at %d", st.Ages, want, i)
		}
	}
	// With a limit the oldest are looked at, and all are counted.
	if st, err = s.Standing(t.Context(), 2); err != nil || st.Ages[6]+st.Ages[7] != 2 || st.Ages[0]+st.Ages[1] != 0 || st.Pending[dlq.Undeliverable] != 4 {
		t.Errorf("of two: %+v, %v", st, err)
	}
}

// Each closing is seen once, no matter how it was made and how it is changed later; other changes are not seen.
func TestClosedIsSeenOnce(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	insertEntry(t, s, "undeliverable", "cancelled", time.Hour) // before the first look
	look := func(from dlq.ClosedPlace, since time.Time, limit int) ([]dlq.Closed, dlq.ClosedPlace, bool) {
		t.Helper()
		closed, to, more, err := s.closed(t.Context(), from, since, limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		return closed, to, more
	}
	closed, from, more := look(dlq.ClosedPlace{}, time.Time{}, 10)
	if len(closed) != 0 || more || from.ChangedAt.IsZero() {
		t.Fatalf("from nowhere: %v %v %v", closed, from, more)
	}
	change := func(id uuid.UUID, set string) {
		t.Helper()
		if _, err := s.pool.Exec(t.Context(), `update postrider.dlq_entry set updated_at = now(), `+set+` where dlq_entry_uuid = $1`, id); err != nil {
			t.Fatal(err)
		}
	}
	const resolve = `resolution_status = 'manually_resolved', resolution_timestamp = now()`
	var ids []uuid.UUID
	for range 5 {
		ids = append(ids, insertEntry(t, s, "worker_unavailable", "pending", 3*time.Hour))
	}
	for _, id := range ids[:3] {
		change(id, resolve)
	}
	change(ids[3], `assignee = 'ada'`)
	since := from.ChangedAt
	seen := 0
	for more = true; more; {
		closed, from, more = look(from, since, 2)
		for _, c := range closed {
			seen++
			if c.Reason != dlq.WorkerUnavailable || c.Status != dlq.ManuallyResolved || c.Took < 3*time.Hour || c.Took > 3*time.Hour+10*time.Minute {
				t.Errorf("%+v", c)
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d closings were seen, want 3", seen)
	}
	change(ids[0], `resolution_notes = 'later'`)
	change(ids[4], resolve)
	if closed, from, _ = look(from, from.ChangedAt, 100); len(closed) != 1 {
		t.Errorf("after another closing and a note: %v", closed)
	}
	// What changed just now waits until no transaction can bring something older.
	change(ids[3], resolve)
	if late, to, _, err := s.Closed(t.Context(), from, from.ChangedAt, 100); err != nil || len(late) != 0 || to != from {
		t.Errorf("too early: %v, %v", late, err)
	}
}

// insertEntry writes an investigation that was opened some time ago.
func insertEntry(t *testing.T, s subject, reason, status string, age time.Duration) (id uuid.UUID) {
	t.Helper()
	err := s.pool.QueryRow(t.Context(), `insert into postrider.dlq_entry
			(subject_type, subject_id, original_state, dlq_reason, dlq_timestamp, last_occurred_at, snapshot, resolution_status, resolution_timestamp, created_at, updated_at)
		select 'event', gen_random_uuid()::text, 'failed', $1::text::postrider.dlq_reason, c.at, c.at, '{}', $2::text::postrider.dlq_resolution_status,
			case when $2::text <> 'pending' then now() end, c.at, now()
		from (select now() - make_interval(secs => $3::float8) as at) c
		returning dlq_entry_uuid`, reason, status, age.Seconds()).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestOpenedGroups: a group counts once when it is made and once each time that it comes back, and not when it is muted or
// made by people. The states that are shown are the present ones.
func TestOpenedGroups(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	look := func(after time.Time) (dlq.OpenedGroups, time.Time) {
		t.Helper()
		n, to, err := s.openedGroups(t.Context(), after, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n, to
	}
	_, at := look(time.Time{})
	opened := func(what string, want dlq.OpenedGroups, states map[dlq.GroupState]int64) {
		t.Helper()
		var n dlq.OpenedGroups
		if n, at = look(at); n != want {
			t.Errorf("%s: %+v, want %+v", what, n, want)
		}
		if st, err := s.Standing(t.Context(), 100); err != nil || !maps.Equal(st.Groups, states) {
			t.Errorf("%s: groups %v, %v, want %v", what, st.Groups, err, states)
		}
	}
	opened("before the first", dlq.OpenedGroups{}, map[dlq.GroupState]int64{})
	record := func(n int) {
		t.Helper()
		if _, err := s.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.Event(n, 1))); err != nil {
			t.Fatal(err)
		}
	}
	record(1)
	opened("the first", dlq.OpenedGroups{New: 1}, map[dlq.GroupState]int64{dlq.GroupNew: 1})
	record(2)
	opened("another of it", dlq.OpenedGroups{}, map[dlq.GroupState]int64{dlq.GroupNew: 1})
	// What failed before the group was resolved does not bring it back.
	again := func(set string) {
		t.Helper()
		mustExec(t, s.pool, `update postrider.dlq_entry set resolution_status = 'manually_resolved', resolution_timestamp = now() where resolution_status = 'pending'`)
		mustExec(t, s.pool, `update postrider.dlq_group set resolved_through = '2001-01-01'`+set)
	}
	again("")
	opened("closed", dlq.OpenedGroups{}, map[dlq.GroupState]int64{dlq.GroupResolved: 1})
	record(3)
	opened("it comes back", dlq.OpenedGroups{Regressed: 1}, map[dlq.GroupState]int64{dlq.GroupRegressed: 1})
	record(4)
	opened("and goes on", dlq.OpenedGroups{}, map[dlq.GroupState]int64{dlq.GroupRegressed: 1})
	again(", state = 'muted'")
	record(5)
	opened("muted", dlq.OpenedGroups{}, map[dlq.GroupState]int64{dlq.GroupMuted: 1})
	// What was opened just now waits until no transaction can bring something older.
	record(6)
	if late, to, err := s.Opened(t.Context(), at.Add(-time.Hour)); err != nil || late.New > 0 || !to.Before(at) {
		t.Errorf("too early: %+v, %v", late, err)
	}
}
