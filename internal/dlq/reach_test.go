package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// TestReachOfAPlan: topics with their messages and the groups that failed, without what is left alone.
func TestReachOfAPlan(t *testing.T) {
	t.Parallel()
	retry := func(c *Candidate) { c.RetryTopic = "orders.retry" }
	p := PlanRedrive(RedriveRequest{}, nil, nil, nil, []*Candidate{record(1, retry), record(2, func(c *Candidate) { c.Group = "mail" }), record(3),
		record(4), candidate(5, func(c *Candidate) { c.Origin.Topic = "stock" }), candidate(6, func(c *Candidate) { c.UnderWay = true })})
	p.NewEvents()
	want := "orders 3 [billing mail] true, orders.retry 1 [billing] true, stock 1 [] false"
	var all []string
	for _, r := range p.Result().Reaches {
		if all = append(all, fmt.Sprint(r.Topic, " ", r.Messages, " ", r.Failed, " ", r.Again)); r.Unknown != NotAsked {
			t.Errorf("%+v", r)
		}
	}
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReachIsExplained: the sentence names the groups that get messages again.
func TestReachIsExplained(t *testing.T) {
	t.Parallel()
	many := make([]string, 23)
	for i := range many {
		many[i] = fmt.Sprintf("g%d", i)
	}
	for want, r := range map[string]Reach{
		"2 other groups read orders: a, b; they get the messages again, and an inbox recognises them by the ids that they keep": {Topic: "orders", Failed: []string{"f"}, Again: true, Others: []string{"a", "b"}},
		"1 other group reads orders: a; it gets the messages again, and an inbox recognises them by the ids that they keep":     {Topic: "orders", Failed: []string{"f"}, Again: true, Others: []string{"a"}},
		"1 group reads orders: a; it gets the messages again, and an inbox recognises them by the ids that they keep":           {Topic: "orders", Again: true, Others: []string{"a"}},
		"2 groups read orders: a, b; no group has had the messages yet":                                                         {Topic: "orders", Others: []string{"a", "b"}},
		"no other group than f is known to read orders.retry":                                                                   {Topic: "orders.retry", Failed: []string{"f"}, FailedReads: true, Again: true},
		"no consumer group is known to read left.retry":                                                                         {Topic: "left.retry", Failed: []string{"f"}, Again: true},
		"no consumer group is known to read orders":                                                                             {Topic: "orders"},
		"no consumer group is known to read orders; whether these groups read it is not known: a (coordinator away), b (no answer)": {Topic: "orders",
			Unasked: []UnaskedGroup{{"a", "coordinator away"}, {"b", "no answer"}}},
		"no consumer group is known to read orders; groups of 2 brokers that did not answer are not in this":                                                         {Topic: "orders", Unlisted: 2},
		"the topic orders does not exist; messages for it wait in the outbox until it is created, by you or by a broker that creates topics, or give another target": {Topic: "orders", Missing: true},
		"which consumer groups read orders is not known: no brokers are given; every group that reads it gets the messages":                                          {Topic: "orders", Unknown: "no brokers are given"},
	} {
		if got := r.Explain(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if got := (Reach{Topic: "orders", Failed: []string{"f"}, Again: true, Others: many}).Explain(); !strings.Contains(got, "g19 and 3 more;") || strings.Contains(got, "g20") {
		t.Error(got)
	}
}

// readers answers with groups or an error, when it is let.
type readers struct {
	reading Reading
	err     error
	asked   atomic.Int32
	let     chan struct{} // nil lets it answer at once
}

func (r *readers) Readers(ctx context.Context, _ []string) (Reading, error) {
	r.asked.Add(1)
	if _, bounded := ctx.Deadline(); !bounded {
		return Reading{}, errors.New("it may take for ever")
	}
	if r.let != nil {
		select {
		case <-r.let:
		case <-ctx.Done():
			return Reading{}, ctx.Err()
		}
	}
	return r.reading, r.err
}

// sender is a redriver that sends to one topic.
type sender struct{ Redriver }

func (sender) reach() []Reach {
	return []Reach{{Topic: "orders", Messages: 1, Failed: []string{"billing"}, Again: true, Unknown: NotAsked}}
}
func (s sender) Redrive(_ context.Context, req RedriveRequest) (Requeued, error) {
	done := Requeued{Reaches: s.reach()}
	req.Written(done)
	return done, nil
}

// silentSender is a sender that does not say when its messages are written.
type silentSender struct{ sender }

func (s silentSender) Redrive(context.Context, RedriveRequest) (Requeued, error) {
	return Requeued{Reaches: s.reach()}, nil
}

func (s sender) Preview(context.Context, RedriveRequest) (Requeued, error) {
	return Requeued{Reaches: s.reach()}, nil
}
func (s sender) PlanOperation(context.Context, NewOperation) (Operation, error) {
	return Operation{State: Planned, Reaches: s.reach()}, nil
}
func (s sender) Operation(context.Context, uuid.UUID) (Operation, error) {
	return Operation{State: Planned, Reaches: s.reach()}, nil
}

// TestReachingAsksTheBrokers: the failing group is left out of the others; what is not known is said, and fails nothing;
// brokers that do not answer are left in peace for a while.
func TestReachingAsksTheBrokers(t *testing.T) {
	t.Parallel()
	ways := map[string]func(Redriver) ([]Reach, error){
		"redrive": func(r Redriver) ([]Reach, error) {
			d, err := r.Redrive(t.Context(), RedriveRequest{})
			return d.Reaches, err
		},
		"preview": func(r Redriver) ([]Reach, error) {
			d, err := r.Preview(t.Context(), RedriveRequest{})
			return d.Reaches, err
		},
		"plan": func(r Redriver) ([]Reach, error) {
			o, err := r.PlanOperation(t.Context(), NewOperation{})
			return o.Reaches, err
		},
	}
	for way, ask := range ways {
		for want, answer := range map[string]*readers{
			"[b c] ":                                {reading: Reading{Groups: map[string][]string{"orders": {"c", "billing", "b"}, "stock": {"z"}}}},
			"[] " + ErrReadersRefused.Error():       {err: fmt.Errorf("list: %w", ErrReadersRefused)},
			"[] the brokers did not answer in time": {err: context.DeadlineExceeded},
		} {
			got, err := ask(Reaching(sender{}, answer))
			if err != nil || fmt.Sprint(got[0].Others, " ", got[0].Unknown) != want {
				t.Errorf("%s: %+v, %v; want %s", way, got, err, want)
			}
		}
		if got, err := ask(Reaching(sender{}, nil)); err != nil || got[0].Unknown != "no brokers are given" {
			t.Errorf("%s: %+v, %v", way, got, err)
		}
	}
}

// TestReachingTellsTheCaller before the brokers have answered. A redrive that is not told keeps its reaches, unasked.
func TestReachingTellsTheCaller(t *testing.T) {
	t.Parallel()
	brokers := &readers{reading: Reading{Groups: map[string][]string{"orders": {"b"}}}, let: make(chan struct{})}
	var told []Requeued
	done, err := Reaching(sender{}, brokers).Redrive(t.Context(), RedriveRequest{Written: func(written Requeued) {
		told = append(told, written)
		close(brokers.let)
	}})
	if err != nil || len(done.Reaches) != 1 || fmt.Sprint(done.Reaches[0].Others) != "[b]" {
		t.Errorf("%+v, %v", done.Reaches, err)
	}
	if len(told) != 1 || len(told[0].Reaches) != 1 || told[0].Reaches[0].Unknown != NotAsked {
		t.Errorf("told %+v", told)
	}
	done, err = Reaching(silentSender{}, brokers).Redrive(t.Context(), RedriveRequest{})
	if err != nil || len(done.Reaches) != 1 || done.Reaches[0].Unknown != NotAsked {
		t.Errorf("of one that tells nothing: %+v, %v", done.Reaches, err)
	}
}

// TestReachingAsksSeldom: questions at the same time are one, its answer is used again for some seconds, and brokers that did
// not answer or refused to are left in peace for longer: a key that may only read cannot make the desk ask at each request.
func TestReachingAsksSeldom(t *testing.T) {
	t.Parallel()
	look := func(ctx context.Context, r Redriver) Reach {
		o, err := r.Operation(ctx, uuid.Nil)
		if err != nil {
			t.Fatal(err)
		}
		return o.Reaches[0]
	}
	synctest.Test(t, func(t *testing.T) {
		brokers := &readers{reading: Reading{Groups: map[string][]string{"orders": {"a"}}}, let: make(chan struct{})}
		r := Reaching(sender{}, brokers)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if got := look(t.Context(), r); !slices.Equal(got.Others, []string{"a"}) {
					t.Errorf("%+v", got)
				}
			})
		}
		synctest.Wait()
		close(brokers.let)
		all.Wait()
		look(t.Context(), r)
		if n := brokers.asked.Load(); n != 1 {
			t.Errorf("21 looks at once asked %d times", n)
		}
		time.Sleep(readersFresh)
		if look(t.Context(), r); brokers.asked.Load() != 2 {
			t.Errorf("later: asked %d times in all, want 2", brokers.asked.Load())
		}
	})
	for why, err := range map[string]error{"the brokers could not be asked": errors.New("no broker"),
		ErrReadersRefused.Error(): fmt.Errorf("list: %w", ErrReadersRefused)} {
		synctest.Test(t, func(t *testing.T) {
			away := &readers{err: err}
			r := Reaching(sender{}, away)
			for range 3 {
				if got := look(t.Context(), r); got.Unknown != why {
					t.Errorf("%+v, want %q", got, why)
				}
			}
			if n := away.asked.Load(); n != 1 {
				t.Errorf("brokers that did not answer were asked %d times at once", n)
			}
			time.Sleep(readersPause)
			if look(t.Context(), r); away.asked.Load() != 2 {
				t.Errorf("later: asked %d times in all, want 2", away.asked.Load())
			}
		})
	}
}

