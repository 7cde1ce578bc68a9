package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// letterbox has letters that point to records, and what was stored of them.
type letterbox struct {
	letters []dlq.Letter
	err     error

	completed []dlq.Letter
	actors    []string
}

func (p *letterbox) Pointing(_ context.Context, entries []uuid.UUID) (some []dlq.Letter, err error) {
	for _, l := range p.letters {
		if slices.Contains(entries, l.EntryUUID) {
			some = append(some, l)
		}
	}
	return some, p.err
}

func (p *letterbox) PointingNext(context.Context, int) ([]dlq.Letter, error) {
	return slices.Clone(p.letters), p.err
}

func (p *letterbox) Complete(_ context.Context, letters []dlq.Letter, actor string) error {
	p.completed, p.actors = append(p.completed, letters...), append(p.actors, actor)
	return nil
}

// redriver is a Redriver and Operations that count.
type redriver struct {
	dlq.Redriver
	dlq.Operations
	redriven, steps int
}

func (r *redriver) Redrive(context.Context, dlq.RedriveRequest) (dlq.Requeued, error) {
	r.redriven++
	return dlq.Requeued{}, nil
}

func (r *redriver) Step(context.Context) (int, time.Duration, error) {
	r.steps++
	return 0, -1, nil
}

// originalOf answers what it has for a place, and otherwise nothing.
type originalOf map[dlq.Place]dlq.Original

func (o originalOf) Fetch(_ context.Context, places []dlq.Place) (all []dlq.Original) {
	for _, p := range places {
		answer, there := o[p]
		if !there {
			answer = dlq.Original{State: dlq.OriginalUnanswered, Retention: -1, Err: errors.New("no broker")}
		}
		all = append(all, answer)
	}
	return all
}

func pointing(offset int64) dlq.Letter {
	l := dlq.Decode(pointerTo(offset, "share group"))
	l.EntryUUID = uuid.New()
	return l
}

func newFetcher(t *testing.T, p dlq.Pointers, o dlq.Originals) *dlq.Fetcher {
	t.Helper()
	f, err := dlq.NewFetcher(dlq.FetcherConfig{Pointers: p, Originals: o})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFetch: each investigation has an answer in its place, also one that needs none, and what was read is stored.
func TestFetch(t *testing.T) {
	t.Parallel()
	there, gone := pointing(1), pointing(2)
	at := func(l dlq.Letter) dlq.Place {
		return dlq.Place{Topic: l.OriginTopic, Partition: *l.OriginPartition, Offset: *l.OriginOffset}
	}
	p := &letterbox{letters: []dlq.Letter{there, gone}}
	f := newFetcher(t, p, originalOf{
		at(there): {State: dlq.OriginalFetched, Key: []byte("k"), Value: []byte("v"), Timestamp: time.Now(), Retention: time.Hour},
		at(gone):  {State: dlq.OriginalDeleted, Retention: -1}})
	whole := uuid.New()
	got, err := f.Fetch(t.Context(), []uuid.UUID{gone.EntryUUID, whole, there.EntryUUID}, "anna")
	if err != nil || len(got) != 3 || got[0].State != dlq.OriginalDeleted || got[1].Letter != "" || got[1].Entry != whole || got[2].State != dlq.OriginalFetched || got[2].GoneAt.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(p.completed) != 2 || string(p.completed[0].Payload) != "v" || p.completed[1].OriginalRecord != dlq.OriginalDeleted || !slices.Equal(p.actors, []string{"anna"}) {
		t.Errorf("stored %+v by %v", p.completed, p.actors)
	}
	if got, err := f.Fetch(t.Context(), []uuid.UUID{whole}, "anna"); err != nil || len(p.actors) != 1 {
		t.Errorf("nothing points: %+v, %v, stored by %v", got, err, p.actors)
	}
	p.err = dlq.ErrNotFound
	if _, err := f.Fetch(t.Context(), []uuid.UUID{whole}, "anna"); !errors.Is(err, dlq.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
}

// TestFetchedExplains: each state says what it means, whether it can change, and where.
func TestFetchedExplains(t *testing.T) {
	t.Parallel()
	seen := map[string]dlq.OriginalState{}
	for _, state := range dlq.OriginalStates() {
		text := dlq.Fetched{Letter: "l", Place: dlq.Place{Topic: "orders", Partition: 3, Offset: 7}, State: state, GoneAt: time.Now()}.Explain()
		if !strings.Contains(text, "orders") || state.Passing() != strings.HasPrefix(text, "not yet") || seen[text] != "" {
			t.Errorf("%s: %q, as %s", state, text, seen[text])
		}
		seen[text] = state
	}
	if text := (dlq.Fetched{}).Explain(); !strings.HasPrefix(text, "nothing to fetch") {
		t.Errorf("no letter: %q", text)
	}
}

// TestFetchBeforeSending: redrives and operations ask first where that may help; while brokers do not answer they do not
// ask again and again; and nothing that fails keeps them.
func TestFetchBeforeSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away, gone := pointing(1), pointing(2)
		gone.OriginalRecord = dlq.OriginalDeleted
		p := &letterbox{letters: []dlq.Letter{away, gone}}
		f, to := newFetcher(t, p, originalOf{}), &redriver{}
		redrive, step := f.Redriver(to), f.Operations(to)
		send := func() {
			if _, err := redrive.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{away.EntryUUID, gone.EntryUUID}, Actor: "anna"}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := step.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		send()
		if len(p.completed) != 1 || p.completed[0].ID != away.ID || p.completed[0].OriginalRecord != dlq.OriginalUnanswered {
			t.Errorf("asked for %+v", p.completed)
		}
		time.Sleep(31 * time.Second)
		send()
		p.err = errors.New("the database is away")
		time.Sleep(31 * time.Second)
		send()
		if fmt.Sprint(p.actors) != "[anna anna]" || to.redriven != 3 || to.steps != 3 {
			t.Errorf("asked for %v; %d redrives, %d steps", p.actors, to.redriven, to.steps)
		}
		if _, err := redrive.Redrive(t.Context(), dlq.RedriveRequest{}); err != nil || to.redriven != 4 { // refused further on
			t.Errorf("a wrong request: %v, %d redrives", err, to.redriven)
		}
	})
}

