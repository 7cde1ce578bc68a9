package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
)

func (r *redriving) people() *Investigations {
	r.t.Helper()
	d, err := NewInvestigations(RedriverConfig{Pool: r.subject.pool, Auditor: r.audit, Exceptions: exceptions{relaypostgres.NewStore(r.subject.pool, relaypostgres.StoreOptions{})}})
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func ref[T any](v T) *T { return &v }

func TestOnlyLegalChanges(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d, entry := r.people(), r.die(1, nil)
	e, err := d.Change(t.Context(), entry, dlq.Change{Notes: ref("looking"), Assignee: ref("bob"), Metadata: json.RawMessage(`{"ticket": 7}`), Actor: "ada"})
	if err != nil || e.Status != dlq.Pending || e.ResolutionNotes != "looking" || string(e.Metadata) != `{"ticket": 7}` || e.ResolvedBy != "" {
		t.Fatalf("%+v, %v", e, err)
	}
	e, err = d.Change(t.Context(), entry, dlq.Change{Status: ref(dlq.PermanentlyFailed), Actor: "ada"})
	if err != nil || e.Status != dlq.PermanentlyFailed || e.ResolvedBy != "ada" || e.ResolvedAt.IsZero() || e.ResolutionNotes != "looking" {
		t.Fatalf("%+v, %v", e, err)
	}
	for _, status := range []dlq.Status{dlq.Pending, dlq.ManuallyResolved, dlq.Cancelled} {
		if _, err := d.Change(t.Context(), entry, dlq.Change{Status: &status, Notes: ref("x"), Actor: "ada"}); !errors.Is(err, dlq.ErrClosed) {
			t.Errorf("to %s: %v", status, err)
		}
	}
	closed := e.ResolvedAt
	e, err = d.Change(t.Context(), entry, dlq.Change{Status: ref(dlq.PermanentlyFailed), Notes: ref("known fault"), ResolvedBy: ref("carl"), Metadata: json.RawMessage(`{}`), Actor: "ada"})
	if err != nil || e.ResolutionNotes != "known fault" || e.ResolvedBy != "carl" || e.Metadata != nil || !e.ResolvedAt.Equal(closed) {
		t.Errorf("%+v, %v", e, err)
	}
	want := []string{"dlq.note entry " + entry.String(), "dlq.resolve entry " + entry.String(), "dlq.note entry " + entry.String()}
	if !slices.Equal(r.audit.actions, want) {
		t.Errorf("audit log: %q", r.audit.actions)
	}
	if _, err := d.Change(t.Context(), uuid.New(), dlq.Change{Notes: ref("x"), Actor: "ada"}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	r.audit.refuse = errors.New("disk full")
	if _, err := d.Change(t.Context(), entry, dlq.Change{Notes: ref("lost"), Actor: "ada"}); !errors.Is(err, r.audit.refuse) {
		t.Errorf("without an audit log: %v", err)
	}
	if e, err := r.investigations.Show(t.Context(), entry); err != nil || e.ResolutionNotes != "known fault" {
		t.Errorf("it was changed: %+v, %v", e, err)
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]dlq.Change{
		"no actor":       {Notes: ref("x")},
		"nothing":        {Actor: "ada"},
		"unknown status": {Status: ref(dlq.Status("open")), Actor: "ada"},
		"long notes":     {Notes: ref(strings.Repeat("x", dlq.MaxNotes+1)), Actor: "ada"},
		"NUL":            {Notes: ref("a\x00b"), Actor: "ada"},
		"not UTF-8":      {ResolvedBy: ref("a\xffb"), Actor: "ada"},
		"a list":         {Metadata: json.RawMessage(`[]`), Actor: "ada"},
		"no JSON":        {Metadata: json.RawMessage(`{`), Actor: "ada"},
		"NUL in JSON":    {Metadata: json.RawMessage(`{"a":"\u0000"}`), Actor: "ada"},
	} {
		if err := c.Check(); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	now := time.Now()
	for name, p := range map[string]dlq.Purge{
		"no actor":      {OlderThan: now, Limit: 1},
		"neither":       {Actor: "ada", Limit: 1},
		"both":          {Actor: "ada", Limit: 1, OlderThan: now, Entries: []uuid.UUID{uuid.New()}},
		"reason of ids": {Actor: "ada", Limit: 1, Filter: dlq.Filter{Word: "x"}, Entries: []uuid.UUID{uuid.New()}},
		"no limit":      {Actor: "ada", OlderThan: now},
		"too many":      {Actor: "ada", Limit: 1, Entries: []uuid.UUID{uuid.New(), uuid.New()}},
	} {
		if err := p.Check(); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPurgeRemovesAndLateCopiesOpenNothing(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	entries := r.many(4)
	if _, err := d.Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{entries[0], uuid.New()}, Limit: 10, Actor: "ada"}); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	done, err := d.Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{entries[2], entries[0], entries[2]}, Limit: 10, Actor: "ada"})
	if err != nil || done != (dlq.Purged{Entries: 2}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := r.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.Event(0, 1), dlqtest.Event(2, 1))); err != nil {
		t.Fatal(err)
	}
	if _, n, err := r.list(t.Context(), dlq.Filter{}); err != nil || n != 2 {
		t.Errorf("%d are left, %v", n, err)
	}
	if !slices.Equal(r.audit.actions, []string{"dlq.purge entry "}) {
		t.Errorf("audit log: %q", r.audit.actions)
	}
	r.audit.refuse = errors.New("disk full")
	if _, err := d.Purge(t.Context(), dlq.Purge{Entries: entries[1:2], Limit: 10, Actor: "ada"}); !errors.Is(err, r.audit.refuse) {
		t.Errorf("without an audit log: %v", err)
	}
	if _, n, err := r.list(t.Context(), dlq.Filter{}); err != nil || n != 2 {
		t.Errorf("it was purged: %d are left, %v", n, err)
	}
}

