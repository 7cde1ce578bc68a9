package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestMergedGroupsStayMerged: the investigations of a merged group go into the other, and so do later ones.
func TestMergedGroupsStayMerged(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	now := time.Now()
	one, another := r.record(failing(1, "row 1 refused", now)), r.record(failing(2, "line 2 refused", now.Add(-time.Hour)))
	other := failing(3, "line 3 refused", now)
	other.OriginTopic, other.ErrorCode = "payments", "OTHER"
	third := r.record(other)
	from, into, far := groupOf(t, r.subject, one), groupOf(t, r.subject, another), groupOf(t, r.subject, third)
	done, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: from, Into: into, Actor: "ada"})
	if err != nil || done != (dlq.MergedGroup{Moved: 1}) {
		t.Fatalf("%+v, %v", done, err)
	}
	later := r.record(failing(4, "row 4 refused", now))
	for _, entry := range []uuid.UUID{one, another, later} {
		if g := groupOf(t, r.subject, entry); g != into {
			t.Errorf("%s is in %s, want %s", entry, g, into)
		}
	}
	g := wantState(t, d, into, dlq.GroupNew, 3)
	if g.LastEntryUUID != later || g.Entries != 3 || g.Statuses[dlq.Pending] != 3 || g.MergedInto != uuid.Nil {
		t.Errorf("%+v", g)
	}
	if g := wantState(t, d, from, dlq.GroupResolved, 0); g.MergedInto != into || g.Entries != 0 {
		t.Errorf("%+v", g)
	}
	listed := func(want ...uuid.UUID) {
		t.Helper()
		page, err := d.ListGroups(t.Context(), dlq.GroupSearch{})
		ids := column(page.Groups, func(g dlq.Group) uuid.UUID { return g.UUID })
		if err != nil || len(ids) != len(want) || int(page.Total) != len(want) || slices.ContainsFunc(want, func(id uuid.UUID) bool { return !slices.Contains(ids, id) }) {
			t.Errorf("%v of %d are listed, want %v, %v", ids, page.Total, want, err)
		}
	}
	listed(into, far)
	// What was merged goes along. Topic and code are looked for in each investigation of a mixed group.
	if done, err = d.MergeGroups(t.Context(), dlq.GroupMerge{Group: into, Into: far, Actor: "ada"}); err != nil || done.Moved != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	if g := groupOf(t, r.subject, r.record(failing(5, "row 5 refused", now))); g != far {
		t.Errorf("it is in %s, want %s", g, far)
	}
	for _, f := range []dlq.Filter{{Topic: "payments"}, {ErrorCode: "OTHER"}, {Topic: "payments", Message: "3"}} {
		page, err := d.Find(t.Context(), dlq.Search{Filter: f})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].UUID != third || page.Total != 1 {
			t.Errorf("%+v: %d of %d, %v", f, len(page.Entries), page.Total, err)
		}
	}
	listed(far)
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: far, Into: from, Actor: "ada"}); err != nil {
		t.Fatalf("back: %v", err) // and the first is a group of its own again
	}
	listed(from)
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: from, Into: far, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]dlq.GroupMerge{
		"no actor": {Group: from, Into: far}, "itself": {Group: far, Into: far, Actor: "ada"}, "nothing": {Into: far, Actor: "ada"},
		"into one that was merged": {Group: far, Into: into, Actor: "ada"},
	} {
		_, err := d.MergeGroups(t.Context(), m)
		if name == "into one that was merged" { // into far itself, so that it is a way back
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: uuid.New(), Into: into, Actor: "ada"}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown group: %v", err)
	}
	if r.audit.actions[0] != "group.merge group "+from.String() {
		t.Errorf("audit log: %q", r.audit.actions)
	}
	recount(t.Context(), t, r.subject.pool)
}

func TestNothingIsMergedIntoAGroupThatWasMerged(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	var groups []uuid.UUID
	for n, message := range []string{"a", "b", "c"} {
		groups = append(groups, groupOf(t, r.subject, r.record(failing(n, message, time.Now()))))
	}
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: groups[0], Into: groups[1], Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: groups[2], Into: groups[0], Actor: "ada"}); !errors.Is(err, dlq.ErrRequest) {
		t.Errorf("error %v", err)
	}
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: groups[2], Into: uuid.UUID{15: 1}, Actor: "ada"}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	r.audit.refuse = errors.New("disk full")
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: groups[2], Into: groups[1], Actor: "ada"}); !errors.Is(err, r.audit.refuse) {
		t.Errorf("without an audit log: %v", err)
	}
	if g := groupOf(t, r.subject, r.record(failing(9, "c", time.Now()))); g != groups[2] {
		t.Errorf("it is in %s", g)
	}
}

