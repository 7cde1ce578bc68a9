package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// letterClaim is a transaction that holds the row locks of exhausted events. Dead letters have no
// order to keep, so they need no shard.
type letterClaim struct {
	claim
	topic  string
	events []outbox.Event
}

// ClaimLetters implements relay.Store.
func (s *Store) ClaimLetters(ctx context.Context, dlqTopic string, limit int) (_ relay.LetterClaim, err error) {
	defer s.judge(&err, false)
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	c := &letterClaim{claim: claim{store: s, conn: conn}, topic: dlqTopic}
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(claimLetters, dlqTopic, limit)
	res := conn.SendBatch(ctx, b)
	if _, err = res.Exec(); err == nil {
		var rows pgx.Rows
		if rows, err = res.Query(); err == nil {
			c.events, err = scanEvents(rows)
		}
	}
	if err = errors.Join(err, res.Close()); err != nil || len(c.events) == 0 {
		c.rollback()
		return nil, err
	}
	return c, nil
}

// Events implements relay.LetterClaim.
func (c *letterClaim) Events() []outbox.Event { return c.events }

// Settle implements relay.LetterClaim.
func (c *letterClaim) Settle(ctx context.Context, delivered []int64, hold *relay.HoldChange) (err error) {
	defer c.store.judge(&err, true)
	defer c.rollback()
	b := &pgx.Batch{}
	if len(delivered) > 0 {
		b.Queue(settleLetters, delivered)
	}
	if hold != nil {
		b.Queue(upsertHolds, holdArgs([]relay.HoldChange{*hold})...)
	} else {
		b.Queue(liftLetterHold, c.topic)
	}
	b.Queue("commit")
	return c.conn.SendBatch(ctx, b).Close()
}

// Abandon implements relay.LetterClaim.
func (c *letterClaim) Abandon() { c.rollback() }