func TestPurgeByAge(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	var entries []uuid.UUID
	for i := range 6 {
		message := "Network timeout"
		if i%2 == 1 {
			message = "refused by 100% of _them_"
		}
		entries = append(entries, r.die(i, func(l *dlq.Letter) { l.ErrorMessage = message }))
		mustExec(t, r.subject.pool, `update postrider.dlq_entry set created_at = now() - $2::integer * interval '1 day' where dlq_entry_uuid = $1`, entries[i], i)
	}
	cutoff := time.Now().Add(-12 * time.Hour)
	for _, c := range []struct {
		text  string
		limit int
		want  int
	}{{"no such", 10, 0}, {"100% of", 1, 1}, {"%", 10, 2}, {"NETWORK", 10, 2}, {"", 10, 0}} {
		done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: cutoff, Filter: dlq.Filter{Message: c.text}, Limit: c.limit, Actor: "ada"})
		if err != nil || done.Entries != c.want {
			t.Errorf("%q: %+v, %v", c.text, done, err)
		}
	}
	left, _, err := r.list(t.Context(), dlq.Filter{})
	if err != nil || len(left) != 1 || left[0].UUID != entries[0] {
		t.Errorf("%+v, %v", left, err)
	}
}

// TestAReasonThatIsUsedUpIsNoText: a purge that is repeated, and an operation that is planned after it, leave alone what only
// mentions the reason. A list takes it for a text.
func TestAReasonThatIsUsedUpIsNoText(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	r.die(1, func(l *dlq.Letter) { l.ErrorCode, l.ErrorMessage = "SOLD_OUT", "x" })
	mentions := r.die(2, func(l *dlq.Letter) { l.ErrorCode, l.ErrorMessage = "OTHER", "not sold_out" })
	for _, want := range []int{1, 0} {
		done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Minute), Filter: dlq.Filter{Word: "sold_out"}, Limit: 10, Actor: "ada"})
		if err != nil || done != (dlq.Purged{Entries: want, LeftExact: true}) {
			t.Errorf("%+v, %v, want %d", done, err, want)
		}
	}
	_, err := r.PlanOperation(t.Context(), dlq.NewOperation{Kind: dlq.OpPurge, Name: "n", Actor: "ada", Scope: dlq.Scope{Filter: &dlq.Filter{Word: "sold_out"}}})
	if !errors.Is(err, dlq.ErrRequest) || !strings.Contains(fmt.Sprint(err), `the reason "sold_out"`) {
		t.Errorf("a plan: %v", err)
	}
	page, err := d.Find(t.Context(), dlq.Search{Filter: dlq.Filter{Word: "sold_out"}})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].UUID != mentions {
		t.Errorf("a list: %+v, %v", page, err)
	}
}

