package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

const (
	// answerPatience is how long a person's request waits for the answers of sources. After that it says that they were asked.
	answerPatience = 2 * time.Second
	// answerPause is the first pause between two looks for them, and a quarter of the longest. Answers that this process notes end
	// a pause.
	answerPause = 5 * time.Millisecond
)

// sourceRequest is what a source is told of a redrive beside what the stored letter says.
type sourceRequest struct {
	MaxHops     int             `json:"max_hops"`
	Traceparent *string         `json:"traceparent,omitempty"`
	Edited      bool            `json:"edited,omitempty"`
	Payload     []byte          `json:"payload,omitempty"` // base64
	Headers     json.RawMessage `json:"headers,omitempty"`
}

// askSources asks the sources of a plan's messages to send these again, and returns the commands.
func askSources(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) ([]uuid.UUID, error) {
	const doing = "ask sources to redrive"
	if err := skipAway(ctx, tx, p); err != nil {
		return nil, err
	}
	asked := p.OfSources()
	if len(asked) == 0 {
		return nil, nil
	}
	payload, edited := p.Request.Edit.Replacement()
	requests := make([]string, len(asked))
	for i, c := range asked {
		c.NewEvent = newUUID()
		r := sourceRequest{MaxHops: cmp.Or(p.Request.MaxHops, dlq.DefaultMaxHops), Traceparent: traceparentOf(ctx), Edited: edited, Payload: payload}
		if c.Headers != nil {
			r.Headers = message.MarshalHeaders(c.Headers)
		}
		text, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		requests[i] = string(text)
	}
	type C = *dlq.Candidate
	rows, err := tx.Query(ctx, sourceAsk, nullUUID(p.Request.Operation), p.Request.Actor,
		column(asked, func(c C) uuid.UUID { return c.Entry }),
		column(asked, func(c C) string { return c.Letter }),
		column(asked, func(c C) uuid.UUID { return c.NewEvent }),
		column(asked, func(c C) string { return c.Target }),
		column(asked, p.Edited), requests)
	if err != nil {
		return nil, translate(doing, err)
	}
	commands, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return commands, translate(doing, err)
}

// skipAway skips the messages whose source is forgotten, and the ones whose source is away, unless an operation asks, or a
// person who waits: others are told so at once.
func skipAway(ctx context.Context, tx pgx.Tx, p *dlq.RedrivePlan) error {
	sources := column(p.OfSources(), func(c *dlq.Candidate) string { return c.Source })
	slices.Sort(sources)
	if sources = slices.Compact(sources); len(sources) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, sourceForgotten, sources)
	if err != nil {
		return translate("look for forgotten sources", err)
	}
	forgotten, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return translate("look for forgotten sources", err)
	}
	for _, source := range forgotten {
		p.SkipForgotten(source)
	}
	if p.Request.Operation != uuid.Nil || p.Request.Wait > 0 {
		return nil
	}
	now := time.Now()
	return eachWaiting(ctx, tx, sources, func(w dlq.WaitingCommands, busy time.Time) {
		if w.Away(busy, now) {
			p.SkipSource(w.Source, w.Oldest)
		}
	})
}

// awaitCommands has commands sent to these sources that were committed, and waits for their answers.
func (r *Redriver) awaitCommands(ctx context.Context, wait time.Duration, sources []string, commands []uuid.UUID, done *dlq.Requeued) {
	if len(commands) == 0 {
		return
	}
	noted := r.noted.next()
	if r.commanded != nil {
		r.commanded(sources)
	}
	r.awaitAnswers(ctx, wait, commands, noted, done)
}

// awaitAnswers waits for what sources answer, and puts it into the result of a redrive. Without an answer the redrive goes on: the
// result says that its source was asked. noted is closed when this process has noted answers.
func (r *Redriver) awaitAnswers(ctx context.Context, wait time.Duration, commands []uuid.UUID, noted <-chan struct{}, done *dlq.Requeued) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(wait, r.patience))
	defer cancel()
	for pause := r.pause; len(done.Asked) > 0; pause = min(2*pause, 4*r.pause) {
		select {
		case <-ctx.Done():
			return
		case <-noted:
		case <-time.After(pause):
		}
		noted = r.noted.next()
		rows, err := r.pool.Query(ctx, commandWait, commands)
		if err != nil {
			return
		}
		var entry uuid.UUID
		var answer, detail string
		if _, err := pgx.ForEachRow(rows, []any{&entry, &answer, &detail}, func() error { done.Answer(entry, answer, detail); return nil }); err != nil {
			return
		}
	}
}

// bell wakes all that wait.
type bell struct {
	mu    sync.Mutex
	rings chan struct{}
}

// next is closed when the bell rings next.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rings == nil {
		b.rings = make(chan struct{})
	}
	return b.rings
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rings != nil {
		close(b.rings)
		b.rings = nil
	}
}
