package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestTwoPeopleAtOnce: what one of them did first stands, and the other is told.
func TestTwoPeopleAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, nil)
	a, b := r.as(access.Admin), r.as(access.Resolve)
	page := "/investigations/" + entry
	a.post(page+"/change", "what", "resolve", "notes", "mended").is(t, http.StatusSeeOther)
	b.post(page+"/change", "what", "resolve", "status", "cancelled", "notes", "not mended").is(t, http.StatusSeeOther)
	b.get(page).is(t, 200).has(t, "notice waiting", "mended")
	if got := pgtest.Value[string](t, r.pool, `select resolution_status || ' ' || resolution_notes from postrider.dlq_entry`); got != "manually_resolved mended" {
		t.Errorf("the investigation is %s", got)
	}
	made := a.post("/plan", "kind", "purge", "id", entry, "name", "same", "canary", "").is(t, http.StatusSeeOther).header.Get("Location")
	again := a.post("/plan", "kind", "purge", "id", entry, "name", "same").is(t, http.StatusSeeOther).header.Get("Location")
	if !strings.HasPrefix(made, "/operations/") || !strings.HasPrefix(again, "/plan?") {
		t.Errorf("two operations of one name: %s and %s", made, again)
	}
	a.get(again).has(t, "notice waiting", "same")
}

// TestTwoPeopleOnOneCause: what the first has done stands, and the second is told instead of undoing it unseen.
func TestTwoPeopleOnOneCause(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	r.die(2, invalidHeaders)
	cause, letter := "/causes/"+r.group(entry), "/investigations/"+entry
	a, b := r.as(access.Admin), r.as(access.Resolve)
	who := func() string {
		return pgtest.Value[string](t, r.pool, `select coalesce(g.assignee, '-') || ', ' || coalesce(e.assignee, '-') from postrider.dlq_entry e join postrider.dlq_group g using (dlq_group_uuid) where e.dlq_entry_uuid = $1::uuid`, entry)
	}
	// Both see it unassigned, and both press Take it.
	for _, page := range []string{cause, letter} {
		a.post(page+"/change", "what", "take").is(t, http.StatusSeeOther)
		b.post(page+"/change", "what", "take").is(t, http.StatusSeeOther)
		b.get(page).has(t, "notice waiting", "ey admin took it before you")
		a.post(page+"/change", "what", "take").is(t, http.StatusSeeOther) // again, by mistake
		if notice := a.get(page).text; strings.Contains(notice, "notice waiting") {
			t.Errorf("%s: who has it is told that another person took it", page)
		}
	}
	if got := who(); got != "key admin, key admin" {
		t.Errorf("it is with %s", got)
	}
	b.post(cause+"/change", "what", "assign", "assignee", "key resolve").is(t, http.StatusSeeOther) // to give it is meant
	if got := who(); got != "key resolve, key admin" {
		t.Errorf("it is with %s", got)
	}
	// Both plan the same: the second is told of the first before anything is made.
	plan := "/plan?kind=redrive&group=" + r.group(entry)
	if text := a.get(plan).is(t, http.StatusOK).text; strings.Contains(text, "This cause has an operation already") {
		t.Error("an operation is under way before there is one")
	}
	first := a.post("/plan", "kind", "redrive", "group", r.group(entry), "name", "first", "headers", "priority: 5").is(t, http.StatusSeeOther).header.Get("Location")
	other := r.as(access.Edit)
	other.get(plan).is(t, http.StatusOK).has(t, "first", "by <bdi>key admin", "This cause has an operation already", first)
	second := other.post("/plan", "kind", "redrive", "group", r.group(entry), "name", "second", "headers", "priority: 6").is(t, http.StatusSeeOther).header.Get("Location")
	a.post(first+"/start").is(t, http.StatusSeeOther)
	other.post(first+"/start").is(t, http.StatusSeeOther) // it is started once
	a.post(first+"/pause").is(t, http.StatusSeeOther)
	other.post(first+"/abort").is(t, http.StatusSeeOther)
	a.post(first+"/resume").is(t, http.StatusSeeOther)
	a.get(first).has(t, "notice waiting", "was ended")
	other.post(second+"/abort").is(t, http.StatusSeeOther)
	// Both resolve.
	a.post(cause+"/resolve", "notes", "mended").is(t, http.StatusSeeOther)
	a.get(cause).has(t, "2 investigations are closed.")
	b.post(cause+"/resolve", "status", "cancelled", "notes", "not mended").is(t, http.StatusSeeOther)
	b.get(cause).has(t, "notice waiting", "Nothing was closed")
	if got := pgtest.Value[string](t, r.pool, `select string_agg(distinct resolution_status || ' ' || resolution_notes, ', ') from postrider.dlq_entry`); got != "manually_resolved mended" {
		t.Errorf("the investigations are %s", got)
	}
}

// TestASessionRevokedInTheMiddle: what its person started goes on, they can do nothing more, and others can.
func TestASessionRevokedInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.die(1, invalidHeaders)
	b := r.as(access.Edit)
	plan := func(name string) string {
		return b.post("/plan", "kind", "redrive", "id", entry, "name", name, "headers", "priority: 5").is(t, http.StatusSeeOther).header.Get("Location")
	}
	started, planned := plan("started"), plan("planned")
	b.post(started+"/start").is(t, http.StatusSeeOther)
	pgtest.Exec(t, r.pool, `update postrider.access_key set revoked_at = now() where access_key_id = $1`, r.ids[access.Edit])
	for _, form := range []string{planned + "/start", started + "/pause", "/plan"} {
		if to := b.post(form).is(t, http.StatusSeeOther).header.Get("Location"); !strings.HasPrefix(to, "/login?lost=true") {
			t.Errorf("%s leads a person whose session was revoked to %s", form, to)
		}
	}
	states := func() string {
		return strings.Join(pgtest.Column[string](t, r.pool, `select name || ' ' || state from postrider.dlq_operation order by name`), ", ")
	}
	if got := states(); !strings.HasPrefix(got, "planned planned, started ") || strings.HasSuffix(got, "paused") {
		t.Errorf("the operations are %s", got)
	}
	a := r.as(access.Admin)
	a.get(started).is(t, http.StatusOK).has(t, "key redrive:edit")
	a.post(started+"/pause").is(t, http.StatusSeeOther)
	if got := states(); got != "planned planned, started paused" {
		t.Errorf("after another person has halted it, the operations are %s", got)
	}
}
