package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/relay"
)

var (
	listEvents     = query("list_events")
	listTaskEvents = query("list_task_events")
	findEvent      = query("find_event")
	readEventBytes = query("read_event_bytes")
)

// eventWalk is how many events are looked at for one page.
const eventWalk = 20_000

// Events lists events, the newest first. One event, and the events of a task, are found at once; for other filters
// Events looks through all newer events, page by page.
func (s *Store) Events(ctx context.Context, f relay.EventFilter) (relay.EventPage, error) {
	if f.EventID != uuid.Nil && f.Before == 0 {
		var id *int64
		if err := s.pool.QueryRow(ctx, findEvent, f.EventID).Scan(&id); err != nil {
			return relay.EventPage{}, fmt.Errorf("list events: %w", err)
		}
		if id == nil {
			return relay.EventPage{}, nil
		}
		f.Before, f.Limit = *id+1, 1
		page, err := s.events(ctx, f, id)
		page.Next = 0 // there is no other
		return page, err
	}
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}
	if f.Limit < 1 {
		f.Limit = 25
	}
	return s.events(ctx, f, nil)
}

// Event returns one event. An unknown id is an error that wraps ErrNotFound.
func (s *Store) Event(ctx context.Context, id int64) (relay.EventStatus, error) {
	if id < math.MaxInt64 {
		page, err := s.events(ctx, relay.EventFilter{Before: id + 1, Limit: 1}, &id)
		if err != nil || len(page.Events) == 1 {
			return first(page.Events), err
		}
	}
	return relay.EventStatus{}, fmt.Errorf("event %d: %w", id, ErrNotFound)
}

func first(events []relay.EventStatus) relay.EventStatus {
	if len(events) == 0 {
		return relay.EventStatus{}
	}
	return events[0]
}

func (s *Store) events(ctx context.Context, f relay.EventFilter, id *int64) (page relay.EventPage, err error) {
	walk := eventWalk
	switch {
	case id != nil:
		walk = 1
	case f.Status == "" && f.Topic == "" && f.EventID == uuid.Nil && f.TaskUUID == uuid.Nil: // each one is shown
		walk = f.Limit
	}
	list := listEvents
	if f.TaskUUID != uuid.Nil && id == nil {
		list = listTaskEvents
	}
	rows, err := s.pool.Query(ctx, list, f.Before, f.Status, f.Topic, orNoUUID(f.EventID), orNoUUID(f.TaskUUID), id, f.Limit, walk)
	if err != nil {
		return page, fmt.Errorf("list events: %w", err)
	}
	defer rows.Close()
	var reached int64
	var more bool
	for rows.Next() {
		var e relay.EventStatus
		var found *int64
		var key []byte
		var event *uuid.UUID
		var kind, topic, status, state *string
		var attempts, episode *int
		var created, available, updated pgtype.Timestamptz
		err := rows.Scan(&reached, &more, &found, &event, &kind, &topic, &key, &status, &state, &attempts, &e.MaxAttempts, &episode,
			&e.LastErrorClass, &e.LastErrorCode, &e.LastErrorMessage, &created, &available, &e.NextAttemptAt, &e.SentAt,
			&e.FirstErrorAt, &e.LastErrorAt, &updated, &e.IdempotencyKey, &e.TaskUUID, &e.HoldID, &e.PayloadBytes, &e.LockedBy, &e.LockedAt)
		if err != nil {
			return page, fmt.Errorf("list events: %w", err)
		}
		if found == nil { // only how far it came
			continue
		}
		e.ID, e.EventID, e.Kind, e.Topic, e.Status, e.State = *found, *event, *kind, *topic, *status, *state
		e.Attempts, e.Episode, e.CreatedAt, e.AvailableAt, e.UpdatedAt = *attempts, *episode, created.Time, available.Time, updated.Time
		if key != nil {
			shown := text(string(key))
			e.Key = &shown
		}
		page.Events = append(page.Events, e)
	}
	if err := rows.Err(); err != nil {
		return page, fmt.Errorf("list events: %w", err)
	}
	switch {
	case len(page.Events) == f.Limit:
		page.Next = page.Events[len(page.Events)-1].ID
	case more:
		page.Next = reached
	}
	return page, nil
}

// EventBytes returns what an event carries. An unknown id is an error that wraps ErrNotFound.
func (s *Store) EventBytes(ctx context.Context, id int64) (b relay.EventBytes, err error) {
	err = s.pool.QueryRow(ctx, readEventBytes, id).Scan(&b.EventID, &b.Key, &b.Payload, &b.Headers)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, fmt.Errorf("event %d: %w", id, ErrNotFound)
	}
	return b, err
}

func orNoUUID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
