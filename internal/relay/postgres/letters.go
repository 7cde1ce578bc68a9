package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/relay"
)

// letterClaim is a transaction that holds the row locks of exhausted events. Dead letters have no order to keep, so any
// relay may send them.
type letterClaim struct {
	store  *Store
	conn   *pgxpool.Conn
	events []relay.Event
	desk   string
}

// rollback ends the transaction, if it is not ended, and gives the connection back.
func (c *letterClaim) rollback() {
	if c.conn == nil {
		return
	}
	if c.conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
		defer cancel()
		if _, err := c.conn.Exec(ctx, "rollback"); err != nil {
			_ = c.conn.Conn().Close(ctx)
		}
	}
	c.conn.Release()
	c.conn = nil
}

// ClaimLetters implements relay.Store.
func (s *Store) ClaimLetters(ctx context.Context, letterTopic func(string) string, limit int) (_ relay.LetterClaim, err error) {
	defer s.asStoreError(&err, false)
	topics, err := s.letterTopics(ctx, letterTopic)
	if err != nil {
		return nil, fmt.Errorf("find the topics of dead letters: %w", err)
	}
	if len(topics) == 0 {
		return nil, nil
	}
	if len(topics) > limit {
		// The other topics come another time: the letters of the first ones are done then, or postponed, or held.
		rand.Shuffle(len(topics), func(i, k int) { topics[i], topics[k] = topics[k], topics[i] })
		topics = topics[:limit]
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	c := &letterClaim{store: s, conn: conn}
	b := &pgx.Batch{}
	begins := queueBegin(b, conn.Conn())
	b.Queue(claimLetters, topics, max(limit/len(topics), 1), micros(relay.LongestLetterPause+time.Minute))
	b.Queue(letterDesk)
	res := conn.SendBatch(ctx, b)
	if err = begun(res, begins); err == nil {
		var rows pgx.Rows
		if rows, err = res.Query(); err == nil {
			c.events, err = scanEvents(rows)
		}
	}
	if err == nil && len(c.events) > 0 {
		err = res.QueryRow().Scan(&c.desk)
	}
	if err = errors.Join(err, res.Close()); err != nil || len(c.events) == 0 {
		c.rollback()
		return nil, err
	}
	return c, nil
}

// letterTopics returns the topics that have exhausted events to send and whose dead-letter topic is not held.
func (s *Store) letterTopics(ctx context.Context, letterTopic func(string) string) ([]string, error) {
	rows, err := s.pool.Query(ctx, letterTopics, micros(relay.LongestLetterPause+time.Minute))
	if err != nil {
		return nil, err
	}
	var waiting []string
	held := map[string]bool{}
	var topic string
	var isHeld bool
	_, err = pgx.ForEachRow(rows, []any{&topic, &isHeld}, func() error {
		if isHeld {
			held[topic] = true
		} else {
			waiting = append(waiting, topic)
		}
		return nil
	})
	return slices.DeleteFunc(waiting, func(t string) bool { return held[letterTopic(t)] }), err
}

// Events implements relay.LetterClaim.
func (c *letterClaim) Events() []relay.Event { return c.events }

// Desk implements relay.LetterClaim.
func (c *letterClaim) Desk() string { return c.desk }

// Settle implements relay.LetterClaim.
func (c *letterClaim) Settle(ctx context.Context, s *relay.LetterSettlement) (err error) {
	defer c.store.asStoreError(&err, true)
	defer c.rollback()
	b := &pgx.Batch{}
	if len(s.Delivered) > 0 {
		b.Queue(settleLetters, s.Delivered)
	}
	if len(s.Postponed) > 0 {
		b.Queue(postponeLetters, s.Postponed, micros(s.PostponeFor))
	}
	if len(s.Holds) > 0 {
		holds := slices.Clone(s.Holds)
		for i := range holds {
			holds[i].New = true // or it is renewed
		}
		put, _ := holdColumns(holds)
		b.Queue(upsertHolds, put.args()[1:]...)
	}
	if len(s.Lifted) > 0 {
		b.Queue(liftLetterHolds, s.Lifted)
	}
	b.Queue("commit")
	return c.conn.SendBatch(ctx, b).Close()
}

// Abandon implements relay.LetterClaim.
func (c *letterClaim) Abandon() { c.rollback() }

// Values of outbox_event.kind that say what Postrider itself wrote.
const (
	kindTask    = "task"
	kindRedrive = "redrive"
)

// scanEvents reads whole events.
func scanEvents(rows pgx.Rows) ([]relay.Event, error) {
	defer rows.Close()
	var events []relay.Event
	for rows.Next() {
		var e relay.Event
		var first, last, timestamp *time.Time
		var task *uuid.UUID
		var kind string
		if err := rows.Scan(&e.ID, &e.EventID, &e.Topic, &e.Key, &e.Payload, &e.Headers, &e.Attempts,
			&e.MaxAttempts, &e.Episode, &e.CreatedAt, &first, &last,
			&e.LastErrorClass, &e.LastErrorCode, &e.LastError, &task, &kind, &e.Partition, &timestamp); err != nil {
			return nil, err
		}
		e.OfTask, e.Redriven = kind == kindTask, kind == kindRedrive
		if timestamp != nil {
			e.Timestamp = *timestamp
		}
		if first != nil {
			e.FirstErrorAt = *first
		}
		if last != nil {
			e.LastErrorAt = *last
		}
		if task != nil {
			e.TaskUUID = *task
		}
		events = append(events, e)
	}
	return events, rows.Err()
}
