package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/relay"
)

var (
	listEvents       = query("list_events")
	listTaskEvents   = query("list_task_events")
	findEvent        = query("find_event")
	readEventBytes   = query("read_event_bytes")
	readEventHeaders = query("read_event_headers")
)

// oldestFirst turns the order of a list of events.
var oldestFirst = strings.NewReplacer("desc/*way*/", "asc", "</*way*/", ">", ">=/*way*/", "<=", "min/*way*/", "max")

// outOfOrder is by how much the time of an event may be off from the times of its neighbours in the log: clocks of servers differ
// after a failover, and ids are drawn before the row is written.
const outOfOrder = time.Hour

// eventWalk is how many events are looked at for one page.
const eventWalk = 20_000

// Events lists events. One event, and the events of a task or behind a hold, are found at once; for other filters Events looks
// through all events, page by page, and through exceptions alone where no other event can fit.
func (s *Store) Events(ctx context.Context, f relay.EventFilter) (relay.EventPage, error) {
	if f.EventID != uuid.Nil && f.After == 0 {
		var id *int64
		if err := s.pool.QueryRow(ctx, findEvent, f.EventID).Scan(&id); err != nil {
			return relay.EventPage{}, fmt.Errorf("list events: %w", err)
		}
		if id == nil {
			return relay.EventPage{}, nil
		}
		f.After, f.Limit, f.OldestFirst = *id+1, 1, false
		page, err := s.events(ctx, f, id)
		page.Next = 0 // there is no other
		return page, err
	}
	if f.After == 0 && !f.OldestFirst {
		f.After = math.MaxInt64
	}
	if f.Limit < 1 {
		f.Limit = 25
	}
	return s.events(ctx, f, nil)
}

// Event returns one event. An unknown id is an error that wraps ErrNotFound.
func (s *Store) Event(ctx context.Context, id int64) (relay.EventStatus, error) {
	if id < math.MaxInt64 {
		page, err := s.events(ctx, relay.EventFilter{After: id + 1, Limit: 1}, &id)
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
	case selectsAll(f): // each one is shown
		walk = f.Limit
	}
	past := f.From.Add(-outOfOrder)
	if f.OldestFirst {
		past = f.To.Add(outOfOrder)
	}
	args := []any{f.After, f.Status, f.Topic, orNoUUID(f.EventID), orNoUUID(f.TaskUUID), id, f.Limit, walk,
		f.State, f.Key, f.ErrorCode, orNothing(f.HoldID), written(f), bound(past, f)}
	list := listTaskEvents
	if f.TaskUUID == uuid.Nil || id != nil {
		list, args = listEvents, append(args, onlyExceptions(f))
	}
	if f.OldestFirst {
		list = oldestFirst.Replace(list)
	}
	rows, err := s.pool.Query(ctx, list, args...)
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

// selectsAll reports whether a filter selects every event.
func selectsAll(f relay.EventFilter) bool {
	return f.Status == "" && f.State == "" && f.Topic == "" && f.ErrorCode == "" && f.EventID == uuid.Nil && f.TaskUUID == uuid.Nil &&
		f.Key == nil && f.HoldID == 0 && f.From.IsZero() && f.To.IsZero()
}

// onlyExceptions reports whether only exceptions can fit: all other events are pending or published, and have not failed.
func onlyExceptions(f relay.EventFilter) bool {
	return f.ErrorCode != "" || f.HoldID != 0 || f.Status == "failed" || f.Status == "dead_lettered" || f.Status == "processing" ||
		f.State != "" && f.State != "pending" && f.State != "published"
}

// written is when the events of a filter were written; null for any time.
func written(f relay.EventFilter) pgtype.Range[pgtype.Timestamptz] {
	if f.From.IsZero() && f.To.IsZero() {
		return pgtype.Range[pgtype.Timestamptz]{}
	}
	at := func(t time.Time) (pgtype.Timestamptz, pgtype.BoundType) {
		if t.IsZero() {
			return pgtype.Timestamptz{}, pgtype.Unbounded
		}
		return pgtype.Timestamptz{Time: t, Valid: true}, pgtype.Inclusive
	}
	r := pgtype.Range[pgtype.Timestamptz]{Valid: true}
	r.Lower, r.LowerType = at(f.From)
	r.Upper, r.UpperType = at(f.To)
	return r
}

// bound is the time past which a list ends; null where its filter has none on that side.
func bound(past time.Time, f relay.EventFilter) pgtype.Timestamptz {
	side := f.From
	if f.OldestFirst {
		side = f.To
	}
	return pgtype.Timestamptz{Time: past, Valid: !side.IsZero()}
}

func orNothing(id int64) *int64 {
	if id == 0 {
		return nil
	}
	return &id
}

// EventBytes returns what an event carries. An unknown id is an error that wraps ErrNotFound.
func (s *Store) EventBytes(ctx context.Context, id int64) (b relay.EventBytes, err error) {
	err = s.pool.QueryRow(ctx, readEventBytes, id).Scan(&b.EventID, &b.Key, &b.Payload, &b.Headers)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, fmt.Errorf("event %d: %w", id, ErrNotFound)
	}
	return b, err
}

// EventHeaders returns the headers of events in the log, as the JSON of the column, by their ids. An id without an event has none.
func (s *Store) EventHeaders(ctx context.Context, ids []int64) (map[int64][]byte, error) {
	headers := make(map[int64][]byte, len(ids))
	rows, err := s.pool.Query(ctx, readEventHeaders, ids)
	if err != nil {
		return nil, fmt.Errorf("read the headers of %d events: %w", len(ids), err)
	}
	var id int64
	var raw []byte
	if _, err := pgx.ForEachRow(rows, []any{&id, &raw}, func() error { headers[id] = raw; return nil }); err != nil {
		return nil, fmt.Errorf("read the headers of %d events: %w", len(ids), err)
	}
	return headers, nil
}

func orNoUUID(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
