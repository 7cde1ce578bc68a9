package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// Status counts the events of the outbox by state, and lists up to 100 holds, oldest first. Published
// rows are not read, so it stays cheap however many are kept. It is asked by people, whose rights are not the
// relay's, so its errors do not say what the relay's do.
func (s *Store) Status(ctx context.Context) (st relay.Status, err error) {
	err = s.pool.QueryRow(ctx, readStatus).Scan(&st.Pending, &st.Due, &st.Failed, &st.Parked, &st.Scheduled,
		&st.Exhausted, &st.DeadLettered, &st.OldestDueSeconds, &st.Processing, &st.HoldCount)
	if err != nil {
		return st, fmt.Errorf("read the outbox status: %w", err)
	}
	st.Holds, err = s.Holds(ctx, HoldFilter{Limit: 100})
	return st, err
}

// HoldFilter selects holds to list.
type HoldFilter struct {
	// Topic and Cause select the holds of one topic or cause. Default to all.
	Topic string
	Cause relay.Cause
	// ID selects one hold. Defaults to all.
	ID int64
	// Limit is the most holds to return. Defaults to 100.
	Limit int
	// After is the last hold of the page before. Defaults to none.
	After *HoldPlace
}

// HoldPlace is the place of a hold in the list; it stays when the hold has ended.
type HoldPlace struct {
	HeldAt time.Time
	ID     int64
}

// PlaceOf is the place of a hold.
func PlaceOf(h relay.HoldStatus) HoldPlace { return HoldPlace{HeldAt: h.HeldAt, ID: h.ID} }

// String is the place as text, which ParseHoldPlace reads.
func (p HoldPlace) String() string {
	return p.HeldAt.UTC().Format(time.RFC3339Nano) + "_" + strconv.FormatInt(p.ID, 10)
}

// ParseHoldPlace reads what String wrote.
func ParseHoldPlace(s string) (p HoldPlace, err error) {
	at, id, _ := strings.Cut(s, "_")
	if p.HeldAt, err = time.Parse(time.RFC3339Nano, at); err == nil {
		p.ID, err = strconv.ParseInt(id, 10, 64)
	}
	if err != nil || p.HeldAt.Year() < 1 || p.HeldAt.Year() > 9999 {
		return HoldPlace{}, fmt.Errorf("%q is no place in the list of holds: it must be a time, an underscore and the number of a hold", s)
	}
	return p, nil
}

// Holds lists holds, oldest first.
func (s *Store) Holds(ctx context.Context, f HoldFilter) ([]relay.HoldStatus, error) {
	if f.Limit <= 0 {
		f.Limit = 100
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	var heldAt *time.Time
	var id, one *int64
	if f.ID != 0 {
		one = &f.ID
	}
	if f.After != nil {
		heldAt, id = &f.After.HeldAt, &f.After.ID
	}
	rows, err := s.pool.Query(ctx, listHolds, f.Limit, optional(f.Topic), optional(string(f.Cause)), heldAt, id, one)
	if err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	holds, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h relay.HoldStatus, err error) {
		var key []byte
		var outboxID *int64
		var event *uuid.UUID
		err = row.Scan(&h.ID, &h.Scope, &h.Topic, &key, &h.Partition, &h.Partitions, &h.FailureCode, &h.Cause, &h.ErrorCode, &h.Error,
			&h.HeldAt, &h.NextProbeAt,
			&h.Probes, &h.Draining, &h.Asked, &h.Parked, &event, &outboxID)
		h.Key = text(string(key))
		if event != nil {
			h.EventID = *event
		}
		if outboxID != nil {
			h.OutboxID = *outboxID
		}
		h.ErrorCategory = message.CategoryOf(string(h.Cause), h.ErrorCode)
		return h, err
	})
	if err == nil {
		err = s.countLetters(ctx, holds)
	}
	if err != nil {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	return holds, nil
}

// countLetters counts the events behind holds of dead-letter topics. The settings, and not the database, say which event
// goes to which dead-letter topic.
func (s *Store) countLetters(ctx context.Context, holds []relay.HoldStatus) error {
	behind := map[string]int64{}
	for _, h := range holds {
		if h.Scope == relay.ScopeDeadLetter {
			behind[h.Topic] = 0
		}
	}
	if len(behind) == 0 {
		return nil
	}
	rows, err := s.pool.Query(ctx, countLetters)
	if err != nil {
		return err
	}
	var topic string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&topic, &n}, func() error {
		behind[s.letterTopic(topic)] += n
		return nil
	}); err != nil {
		return err
	}
	for i := range holds {
		if h := &holds[i]; h.Scope == relay.ScopeDeadLetter {
			h.Parked = min(behind[h.Topic], holdCountLimit)
		}
	}
	return nil
}

// holdCountLimit is up to where the events behind a hold are counted.
const holdCountLimit = 100_001
