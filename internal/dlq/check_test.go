package dlq

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// check is what a request was told, and what that must say; "" is nothing.
type check struct {
	err  error
	want string
}

func all(t *testing.T, what string, list ...check) {
	t.Helper()
	for i, c := range list {
		switch {
		case c.want == "" && c.err != nil:
			t.Errorf("%s %d: %v", what, i, c.err)
		case c.want != "" && (c.err == nil || !errors.Is(c.err, ErrRequest) || !strings.Contains(c.err.Error(), c.want)):
			t.Errorf("%s %d: %v, want %q", what, i, c.err, c.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

var tooLate = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestRedriveRequests(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	ids := []uuid.UUID{a}
	all(t, "redrive",
		check{RedriveRequest{Entries: ids, Actor: "x", Target: "t", Edit: &Edit{Headers: []message.Header{{Name: "h"}}}}.Check(), ""},
		check{RedriveRequest{Actor: "x"}.Check(), "no investigation"},
		check{RedriveRequest{Entries: many(MaxRedrive), Actor: "x"}.Check(), ""},
		check{RedriveRequest{Entries: many(MaxRedrive + 1), Actor: "x"}.Check(), "10001 investigations are named, the limit is 10000; an operation"},
		check{RedriveRequest{Entries: []uuid.UUID{a, b, a}, Actor: "x"}.Check(), a.String()},
		check{RedriveRequest{Entries: ids}.Check(), "the actor is missing"},
		check{RedriveRequest{Entries: []uuid.UUID{a, b}, Actor: "x", Edit: &Edit{}}.Check(), "alone"},
		check{RedriveRequest{Entries: ids, Actor: "x", Edit: &Edit{Tombstone: true, Payload: []byte{}}}.Check(), "tombstone"},
		check{RedriveRequest{Entries: ids, Actor: "x", Target: "a b"}.Check(), "target"},
		check{RedriveRequest{Entries: ids, Actor: "x", Edit: &Edit{Headers: []message.Header{{Name: "Postrider-X"}}}}.Check(), "Postrider-X"})
}

func TestOperationsAsked(t *testing.T) {
	t.Parallel()
	good := func(change func(*NewOperation)) error {
		n := NewOperation{Kind: OpRedrive, Name: "n", Actor: "x", Scope: Scope{Filter: &Filter{}}}
		change(&n)
		return n.Check()
	}
	n := NewOperation{Kind: OpResolve, Name: "n", Actor: "x", Scope: Scope{Group: uuid.New()}}
	if err := n.Check(); err != nil || *n.Options.HaltRatio != 0.1 || *n.Options.HaltMinimum != 3 || n.Options.Status != ManuallyResolved {
		t.Errorf("%+v, %v", n.Options, err)
	}
	// Given values are kept, even the lowest that are allowed.
	n.Options.HaltRatio, n.Options.HaltMinimum = new(0.0), new(1)
	if err := n.Check(); err != nil || *n.Options.HaltRatio != 0 || *n.Options.HaltMinimum != 1 {
		t.Errorf("%+v, %v", n.Options, err)
	}
	all(t, "operation",
		check{good(func(n *NewOperation) { n.Options.Target = "t" }), ""},
		check{good(func(n *NewOperation) { n.Kind = "burn" }), "burn"},
		check{good(func(n *NewOperation) { n.Name = " " }), "name"},
		check{good(func(n *NewOperation) { n.Actor = "" }), "the actor is missing"},
		check{good(func(n *NewOperation) { n.Scope = Scope{} }), "its scope is missing"},
		check{good(func(n *NewOperation) { n.Scope.Group = uuid.New() }), "its scope has several"},
		check{good(func(n *NewOperation) { n.Options.Rate = math.NaN() }), "rate"},
		check{good(func(n *NewOperation) { n.Options.Canary = -1 }), "canary"},
		check{good(func(n *NewOperation) { n.Options.HaltRatio = new(math.NaN()) }), "halt ratio"},
		check{good(func(n *NewOperation) { n.Options.HaltRatio = new(-0.1) }), "halt ratio is -0.1"},
		check{good(func(n *NewOperation) { n.Options.HaltRatio = new(1.1) }), "halt ratio is 1.1"},
		check{good(func(n *NewOperation) { n.Options.HaltMinimum = new(-1) }), "halt minimum is -1"},
		check{good(func(n *NewOperation) { n.Options.HaltMinimum = new(0) }), "halt minimum is 0, it must be 1 or more"},
		check{good(func(n *NewOperation) { n.Kind, n.Options.Canary = OpResolve, 1 }), "only redriving"},
		check{good(func(n *NewOperation) { n.Options.ReleaseKeys = true }), "release_keys"},
		check{good(func(n *NewOperation) { n.Options.Notes = "x" }), "go with closing"},
		check{good(func(n *NewOperation) { n.Kind, n.Options.Status = OpResolve, Pending }), "pending"},
		check{good(func(n *NewOperation) { n.Kind, n.Options.Notes = OpResolve, "a\x00b" }), "notes"},
		check{good(func(n *NewOperation) { n.Reason = strings.Repeat("n", 2<<20) }), "reason has 2097152 bytes"},
		check{good(func(n *NewOperation) { n.Reason = "\xff" }), "reason"},
		check{good(func(n *NewOperation) { n.Options.Target = "a b" }), "target"})
}

func TestStatesOfOperations(t *testing.T) {
	t.Parallel()
	states := []OperationState{Planned, Canary, Running, Paused, Halted, Aborted, Completed}
	want := map[Command]map[OperationState]OperationState{
		Start:    {Planned: Running, Canary: Canary, Running: Running},
		Resume:   {Paused: Running, Halted: Running, Canary: Canary, Running: Running},
		Pause:    {Canary: Paused, Running: Paused, Paused: Paused},
		Withdraw: {Planned: Aborted},
		Abort:    {Planned: Aborted, Canary: Aborted, Running: Aborted, Paused: Aborted, Halted: Aborted, Aborted: Aborted},
	}
	for c, allowed := range want {
		for _, s := range states {
			next, err := s.Next(c, false)
			if to, ok := allowed[s]; ok != (err == nil) || ok && next != to || !ok && (!errors.Is(err, ErrState) || next != s || s.Ended() != strings.Contains(err.Error(), "it has ended")) {
				t.Errorf("%s of a %s one: %s, %v", c, s, next, err)
			}
		}
	}
	if Withdraw.Action() != Abort.Action() || Pause.Action() != "operation.pause" {
		t.Errorf("the audit log has %s and %s", Withdraw.Action(), Pause.Action())
	}
	if next, err := Planned.Next(Start, true); next != Canary || err != nil {
		t.Errorf("with a canary: %s, %v", next, err)
	}
	for _, s := range states {
		if s.Ended() != (s == Aborted || s == Completed) {
			t.Errorf("%s has ended: %v", s, s.Ended())
		}
	}
}

func TestSkipsAreExplained(t *testing.T) {
	t.Parallel()
	for _, r := range SkipReasons() {
		if text := r.Explain(); text == string(r) || text == "" {
			t.Errorf("%s: %q", r, text)
		}
	}
	if SkipReason("new").Explain() != "new" {
		t.Error("one that is not known is not itself")
	}
}

// many are n ids.
func many(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	return ids
}

func TestChangesAsked(t *testing.T) {
	t.Parallel()
	all(t, "change",
		check{Change{Actor: "x", Status: ptr(Cancelled), Notes: ptr("n"), Metadata: json.RawMessage(`{"a":1}`)}.Check(), ""},
		check{Change{Actor: "x", Metadata: json.RawMessage(`{}`)}.Check(), ""},
		check{Change{Actor: "x", Metadata: json.RawMessage(`null`)}.Check(), "metadata"},
		check{Change{Notes: ptr("n")}.Check(), "the actor is missing"},
		// A long text is not called wrong in any other way.
		check{Change{Actor: "x", Notes: ptr(strings.Repeat("n", 2<<20))}.Check(), "resolution_notes has 2097152 bytes; it must have at most 16384"},
		check{Change{Actor: "x", Notes: ptr("\xff")}.Check(), "resolution_notes must be UTF-8 text without NUL characters"},
		check{Change{Actor: "x"}.Check(), "nothing"},
		check{Change{Actor: "x", Status: ptr(Status("open"))}.Check(), "open"},
		check{Change{Actor: "x", Metadata: json.RawMessage(`[`)}.Check(), "metadata"},
		check{Change{Actor: "x", Metadata: json.RawMessage(`[]`)}.Check(), "metadata"},
		check{Change{Actor: "x", Assignee: ptr(strings.Repeat("x", MaxName+1))}.Check(), "assignee"})
	id := []uuid.UUID{uuid.New()}
	now := time.Now()
	all(t, "purge",
		check{Purge{Actor: "x", Entries: id, Limit: 1}.Check(), ""},
		check{Purge{Actor: "x", OlderThan: now, Filter: Filter{Word: "r"}, Limit: 1}.Check(), ""},
		check{Purge{Entries: id, Limit: 1}.Check(), "the actor is missing"},
		check{Purge{Actor: "x", Limit: 1}.Check(), "either"},
		check{Purge{Actor: "x", Entries: id, OlderThan: now, Limit: 1}.Check(), "either"},
		check{Purge{Actor: "x", Entries: id, Filter: Filter{Word: "r"}, Limit: 1}.Check(), "a filter goes with older_than"},
		check{Purge{Actor: "x", OlderThan: now}.Check(), "limit"},
		check{Purge{Actor: "x", OlderThan: now, Limit: MaxPurge}.Check(), ""},
		check{Purge{Actor: "x", OlderThan: now, Limit: MaxPurge + 1}.Check(), "1 to 10000; an operation of the kind purge"},
		check{Purge{Actor: "x", Entries: append(id, uuid.New()), Limit: 1}.Check(), "2 ids"})
	all(t, "reveal",
		check{RevealRequest{Actor: "x", Entry: id[0]}.Check(), ""},
		check{RevealRequest{Entry: id[0]}.Check(), "the actor is missing"},
		check{RevealRequest{Actor: "x"}.Check(), "no investigation"},
		check{RevealRequest{Actor: "x", Entry: id[0], LetterID: "\x00"}.Check(), "letter_id"},
		check{RevealRequest{Actor: "x", Entry: id[0], Reason: "\x00"}.Check(), "reason"})
}

func TestGroupsAsked(t *testing.T) {
	t.Parallel()
	s := GroupSearch{}
	if err := s.Check(); err != nil || s.OrderBy != GroupsByLastSeen || s.Limit != DefaultLimit {
		t.Errorf("%+v, %v", s, err)
	}
	all(t, "groups",
		check{(&GroupSearch{State: GroupMuted, OrderBy: GroupsByTotal, Limit: MaxLimit}).Check(), ""},
		check{(&GroupSearch{State: "old"}).Check(), "old"},
		check{(&GroupSearch{OrderBy: "name"}).Check(), "name"},
		check{(&GroupSearch{Limit: -1}).Check(), "limit"},
		check{(&GroupSearch{Text: "\xff"}).Check(), "filter"})
	all(t, "group change",
		check{GroupChange{Actor: "x", Note: ptr("n"), Assignee: ptr(""), Muted: ptr(true), MutedUntil: time.Now().UTC()}.Check(), ""},
		check{GroupChange{Note: ptr("n")}.Check(), "the actor is missing"},
		check{GroupChange{Actor: "x"}.Check(), "nothing"},
		check{GroupChange{Actor: "x", Note: ptr("n"), MutedUntil: time.Now()}.Check(), "muted_until"},
		check{GroupChange{Actor: "x", Muted: ptr(true), MutedUntil: tooLate}.Check(), "9999"},
		check{GroupChange{Actor: "x", Note: ptr("\x00")}.Check(), "note"},
		check{GroupChange{Actor: "x", Assignee: ptr("\x00")}.Check(), "assignee"})
	r := GroupResolution{Actor: "x"}
	if err := r.Check(); err != nil || r.Status != ManuallyResolved || r.ResolvedBy != "x" {
		t.Errorf("%+v, %v", r, err)
	}
	all(t, "group resolution",
		check{(&GroupResolution{}).Check(), "the actor is missing"},
		check{(&GroupResolution{Actor: "x", Status: Pending}).Check(), "pending"},
		check{(&GroupResolution{Actor: "x", Until: tooLate}).Check(), "9999"},
		check{(&GroupResolution{Actor: "x", Notes: "\x00"}).Check(), "resolution_notes"},
		check{(&GroupResolution{Actor: "x", ResolvedBy: "\x00"}).Check(), "resolved_by"})
	if !slices.Contains(GroupOrders(), s.OrderBy) {
		t.Error("the default order is none")
	}
}

func TestSearchesAsked(t *testing.T) {
	t.Parallel()
	s := Search{}
	if err := s.Check(); err != nil || s.OrderBy != ByCreated || s.Filter.Limit != DefaultLimit {
		t.Errorf("%+v, %v", s, err)
	}
	now := time.Now()
	of := func(f Filter) error { return (&Search{Filter: f}).Check() }
	all(t, "search",
		check{of(Filter{Status: "open"}), "open"},
		check{of(Filter{Reason: "bad luck"}), "bad luck"},
		check{of(Filter{Limit: MaxLimit + 1}), "limit"},
		check{of(Filter{Offset: -1}), "offset"},
		check{(&Search{Filter: Filter{Offset: 1}, After: "x"}).Check(), "either"},
		check{(&Search{OrderBy: "name"}).Check(), "name"},
		check{of(Filter{From: now, To: now.Add(-1)}), "after to"},
		check{of(Filter{To: tooLate}), "9999"},
		check{of(Filter{Message: "\xff"}), "text"})
}