// TestSplitGroupsStaySplit: investigations that were taken out of a group are in another, and so are later ones with the
// same names in their messages.
func TestSplitGroupsStaySplit(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	now := time.Now()
	record := func(n int, field string) uuid.UUID {
		return r.record(failing(n, fmt.Sprintf(`row %d: null in field "%s"`, n, field), now.Add(time.Duration(n)*time.Second)))
	}
	email, street, street2, zip := record(1, "email"), record(2, "street"), record(3, "street"), record(4, "zip")
	group := groupOf(t, r.subject, email)
	if groupOf(t, r.subject, zip) != group {
		t.Fatal("they are not in one group")
	}
	groups, err := d.SplitGroup(t.Context(), dlq.GroupSplit{Group: group, Entries: []uuid.UUID{street, zip, street}, Actor: "ada"})
	if err != nil || len(groups) != 1 || groups[0].Entries != 2 || groups[0].Topic != "orders" || groups[0].LastEntryUUID != zip || !groups[0].Parts.Names {
		t.Fatalf("%+v, %v", groups, err)
	}
	split := groups[0].UUID
	for entry, want := range map[uuid.UUID]uuid.UUID{email: group, street: split, street2: group, zip: split,
		record(5, "street"): split, record(6, "zip"): split, record(7, "email"): group, record(8, "city"): group} {
		if got := groupOf(t, r.subject, entry); got != want {
			t.Errorf("%s is in %s, want %s", entry, got, want)
		}
	}
	// It is merged again, with what was directed to it.
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: split, Into: group, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	again := record(9, "zip")
	if groupOf(t, r.subject, again) != group || groupOf(t, r.subject, record(10, "street")) != group {
		t.Error("they are not merged")
	}
	// And taken out again: where they came from.
	groups, err = d.SplitGroup(t.Context(), dlq.GroupSplit{Group: group, Entries: []uuid.UUID{street, street2}, Actor: "ada"})
	if err != nil || len(groups) != 1 || groups[0].UUID != split || groups[0].Entries != 2 {
		t.Fatalf("%+v, %v", groups, err)
	}
	if groupOf(t, r.subject, record(11, "street")) != split {
		t.Error("it is not known any more")
	}
	if _, err := d.SplitGroup(t.Context(), dlq.GroupSplit{Group: split, Entries: []uuid.UUID{street}, Actor: "ada"}); !errors.Is(err, dlq.ErrAlike) {
		t.Errorf("what is alike: %v", err)
	}
	for name, s := range map[string]dlq.GroupSplit{"another group's": {Group: split, Entries: []uuid.UUID{email}, Actor: "ada"}, "unknown": {Group: split, Entries: []uuid.UUID{uuid.New()}, Actor: "ada"}} {
		if _, err := d.SplitGroup(t.Context(), s); !errors.Is(err, dlq.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Contains(r.audit.actions, "group.split group "+group.String()) {
		t.Errorf("audit log: %q", r.audit.actions)
	}
	recount(t.Context(), t, r.subject.pool)
}

// TestAMergedGroupIsSplitOffAgain: investigations of a group that was merged go back there, and so do later ones.
func TestAMergedGroupIsSplitOffAgain(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	one, two := r.record(failing(1, "row 1 refused", time.Now())), r.record(failing(2, "line 2 refused", time.Now()))
	from, into := groupOf(t, r.subject, one), groupOf(t, r.subject, two)
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: from, Into: into, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	groups, err := d.SplitGroup(t.Context(), dlq.GroupSplit{Group: into, Entries: []uuid.UUID{one}, Actor: "ada"})
	if err != nil || len(groups) != 1 || groups[0].UUID != from || groups[0].MergedInto != uuid.Nil {
		t.Fatalf("%+v, %v", groups, err)
	}
	if g := groupOf(t, r.subject, r.record(failing(3, "row 3 refused", time.Now()))); g != from {
		t.Errorf("a later one is in %s", g)
	}
	if g := groupOf(t, r.subject, r.record(failing(4, "line 4 refused", time.Now()))); g != into {
		t.Errorf("a later one is in %s", g)
	}
	recount(t.Context(), t, r.subject.pool)
}

// TestGroupsOfTwoTemplatesAreSplitAgain: the templates' investigations have the same code and text, and yet go back.
func TestGroupsOfTwoTemplatesAreSplitAgain(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	record := func(n int, template string) uuid.UUID {
		l := failing(n, "the step is stale", time.Now())
		l.ErrorCode, l.Template = "STALE_STATE", template
		return r.record(l)
	}
	order, refund := record(1, "shop/order"), record(2, "shop/refund")
	into, from := groupOf(t, r.subject, order), groupOf(t, r.subject, refund)
	if into == from {
		t.Fatal("they are in one group")
	}
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: from, Into: into, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	groups, err := d.SplitGroup(t.Context(), dlq.GroupSplit{Group: into, Entries: []uuid.UUID{refund}, Actor: "ada"})
	if err != nil || len(groups) != 1 || groups[0].UUID != from {
		t.Fatalf("%+v, %v; want %s", groups, err, from)
	}
	if got := groupOf(t, r.subject, record(3, "shop/refund")); got != from {
		t.Errorf("a later one is in %s", got)
	}
	if got := groupOf(t, r.subject, record(4, "shop/order")); got != into {
		t.Errorf("a later one is in %s", got)
	}
	recount(t.Context(), t, r.subject.pool)
}

// TestASplitLocksAllInvestigationsFirst: while it waits for an investigation of its second part, it has no group.
func TestASplitLocksAllInvestigationsFirst(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	one, two := r.record(failing(1, "row 1 refused", time.Now())), r.record(failing(2, "line 2 refused", time.Now()))
	into, from := groupOf(t, r.subject, one), groupOf(t, r.subject, two)
	if _, err := d.MergeGroups(t.Context(), dlq.GroupMerge{Group: from, Into: into, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	other, err := r.subject.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lockEntries(t.Context(), other, redriveLock, []uuid.UUID{two}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		groups, err := d.SplitGroup(t.Context(), dlq.GroupSplit{Group: into, Entries: []uuid.UUID{one, two}, Actor: "ada"})
		if err == nil && len(groups) != 2 {
			err = fmt.Errorf("%d groups", len(groups))
		}
		ended <- err
	}()
	if !untilWaitingOr(t, r, ended) {
		t.Error("no session waits for the investigation")
	}
	pgtest.Exec(t, other, `select from postrider.dlq_group where dlq_group_uuid = any ($1) for no key update nowait`, []uuid.UUID{into, from})
	if err := errors.Join(other.Commit(t.Context()), <-ended); err != nil {
		t.Error(err)
	}
}

// TestRootCausesAreShown: lists, single investigations and searches have root cause and frame; each reported reason finds
// exactly its investigations.
func TestRootCausesAreShown(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	l := failing(1, "Listener failed", time.Now())
	l.Root = dlq.Root{Class: "x.Duplicate", Message: "key 17", Frame: "com.acme.Orders.save(Orders.java:9)", Wraps: true}
	entry := r.record(l)
	number := failing(2, "404: not found", time.Now())
	number.ErrorCode = ""
	second := r.record(number)
	text := failing(3, "it says 404 somewhere", time.Now())
	text.ErrorCode = ""
	r.record(text)
	e, err := r.investigations.Show(t.Context(), entry)
	if err != nil || e.RootCause != "x.Duplicate: key 17" || e.RootFrame != "com.acme.Orders.save(Orders.java:9)" || e.Word != "invalid_record" {
		t.Errorf("%+v, %v", e, err)
	}
	for _, text := range []string{"DUPLICATE: key", "Orders.save", "listener"} {
		page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Message: text}})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].RootCause != "x.Duplicate: key 17" {
			t.Errorf("%s: %+v, %v", text, page.Entries, err)
		}
	}
	if g, err := d.ShowGroup(t.Context(), e.GroupUUID); err != nil || g.Title != "x.Duplicate: key … at com.acme.Orders.save" {
		t.Errorf("%q, %v", g.Title, err)
	}
	s, err := d.Stats(t.Context())
	if err != nil || fmt.Sprint(s.ByReason) != "map[404:1 invalid_record:1 it:1]" {
		t.Errorf("%v, %v", s.ByReason, err)
	}
	for word, n := range s.ByReason {
		page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Word: word}})
		if err != nil || page.Total != n || len(page.Entries) != int(n) || page.Entries[0].Word != word {
			t.Errorf("%s: %d, want %d, %v", word, page.Total, n, err)
		}
	}
	purged, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Hour), Filter: dlq.Filter{Word: "404"}, Limit: 10, Actor: "ada"})
	if _, gone := r.investigations.Show(t.Context(), second); err != nil || purged.Entries != 1 || !errors.Is(gone, dlq.ErrNotFound) {
		t.Errorf("%+v, %v; %v", purged, err, gone)
	}
}
