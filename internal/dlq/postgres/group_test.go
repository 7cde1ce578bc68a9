package postgres

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// failing returns the letter of event n, which failed with the message at the time.
func failing(n int, message string, at time.Time) dlq.Letter {
	l := dlqtest.Letters(dlqtest.Event(n, 1))[0]
	l.ErrorMessage, l.LastFailedAt = message, at
	return l
}

func wantState(t *testing.T, d *Investigations, id uuid.UUID, state dlq.GroupState, pending int64) dlq.GroupDetail {
	t.Helper()
	g, err := d.ShowGroup(t.Context(), id)
	if err != nil || g.State != state || g.Pending != pending {
		t.Fatalf("it is %s with %d pending, %v; want %s with %d", g.State, g.Pending, err, state, pending)
	}
	return g
}

func TestTheLifeOfAGroup(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	now := time.Now()
	first := r.record(failing(1, "row 1 refused", now))
	id := groupOf(t, r.subject, first)
	g := wantState(t, d, id, dlq.GroupNew, 1)
	if g.Total != 1 || g.Entries != 1 || g.Occurrences != 1 || g.LastEntryUUID != first || g.Recommended != first || g.Topic != "orders" ||
		g.Word != "invalid_record" || g.Title != "Row … refused" || g.Statuses[dlq.Pending] != 1 ||
		!slices.Contains(g.Why, "message, without what varies: row # refused") || len(g.Hours) != 1 || g.Hours[0].Opened != 1 ||
		!slices.Equal(g.Partitions, []dlq.PartitionCount{{Topic: "postrider.dlq", Letters: 1}}) {
		t.Errorf("%+v", g)
	}
	second := r.record(failing(2, "row 2 refused", now))
	if groupOf(t, r.subject, second) != id {
		t.Fatal("the second is in another group")
	}
	wantState(t, d, id, dlq.GroupNew, 2)
	// A person acts.
	if _, err := d.Change(t.Context(), first, dlq.Change{Notes: ref("looking"), Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	wantState(t, d, id, dlq.GroupOngoing, 2)
	done, err := d.ResolveGroup(t.Context(), id, dlq.GroupResolution{Notes: "fixed", Actor: "ada"})
	if err != nil || done.Closed != 2 || done.Left != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	g = wantState(t, d, id, dlq.GroupResolved, 0)
	if g.ResolvedThrough.IsZero() || g.Statuses[dlq.ManuallyResolved] != 2 {
		t.Errorf("%+v", g)
	}
	if e, _ := r.investigations.Show(t.Context(), second); e.Status != dlq.ManuallyResolved || e.ResolvedBy != "ada" || e.ResolutionNotes != "fixed" {
		t.Errorf("%+v", e)
	}
	// A letter that was on its way when the group was resolved does not make it come back.
	third := r.record(failing(3, "row 3 refused", now.Add(-time.Hour)))
	wantState(t, d, id, dlq.GroupOngoing, 1)
	if e, _ := r.investigations.Show(t.Context(), third); e.PredecessorUUID != uuid.Nil {
		t.Errorf("its predecessor is %s", e.PredecessorUUID)
	}
	if _, err := d.ResolveGroup(t.Context(), id, dlq.GroupResolution{Status: dlq.Cancelled, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	last := wantState(t, d, id, dlq.GroupResolved, 0).LastEntryUUID
	// A letter that failed after the group was resolved does, and its investigation names the last closed one.
	fourth := r.record(failing(4, "row 4 refused", time.Now().Add(time.Minute)))
	g = wantState(t, d, id, dlq.GroupRegressed, 1)
	if e, _ := r.investigations.Show(t.Context(), fourth); e.PredecessorUUID != last || g.Total != 4 {
		t.Errorf("its predecessor is %s, want %s; %d in all", e.PredecessorUUID, last, g.Total)
	}
	// Its own closed investigation comes before that of its group.
	mustExec(t, r.subject.pool, `update postrider.dlq_entry set resolution_status = 'cancelled', resolution_timestamp = now() where resolution_status = 'pending'`)
	again := failing(1, "row 1 refused", time.Now().Add(2*time.Minute))
	again.ID += "x"
	if e, _ := r.investigations.Show(t.Context(), r.record(again)); e.PredecessorUUID != first {
		t.Errorf("its predecessor is %s, want %s", e.PredecessorUUID, first)
	}
	wantState(t, d, id, dlq.GroupRegressed, 1)
	if _, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Hour), Limit: 100, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	g = wantState(t, d, id, dlq.GroupResolved, 0)
	if g.Entries != 0 || g.Total != 5 || g.LastEntryUUID != uuid.Nil || g.Recommended != uuid.Nil {
		t.Errorf("%+v", g)
	}
	recount(t.Context(), t, r.subject.pool)
}

func TestANewGroupGrowsOld(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	id := groupOf(t, r.subject, r.record(failing(1, "x", time.Now())))
	mustExec(t, r.subject.pool, `update postrider.dlq_group set created_at = now() - interval '25 hours'`)
	wantState(t, d, id, dlq.GroupOngoing, 1)
	page, err := d.ListGroups(t.Context(), dlq.GroupSearch{State: dlq.GroupOngoing})
	if err != nil || page.Total != 1 || page.Groups[0].UUID != id {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestMuting(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	entry := r.record(failing(1, "x", time.Now()))
	id := groupOf(t, r.subject, entry)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	g, err := d.ChangeGroup(t.Context(), id, dlq.GroupChange{Muted: ref(true), MutedUntil: until, Note: ref("vendor knows"), Actor: "ada"})
	if err != nil || g.State != dlq.GroupMuted || !g.MutedUntil.Equal(until) || g.Note != "vendor knows" {
		t.Fatalf("%+v, %v", g, err)
	}
	// A note leaves the group muted, for as long as before, and so do new letters.
	if g, err = d.ChangeGroup(t.Context(), id, dlq.GroupChange{Note: ref(""), Assignee: ref("bob"), Actor: "ada"}); err != nil || g.State != dlq.GroupMuted ||
		!g.MutedUntil.Equal(until) || g.Note != "" || g.Assignee != "bob" {
		t.Fatalf("%+v, %v", g, err)
	}
	r.record(failing(2, "x", time.Now()))
	if _, err := d.ResolveGroup(t.Context(), id, dlq.GroupResolution{Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	wantState(t, d, id, dlq.GroupMuted, 0)
	r.record(failing(3, "x", time.Now().Add(time.Hour)))
	wantState(t, d, id, dlq.GroupMuted, 1)
	// Time passes.
	mustExec(t, r.subject.pool, `update postrider.dlq_group set muted_until = now() - interval '1 second'`)
	wantState(t, d, id, dlq.GroupOngoing, 1)
	r.record(failing(4, "x", time.Now()))
	if g := wantState(t, d, id, dlq.GroupOngoing, 2); !g.MutedUntil.IsZero() {
		t.Errorf("muted until %v", g.MutedUntil)
	}
	// For good, and not any more.
	if g, err = d.ChangeGroup(t.Context(), id, dlq.GroupChange{Muted: ref(true), Actor: "ada"}); err != nil || g.State != dlq.GroupMuted || !g.MutedUntil.IsZero() {
		t.Fatalf("%+v, %v", g, err)
	}
	if g, err = d.ChangeGroup(t.Context(), id, dlq.GroupChange{Muted: ref(false), Actor: "ada"}); err != nil || g.State != dlq.GroupOngoing {
		t.Fatalf("%+v, %v", g, err)
	}
	if _, err := d.ResolveGroup(t.Context(), id, dlq.GroupResolution{Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	for _, muted := range []bool{true, false} {
		if g, err = d.ChangeGroup(t.Context(), id, dlq.GroupChange{Muted: &muted, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
	}
	if g.State != dlq.GroupResolved {
		t.Errorf("without anything pending it is %s", g.State)
	}
	want := "group.mute group.assign group.resolve group.mute group.unmute group.resolve group.mute group.unmute"
	var got []string
	for _, a := range r.audit.actions {
		got = append(got, strings.Fields(a)[0])
	}
	if strings.Join(got, " ") != want {
		t.Errorf("audit log: %q", got)
	}
	recount(t.Context(), t, r.subject.pool)
}

func TestResolvingUntil(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	seen := r.record(failing(1, "x", time.Now()))
	id := groupOf(t, r.subject, seen)
	var cutoff time.Time
	if err := r.subject.pool.QueryRow(t.Context(), `select clock_timestamp()`).Scan(&cutoff); err != nil {
		t.Fatal(err)
	}
	later := r.record(failing(2, "x", time.Now()))
	done, err := d.ResolveGroup(t.Context(), id, dlq.GroupResolution{Until: cutoff, ResolvedBy: "bob", Actor: "ada"})
	if err != nil || done.Closed != 1 || !done.Until.Equal(cutoff) {
		t.Fatalf("%+v, %v", done, err)
	}
	for entry, status := range map[uuid.UUID]dlq.Status{seen: dlq.ManuallyResolved, later: dlq.Pending} {
		if e, err := r.investigations.Show(t.Context(), entry); err != nil || e.Status != status {
			t.Errorf("%s is %s, %v", entry, e.Status, err)
		}
	}
	if done, err = d.ResolveGroup(t.Context(), id, dlq.GroupResolution{Until: cutoff, Actor: "ada"}); err != nil || done.Closed != 0 {
		t.Errorf("once more: %+v, %v", done, err)
	}
	if len(r.audit.actions) != 1 {
		t.Errorf("audit log: %q", r.audit.actions)
	}
	r.audit.refuse = errors.New("disk full")
	if _, err := d.ResolveGroup(t.Context(), id, dlq.GroupResolution{Actor: "ada"}); !errors.Is(err, r.audit.refuse) {
		t.Errorf("without an audit log: %v", err)
	}
	wantState(t, d, id, dlq.GroupOngoing, 1)
	if _, err := d.ChangeGroup(t.Context(), id, dlq.GroupChange{Note: ref("lost"), Actor: "ada"}); !errors.Is(err, r.audit.refuse) {
		t.Errorf("without an audit log: %v", err)
	}
	if g := wantState(t, d, id, dlq.GroupOngoing, 1); g.Note != "" {
		t.Errorf("it was changed: %+v", g)
	}
}

func TestListingGroups(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	now := time.Now().Truncate(time.Second)
	words := []string{"aa", "bb", "cc", "dd", "ee"}
	for i, word := range words {
		for n := range i + 1 {
			l := failing(10*i+n, word, now.Add(time.Duration(i)*time.Minute))
			if i%2 == 1 {
				l.OriginTopic, l.ErrorCode = "payments", "OTHER"
			}
			r.record(l)
		}
	}
	titles := func(q dlq.GroupSearch) (all []string) {
		t.Helper()
		for {
			page, err := d.ListGroups(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range page.Groups {
				all = append(all, g.Parts.Message)
			}
			if q.After = page.Next; q.After == "" {
				if int(page.Total) != len(all) {
					t.Errorf("%d groups, the total is %d", len(all), page.Total)
				}
				return all
			}
		}
	}
	for _, order := range dlq.GroupOrders() {
		for _, ascending := range []bool{false, true} {
			want := slices.Clone(words)
			if !ascending {
				slices.Reverse(want)
			}
			if got := titles(dlq.GroupSearch{OrderBy: order, Ascending: ascending, Limit: 2}); !slices.Equal(got, want) {
				t.Errorf("by %s, ascending %t: %v", order, ascending, got)
			}
		}
	}
	for name, test := range map[string]struct {
		q    dlq.GroupSearch
		want []string
	}{
		"topic":     {dlq.GroupSearch{Topic: "payments"}, []string{"dd", "bb"}},
		"code":      {dlq.GroupSearch{ErrorCode: "INVALID_RECORD"}, []string{"ee", "cc", "aa"}},
		"title":     {dlq.GroupSearch{Text: "CC"}, []string{"cc"}},
		"its code":  {dlq.GroupSearch{Text: "other"}, []string{"dd", "bb"}},
		"its topic": {dlq.GroupSearch{Text: "Payment"}, []string{"dd", "bb"}},
		"wildcard":  {dlq.GroupSearch{Text: "%"}, nil},
		"state":     {dlq.GroupSearch{State: dlq.GroupNew, Limit: 1000}, []string{"ee", "dd", "cc", "bb", "aa"}},
		"none":      {dlq.GroupSearch{State: dlq.GroupRegressed}, nil},
		"assignee":  {dlq.GroupSearch{Assignee: "bob"}, nil},
	} {
		if got := titles(test.q); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, q := range map[string]dlq.GroupSearch{
		"state": {State: "open"}, "order": {OrderBy: "title"}, "limit": {Limit: dlq.MaxLimit + 1}, "negative": {Limit: -1}, "NUL": {Text: "\x00"},
		"cursor": {After: "x"}, "other cursor": {After: cursor(dlq.Search{OrderBy: dlq.ByCreated}, found{})}, "no number": {After: "bGFzdF9zZWVuX2F0IGZhbHNlIHggeA"},
	} {
		if _, err := d.ListGroups(t.Context(), q); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Behind the last group there is none, and all are counted.
	last, err := d.ListGroups(t.Context(), dlq.GroupSearch{OrderBy: dlq.GroupsByTotal, Limit: 4})
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, r.subject.pool, `update postrider.dlq_group set total = total + 100 where parts->>'message' = 'aa'`)
	if page, err := d.ListGroups(t.Context(), dlq.GroupSearch{OrderBy: dlq.GroupsByTotal, Limit: 4, After: last.Next}); err != nil || len(page.Groups) != 0 || page.Total != 5 {
		t.Errorf("behind the last: %d groups of %d, %v", len(page.Groups), page.Total, err)
	}
	g, err := d.ListGroups(t.Context(), dlq.GroupSearch{Text: "dd"})
	if err != nil {
		t.Fatal(err)
	}
	detail, err := d.ShowGroup(t.Context(), g.Groups[0].UUID)
	if err != nil || len(detail.Related) != 1 {
		t.Errorf("related to %v, %v", detail.Related, err)
	}
}

// TestGroupsAreReadOnce: a page of groups and their number take one look at each group, and so do the numbers of all states.
func TestGroupsAreReadOnce(t *testing.T) {
	t.Parallel()
	const groups, limit = 1000, 10
	r := newRedriving(t)
	mustExec(t, r.subject.pool, `insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, topic, first_seen_at, last_seen_at, total, entries, pending)
		select 'f' || i, 1, '{}', 'group ' || i, 't', now(), now(), 1, 1, 1 from generate_series(1, $1::integer) i`, groups)
	for name, read := range map[string]func(pgx.Tx) (int, error){
		"a page": func(tx pgx.Tx) (int, error) {
			page, err := listGroups(t.Context(), tx, dlq.GroupSearch{OrderBy: dlq.GroupsByWorst, Limit: limit}, pgtype.Int8{}, pgtype.UUID{})
			if len(page.Groups) != limit {
				t.Errorf("%d groups", len(page.Groups))
			}
			return int(page.Total), err
		},
		"the numbers": func(tx pgx.Tx) (n int, err error) {
			rows, err := tx.Query(t.Context(), groupStates, nil)
			if err != nil {
				return 0, err
			}
			var state string
			var of, pending int
			_, err = pgx.ForEachRow(rows, []any{&state, &of, &pending}, func() error { n += of; return nil })
			return n, err
		},
	} {
		err := pgx.BeginTxFunc(t.Context(), r.subject.pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) error {
			const looks = `select pg_stat_get_xact_tuples_returned($1::regclass) + pg_stat_get_xact_tuples_fetched($1::regclass)`
			var before, after int
			if err := tx.QueryRow(t.Context(), looks, "postrider.dlq_group").Scan(&before); err != nil {
				return err
			}
			total, err := read(tx)
			if err != nil {
				return err
			}
			if err := tx.QueryRow(t.Context(), looks, "postrider.dlq_group").Scan(&after); err != nil {
				return err
			}
			if total != groups || after-before > groups+10*limit {
				t.Errorf("%s: %d groups with %d reads", name, total, after-before)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCountsOfGroupsAreThoseOfTheLists: of every state, merged groups left out.
func TestCountsOfGroupsAreThoseOfTheLists(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	var ids []uuid.UUID
	for i, word := range []string{"aa", "bb", "cc", "dd", "ee"} {
		ids = append(ids, groupOf(t, r.subject, r.record(failing(i, word, time.Now()))))
	}
	task := dlqtest.Letters(dlqtest.Event(77, 1))[0]
	task.Subject = dlq.Subject{Type: dlq.SubjectTask, ID: uuid.NewString()}
	r.record(task)
	if _, err := d.ChangeGroup(t.Context(), ids[0], dlq.GroupChange{Muted: ref(true), Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ResolveGroup(t.Context(), ids[1], dlq.GroupResolution{Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: ids[2], Into: ids[3], Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	states, pending, err := d.GroupStates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range dlq.GroupStates() {
		page, err := d.ListGroups(t.Context(), dlq.GroupSearch{State: state})
		if err != nil || states[state] != page.Total {
			t.Errorf("%s: %d, the list has %d, %v", state, states[state], page.Total, err)
		}
	}
	for _, f := range []dlq.Filter{{Status: dlq.Pending}, {Status: dlq.Pending, Subject: dlq.Subject{Type: dlq.SubjectTask}}} {
		page, err := d.Find(t.Context(), dlq.Search{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		if f.Subject.Type != "" {
			pending, err = d.PendingOf(t.Context(), f.Subject.Type)
		}
		if err != nil || pending != page.Total || pending == 0 {
			t.Errorf("%+v: %d are pending, the list has %d, %v", f, pending, page.Total, err)
		}
	}
	groups, err := d.Groups(t.Context(), []uuid.UUID{ids[4], uuid.New(), ids[0]})
	if err != nil || len(groups) != 2 || groups[0].UUID != ids[4] || groups[1].State != dlq.GroupMuted {
		t.Errorf("groups %+v, %v", groups, err)
	}
}

func TestGroupsThatAreNotThere(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	_, show := d.ShowGroup(t.Context(), uuid.New())
	_, change := d.ChangeGroup(t.Context(), uuid.New(), dlq.GroupChange{Note: ref("x"), Actor: "ada"})
	_, resolve := d.ResolveGroup(t.Context(), uuid.New(), dlq.GroupResolution{Actor: "ada"})
	for _, err := range []error{show, change, resolve} {
		if !errors.Is(err, dlq.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	}
	for name, c := range map[string]dlq.GroupChange{
		"no actor": {Note: ref("x")}, "nothing": {Actor: "ada"}, "until only": {Actor: "ada", Note: ref("x"), MutedUntil: time.Now()},
		"until, unmuted": {Actor: "ada", Muted: ref(false), MutedUntil: time.Now()}, "year": {Actor: "ada", Muted: ref(true), MutedUntil: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"long": {Actor: "ada", Note: ref(strings.Repeat("x", dlq.MaxNotes+1))}, "NUL": {Actor: "ada", Assignee: ref("\x00")},
	} {
		if err := c.Check(); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]dlq.GroupResolution{
		"no actor": {}, "pending": {Actor: "ada", Status: dlq.Pending}, "status": {Actor: "ada", Status: "x"},
		"year": {Actor: "ada", Until: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "NUL": {Actor: "ada", Notes: "\x00"},
	} {
		if err := c.Check(); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSeenInTheFuture: a record whose clock was ahead is not seen later than now, whether it opens the group, is of
// another investigation of it, or of one that is open. So it does not stay at the top of the list.
func TestSeenInTheFuture(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	future := time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
	group := groupOf(t, r.subject, r.record(failing(1, "row 1 refused", future)))
	for i, letter := range []dlq.Letter{{}, failing(2, "row 2 refused", future), dlqtest.Letters(dlqtest.Event(1, 2))[0]} {
		if i == 2 {
			letter.ErrorMessage, letter.LastFailedAt = "row 1 refused", future
		}
		if i > 0 {
			r.record(letter)
		}
		g, err := d.ShowGroup(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		if g.LastSeenAt.After(time.Now().Add(time.Minute)) || g.FirstSeenAt.After(g.LastSeenAt) {
			t.Errorf("%d: first seen %v, last seen %v", i, g.FirstSeenAt, g.LastSeenAt)
		}
	}
	if g, _ := d.ShowGroup(t.Context(), group); g.Occurrences != 3 || g.Entries != 2 {
		t.Errorf("%d investigations, %d letters", g.Entries, g.Occurrences)
	}
}
