package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestReachOfAPlan: topics with their messages and the groups that failed, without what is left alone.
func TestReachOfAPlan(t *testing.T) {
	t.Parallel()
	retry := func(c *Candidate) { c.RetryTopic = "orders.retry" }
	p := PlanRedrive(RedriveRequest{}, nil, []*Candidate{record(1, retry), record(2, func(c *Candidate) { c.Group = "mail" }), record(3),
		record(4), candidate(5, func(c *Candidate) { c.Origin.Topic = "stock" }), candidate(6, func(c *Candidate) { c.UnderWay = true })})
	p.NewEvents()
	want := "[{orders 3 [billing mail] true false [] no broker was asked} {orders.retry 1 [billing] true false [] no broker was asked} {stock 1 [] false false [] no broker was asked}]"
	if got := fmt.Sprint(p.Result().Reaches); got != want {
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
		"which consumer groups read orders is not known: no brokers are given; every group that reads it gets the messages":     {Topic: "orders", Unknown: "no brokers are given"},
	} {
		if got := r.Explain(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if got := (Reach{Topic: "orders", Failed: []string{"f"}, Again: true, Others: many}).Explain(); !strings.Contains(got, "g19 and 3 more;") || strings.Contains(got, "g20") {
		t.Error(got)
	}
}

// readers answers with groups or an error, or not at all.
type readers struct {
	groups map[string][]string
	err    error
	asked  int
}

func (r *readers) Readers(ctx context.Context, _ []string) (map[string][]string, error) {
	r.asked++
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("it may take for ever")
	}
	return r.groups, r.err
}

// sender is a redriver that sends to one topic.
type sender struct{ Redriver }

func (sender) reach() []Reach {
	return []Reach{{Topic: "orders", Messages: 1, Failed: []string{"billing"}, Again: true, Unknown: NotAsked}}
}
func (s sender) Redrive(context.Context, RedriveRequest) (Requeued, error) {
	return Requeued{Reaches: s.reach()}, nil
}
func (s sender) Preview(context.Context, RedriveRequest) (Requeued, error) {
	return Requeued{Reaches: s.reach()}, nil
}
func (s sender) PlanOperation(context.Context, NewOperation) (Operation, error) {
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
			"[b c] ":                                {groups: map[string][]string{"orders": {"c", "billing", "b"}, "stock": {"z"}}},
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
	away := &readers{err: errors.New("no broker")}
	r := Reaching(sender{}, away)
	for range 3 {
		if _, err := ways["redrive"](r); err != nil {
			t.Fatal(err)
		}
	}
	if away.asked != 1 {
		t.Errorf("brokers that did not answer were asked %d times at once", away.asked)
	}
	r.(*reachingRedriver).askAgain = time.Time{}
	if got, err := ways["redrive"](r); err != nil || away.asked != 2 || got[0].Unknown == "" {
		t.Errorf("later: asked %d times, %+v, %v", away.asked, got, err)
	}
}