// portions counts how many records are asked for at once; brokers are away from some call on.
type portions struct {
	asked []int
	until int
}

func (o *portions) Fetch(_ context.Context, places []dlq.Place) []dlq.Original {
	o.asked = append(o.asked, len(places))
	if len(o.asked) > o.until {
		return slices.Repeat([]dlq.Original{{State: dlq.OriginalUnanswered, Retention: -1}}, len(places))
	}
	return slices.Repeat([]dlq.Original{{State: dlq.OriginalDeleted, Retention: -1}}, len(places))
}

// pointingTo is a letterbox of letters that point to as many records of one partition, and their investigations.
func pointingTo(records int64) (p *letterbox, entries []uuid.UUID) {
	p = &letterbox{}
	for n := range records {
		l := pointing(1)
		l.OriginOffset = &n
		p.letters, entries = append(p.letters, l), append(entries, l.EntryUUID)
	}
	return p, entries
}

// TestManyAreFetchedInPortions: the memory used at once is bounded, and brokers that are away are not waited for again
// and again.
func TestManyAreFetchedInPortions(t *testing.T) {
	t.Parallel()
	for until, want := range map[int]struct {
		asked         []int
		gone, waiting int
	}{9: {[]int{200, 200, 50}, 450, 0}, 1: {[]int{200, 200}, 200, 250}, 0: {[]int{200}, 0, 450}} {
		p, entries := pointingTo(450)
		o := &portions{until: until}
		got, err := newFetcher(t, p, o).Fetch(t.Context(), entries, "anna")
		states := map[dlq.OriginalState]int{}
		for i, f := range got {
			if states[f.State]++; f.Entry != entries[i] || f.Letter == "" || f.Place.Offset != int64(i) {
				t.Fatalf("%d: %+v", i, f)
			}
		}
		if err != nil || !slices.Equal(o.asked, want.asked) || states[dlq.OriginalDeleted] != want.gone || states[dlq.OriginalUnanswered] != want.waiting || len(got) != 450 {
			t.Errorf("brokers away after %d: asked for %v, %v, %v", until, o.asked, states, err)
		}
		if len(p.actors) != len(want.asked) {
			t.Errorf("stored in %d portions, want %d", len(p.actors), len(want.asked))
		}
	}
}

// refusing may read one record and not the others, and brokers answer.
type refusing struct{ asked int }

func (r *refusing) Fetch(_ context.Context, places []dlq.Place) []dlq.Original {
	r.asked += len(places)
	all := make([]dlq.Original, len(places))
	for i := range all {
		if all[i].State = dlq.OriginalRefused; places[i].Offset == 449 {
			all[i].State = dlq.OriginalDeleted
		}
	}
	return all
}

// TestWhatMayNotBeReadHidesNothing: a whole portion that the login may not read is no reason not to ask for the rest.
func TestWhatMayNotBeReadHidesNothing(t *testing.T) {
	t.Parallel()
	p, entries := pointingTo(450)
	o := &refusing{}
	got, err := newFetcher(t, p, o).Fetch(t.Context(), entries, "anna")
	if err != nil || o.asked != 450 || got[449].State != dlq.OriginalDeleted || got[0].State != dlq.OriginalRefused {
		t.Errorf("asked for %d, the last is %+v, %v", o.asked, got[449], err)
	}
}

func TestFetcherConfig(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]dlq.FetcherConfig{
		"required": {}, "negative": {Pointers: &letterbox{}, Originals: originalOf{}, Timeout: -1},
	} {
		if _, err := dlq.NewFetcher(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestTopicsOf(t *testing.T) {
	t.Parallel()
	if got := dlq.TopicsOf([]dlq.Place{{Topic: "b"}, {Topic: "a"}, {Topic: "b", Offset: 1}}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("topics %v", got)
	}
}
