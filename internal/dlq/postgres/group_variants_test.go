package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// TestAGroupHasVariants: messages that differ in a quoted name are told apart, messages that differ in a number are not.
func TestAGroupHasVariants(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	var newest uuid.UUID
	for n := range 3 {
		newest = r.record(failing(n, fmt.Sprintf("order %d has no field 'customer'", 4711+n), time.Now()))
	}
	other := r.record(failing(9, "order 9 has no field 'price'", time.Now()))
	id := groupOf(t, r.subject, newest)
	if groupOf(t, r.subject, other) != id {
		t.Fatal("the two are in different groups")
	}
	if _, err := d.Change(t.Context(), other, dlq.Change{Status: ref(dlq.Cancelled), Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	g, err := d.ShowGroup(t.Context(), id)
	if err != nil || g.Title != "Order … has no field '…'" || len(g.Variants) != 2 {
		t.Fatalf("%q has %+v, %v", g.Title, g.Variants, err)
	}
	if v := g.Variants[0]; v.Newest != other || v.Entries != 1 || v.Message != "order 9 has no field 'price'" || time.Since(v.OpenedAt) > time.Hour {
		t.Errorf("the newest variant is %+v", v)
	}
	if v := g.Variants[1]; v.Newest != newest || v.Entries != 3 || v.Message != "order 4713 has no field 'customer'" {
		t.Errorf("the other variant is %+v", v)
	}
	for n := range dlq.GroupVariants {
		r.record(failing(20+n, fmt.Sprintf("order 1 has no field 'field%c'", 'a'+n), time.Now()))
	}
	if g, err = d.ShowGroup(t.Context(), id); err != nil || len(g.Variants) != dlq.GroupVariants || !strings.Contains(g.Variants[0].Message, "fielde") {
		t.Errorf("of many variants it has %+v, %v", g.Variants, err)
	}
}

// TestVariantsOfALargeGroup: the newest investigations of a group come from its index, and the others are not read.
func TestVariantsOfALargeGroup(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	tx := afterOldOutage(t, r, beginRead)
	var group uuid.UUID
	if err := tx.QueryRow(t.Context(), `select dlq_group_uuid from postrider.dlq_group order by entries desc limit 1`).Scan(&group); err != nil {
		t.Fatal(err)
	}
	for _, plan := range []string{
		explained(t, tx, groupVariants, group, dlq.GroupSample, dlq.GroupVariants),
		explained(t, tx, groupPartitions, group, dlq.GroupSample),
		explained(t, tx, groupClosings, group, dlq.GroupSample, dlq.GroupClosings),
	} {
		if !strings.Contains(plan, "Index Only Scan Backward using dlq_entry_group") || strings.Contains(plan, "Seq Scan on dlq_entry") {
			t.Errorf("it reads more than the newest of the group:\n%s", plan)
		}
	}
}

// TestPartitionsOfTheNewest: the letters of as many of the newest investigations are counted as are said, also where all have one status.
func TestPartitionsOfTheNewest(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	var letters []dlq.Letter
	for n := range dlq.GroupSample + 20 {
		l := failing(n, "order 1 has no field 'customer'", time.Now())
		if n >= dlq.GroupSample+10 {
			l.ErrorMessage = "order 1 has no field 'price'"
		}
		letters = append(letters, l)
	}
	newest := r.record(letters[0])
	if _, err := r.subject.RecordLetters(t.Context(), letters[1:]); err != nil {
		t.Fatal(err)
	}
	g, err := r.people().ShowGroup(t.Context(), groupOf(t, r.subject, newest))
	if err != nil || g.Pending != dlq.GroupSample+20 {
		t.Fatalf("%d are open, %v", g.Pending, err)
	}
	var counted int64
	for _, p := range g.Partitions {
		counted += p.Letters
	}
	if counted != dlq.GroupSample {
		t.Errorf("%d letters are counted: %+v", counted, g.Partitions)
	}
}

// TestTheWorstGroupsFirst: what is open comes before what is muted or resolved, and what goes on before what is quiet; then the
// number that is open decides, whether a group is new or not, and with any assignee. Pages follow the same order.
func TestTheWorstGroupsFirst(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	ids := map[string]uuid.UUID{}
	n := 0
	for _, name := range []string{"resolved", "old and large", "old, goes on and large", "muted", "new and goes on", "new and quiet"} {
		for range map[bool]int{true: 3, false: 1}[strings.Contains(name, "large")] {
			n++
			ids[name] = groupOf(t, r.subject, r.record(failing(n, name, time.Now())))
		}
	}
	if _, err := d.ResolveGroup(t.Context(), ids["resolved"], dlq.GroupResolution{Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ChangeGroup(t.Context(), ids["muted"], dlq.GroupChange{Muted: ref(true), Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ChangeGroup(t.Context(), ids["old, goes on and large"], dlq.GroupChange{Assignee: ref("ada"), Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old and large", "old, goes on and large", "new and quiet"} {
		if strings.Contains(name, "old") {
			mustExec(t, r.subject.pool, `update postrider.dlq_group set created_at = now() - interval '2 days' where dlq_group_uuid = $1`, ids[name])
		}
		if strings.Contains(name, "quiet") || name == "old and large" {
			mustExec(t, r.subject.pool, `update postrider.dlq_group set last_seen_at = now() - interval '3 hours' where dlq_group_uuid = $1`, ids[name])
		}
	}
	want := []string{"old, goes on and large", "new and goes on", "old and large", "new and quiet", "muted", "resolved"}
	var got []string
	q := dlq.GroupSearch{OrderBy: dlq.GroupsByWorst, Limit: 2}
	for {
		page, err := d.ListGroups(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range page.Groups {
			got = append(got, g.Parts.Message)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
}