func TestPurgeAsksAboutKeys(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	halting, other := r.die(7, nil), r.die(3, nil)
	mustExec(t, r.subject.pool, `insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) values ('key', 'orders', 'key-0', 'halted', $1, 'infinity')`, dlqtest.EventID(7))
	if _, err := d.Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{halting, other}, Limit: 10, Actor: "ada"}); !errors.Is(err, dlq.ErrHoldsKey) || !strings.Contains(fmt.Sprint(err), halting.String()) {
		t.Errorf("%v", err)
	}
	done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now().Add(time.Hour), Limit: 10, Actor: "ada"})
	if err != nil || done != (dlq.Purged{Entries: 1, Holding: 1, Left: 1, LeftExact: true}) {
		t.Errorf("%+v, %v", done, err)
	}
	done, err = d.Purge(t.Context(), dlq.Purge{Entries: []uuid.UUID{halting}, Limit: 10, ReleaseKeys: true, Actor: "ada"})
	if err != nil || done != (dlq.Purged{Entries: 1}) {
		t.Errorf("%+v, %v", done, err)
	}
	if !r.holdOf(7) {
		t.Error("its key was not let go")
	}
}

// TestPurgeByAgeGoesOnPastWhatHoldsKeys: the oldest ones hold keys, more of them than a request may purge.
func TestPurgeByAgeGoesOnPastWhatHoldsKeys(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	entries := r.many(13)
	for i, id := range entries {
		mustExec(t, r.subject.pool, `update postrider.dlq_entry set created_at = now() - interval '10 days' + $2::integer * interval '1 hour' where dlq_entry_uuid = $1`, id, i)
	}
	mustExec(t, r.subject.pool, `with halting as (
			update postrider.outbox_exception e set key = convert_to(e.id::text, 'UTF8') from postrider.dlq_letter l
			where l.dlq_entry_uuid = any ($1) and e.id = l.outbox_id returning e.topic, e.key, e.event_id)
		insert into postrider.outbox_hold (scope, topic, key, cause, event_id, next_probe_at) select 'key', topic, key, 'halted', event_id, 'infinity' from halting`, entries[:12])
	// Ten pages of one are not enough to come to the last; seven of two are.
	for _, c := range []struct{ limit, want, holding int }{{1, 0, purgePages}, {2, 1, 12}, {10, 0, 12}} {
		done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now(), Limit: c.limit, Actor: "ada"})
		if err != nil || done.Entries != c.want || done.Holding != c.holding {
			t.Errorf("limit %d: %+v, %v", c.limit, done, err)
		}
	}
	if left, _, err := r.list(t.Context(), dlq.Filter{}); err != nil || len(left) != 12 {
		t.Errorf("%d are left, %v", len(left), err)
	}
}

// TestPurgePassesOverWhatIsInHand: an investigation that another session has locked is neither waited for nor in the
// way of the next ones.
func TestPurgePassesOverWhatIsInHand(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	entries := r.many(3)
	for i, id := range entries {
		mustExec(t, r.subject.pool, `update postrider.dlq_entry set created_at = now() - interval '10 days' + $2::integer * interval '1 hour' where dlq_entry_uuid = $1`, id, i)
	}
	tx, err := r.subject.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `select from postrider.dlq_entry where dlq_entry_uuid = $1 for update`, entries[0]); err != nil {
		t.Fatal(err)
	}
	done, err := d.Purge(t.Context(), dlq.Purge{OlderThan: time.Now(), Limit: 1, Actor: "ada"})
	if err != nil || done.Entries != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := r.investigations.Show(t.Context(), entries[0]); err != nil {
		t.Errorf("what was in hand is gone: %v", err)
	}
	if _, err := r.investigations.Show(t.Context(), entries[1]); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("the next was not purged: %v", err)
	}
}
