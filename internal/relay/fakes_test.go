package relay

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// fakeStore is a database that does what its functions say; what has no function has nothing to do.
type fakeStore struct {
	lead    func(context.Context, string) (Leadership, error)
	letters func(context.Context, func(string) string, int) (LetterClaim, error)
	purge   func(context.Context, PurgeLimits) (Purged, error)
	backlog func(context.Context, int) (Backlog, error)
	holds   func(context.Context, int) ([]HoldCount, error)
}

func (s *fakeStore) Lead(ctx context.Context, worker string) (Leadership, error) {
	if s.lead == nil {
		return nil, nil
	}
	return s.lead(ctx, worker)
}

func (s *fakeStore) ClaimLetters(ctx context.Context, letterTopic func(string) string, limit int) (LetterClaim, error) {
	if s.letters == nil {
		return nil, nil
	}
	return s.letters(ctx, letterTopic, limit)
}

func (s *fakeStore) Purge(ctx context.Context, l PurgeLimits) (Purged, error) {
	if s.purge == nil {
		return Purged{}, nil
	}
	return s.purge(ctx, l)
}

func (s *fakeStore) Backlog(ctx context.Context, limit int) (Backlog, error) {
	if s.backlog == nil {
		return Backlog{}, nil
	}
	return s.backlog(ctx, limit)
}

func (s *fakeStore) CountHolds(ctx context.Context, limit int) ([]HoldCount, error) {
	if s.holds == nil {
		return nil, nil
	}
	return s.holds(ctx, limit)
}

// fakeLetters is a claim of exhausted events.
type fakeLetters struct {
	events    []Event
	out       LetterSettlement
	settled   int
	settleErr error
	abandoned int
}

func (c *fakeLetters) Events() []Event { return c.events }

func (c *fakeLetters) Settle(_ context.Context, s *LetterSettlement) error {
	c.out = *s
	c.settled++
	return c.settleErr
}

func (c *fakeLetters) Abandon() { c.abandoned++ }

// fakePublisher gives each message the outcome that a function says, or Delivered. It withholds the messages of a key
// behind one that did not go.
type fakePublisher struct {
	limit   int // largest value, 0 for none
	ping    func() error
	outcome func(context.Context, Message) Outcome

	mu         touching
	sent       [][]Message
	tried      []Message
	remembered []Message
}

func (p *fakePublisher) Check(m *Message, limit int) *Outcome {
	if p.limit > 0 && (limit <= 0 || limit > p.limit) {
		limit = p.limit
	}
	if limit > 0 && len(m.Value) > limit {
		return &Outcome{Class: Permanent, Code: "MESSAGE_TOO_LARGE"}
	}
	return nil
}

func (p *fakePublisher) Partition(key []byte, n int32) int32 { return partitionOf(key, n) }

// partitionOf is where the fakes and models put a key.
func partitionOf(key []byte, n int32) int32 { return int32(len(key)) % n }

func (p *fakePublisher) Publish(ctx context.Context, ms []Message) []Outcome {
	p.mu.Lock()
	p.sent = append(p.sent, slices.Clone(ms))
	p.mu.Unlock()
	out := make([]Outcome, len(ms))
	blocked := map[subject]bool{} // keys with a message that did not go
	for i := range ms {
		key := keySubject(ms[i].Topic, ms[i].Key)
		if ms[i].Key != nil && blocked[key] {
			out[i] = Outcome{Class: Withheld}
			continue
		}
		out[i] = Outcome{Class: Delivered}
		p.mu.Lock()
		p.tried = append(p.tried, ms[i])
		p.mu.Unlock()
		if p.outcome != nil {
			touch()
			out[i] = p.outcome(ctx, ms[i])
			touch()
		}
		blocked[key] = blocked[key] || out[i].Class != Delivered
	}
	return out
}

func (p *fakePublisher) Remember(ms []Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remembered = append(p.remembered, ms...)
}

// arrived are the ids of all events that were tried, in order; withheld events were not tried.
func (p *fakePublisher) arrived() (ids []int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.tried {
		if !p.tried[i].ID.Letter {
			ids = append(ids, idsOf(p.tried[i:i+1])...)
		}
	}
	return ids
}

// idsOf are the ids that the test events' ids stand for.
func idsOf(ms []Message) []int64 {
	var ids []int64
	for i := range ms {
		ids = append(ids, int64(ms[i].ID.EventID[14])<<8|int64(ms[i].ID.EventID[15]))
	}
	return ids
}

var errTest = errors.New("the cable is out")

// capturedLog returns a logger and what was logged with it.
func capturedLog() (*slog.Logger, func() string) {
	var buf logtest.Buffer
	return slog.New(slog.NewTextHandler(&buf, nil)), buf.String
}

func (p *fakePublisher) Ping(context.Context) error {
	if p.ping == nil {
		return nil
	}
	touch()
	defer touch()
	return p.ping()
}
func (*fakeLetters) Desk() string { return "" }