// sourcesSender waits for sources for a time.
type sourcesSender struct {
	sender
	wait time.Duration
}

func (s sourcesSender) Redrive(ctx context.Context, req RedriveRequest) (Requeued, error) {
	done, err := s.sender.Redrive(ctx, req)
	time.Sleep(s.wait)
	return done, err
}

// TestReachingAsksBesideTheSources: the brokers are asked while sources are waited for, and not after that. In the bubble the longer
// of both waits is all that passes.
func TestReachingAsksBesideTheSources(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{time.Second, 2500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			done, err := Reaching(sourcesSender{wait: wait}, slowReaders(2*time.Second)).Redrive(t.Context(), RedriveRequest{})
			if took := time.Since(began); err != nil || done.Reaches[0].Unknown != "" || took != max(wait, 2*time.Second) {
				t.Errorf("%+v, %v after %v", done, err, took)
			}
		})
	}
}

// slowReaders answer after a time.
type slowReaders time.Duration

func (s slowReaders) Readers(ctx context.Context, _ []string) (Reading, error) {
	select {
	case <-time.After(time.Duration(s)):
		return Reading{}, nil
	case <-ctx.Done():
		return Reading{}, ctx.Err()
	}
}

// TestReachingWaitsAndAsksInTurn: a caller that waited for its turn has the whole time for its own question. Brokers that
// answer in time are not called silent.
func TestReachingWaitsAndAsksInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := Reaching(sender{}, slowReaders(readersTimeout-100*time.Millisecond)).(*reachingRedriver)
		var all sync.WaitGroup
		for _, topic := range []string{"orders", "invoices"} {
			all.Go(func() {
				if _, why := r.answersOf(t.Context(), []string{topic}); why != "" {
					t.Errorf("%s: %s", topic, why)
				}
			})
		}
		all.Wait()
		if _, why := r.answersOf(t.Context(), []string{"parcels"}); why != "" {
			t.Errorf("the next one: %s", why)
		}
	})
}

// TestReachingEndsWithItsCaller: a client that goes away ends its question, and that says nothing about the brokers.
func TestReachingEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		brokers := &readers{reading: Reading{Missing: []string{"orders"}}, let: make(chan struct{})}
		r := Reaching(sender{}, brokers)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		began := time.Now()
		if o, err := r.Operation(ctx, uuid.Nil); err != nil || o.Reaches[0].Unknown == "" || time.Since(began) != time.Second {
			t.Errorf("%+v, %v after %v", o.Reaches, err, time.Since(began))
		}
		close(brokers.let)
		if o, err := r.Operation(t.Context(), uuid.Nil); err != nil || o.Reaches[0].Unknown != "" || !o.Reaches[0].Missing {
			t.Errorf("the next one: %+v, %v", o.Reaches, err)
		}
	})
}
