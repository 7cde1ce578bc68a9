package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/dlq"
)

// List implements dlq.Reader. A Filter that names a status or reason that does not exist is an error.
func (s *Store) List(ctx context.Context, f dlq.Filter) ([]dlq.Entry, int, error) {
	const doing = "list investigations"
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	switch {
	case f.Status != "" && !slices.Contains(dlq.Statuses(), f.Status):
		return nil, 0, fmt.Errorf("%s: there is no status %q", doing, f.Status)
	case f.Reason != "" && !slices.Contains(dlq.Reasons(), f.Reason):
		return nil, 0, fmt.Errorf("%s: there is no reason %q", doing, f.Reason)
	case f.Limit < 0 || f.Limit > dlq.MaxLimit || f.Offset < 0:
		return nil, 0, fmt.Errorf("%s: the limit is %d and the offset %d; a limit is 0 to %d, an offset not negative", doing, f.Limit, f.Offset, dlq.MaxLimit)
	case f.Limit == 0:
		f.Limit = dlq.DefaultLimit
	}
	where := []any{string(f.Status), string(f.Reason), string(f.Subject.Type), f.Subject.ID, f.Topic}
	var total int
	if err := s.pool.QueryRow(ctx, entryCount, where...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count investigations: %w", err)
	}
	rows, err := s.pool.Query(ctx, entryList, append(where, f.Limit, f.Offset)...)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", doing, err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", doing, err)
	}
	return entries, total, nil
}

// Get implements dlq.Reader.
func (s *Store) Get(ctx context.Context, id uuid.UUID) (dlq.Entry, []dlq.Letter, error) {
	doing := fmt.Sprintf("investigation %s", id)
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, entryGet, id)
	if err != nil {
		return dlq.Entry{}, nil, fmt.Errorf("%s: %w", doing, err)
	}
	entry, err := pgx.CollectExactlyOneRow(rows, scanEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.Entry{}, nil, fmt.Errorf("%s: %w", doing, dlq.ErrNotFound)
	}
	if err != nil {
		return dlq.Entry{}, nil, fmt.Errorf("%s: %w", doing, err)
	}
	rows, err = s.pool.Query(ctx, letterList, id, dlq.MaxLetters, dlq.MaxSnapshotBytes)
	if err != nil {
		return dlq.Entry{}, nil, fmt.Errorf("letters of %s: %w", doing, err)
	}
	letters, err := pgx.CollectRows(rows, scanLetter)
	if err != nil {
		return dlq.Entry{}, nil, fmt.Errorf("letters of %s: %w", doing, err)
	}
	return entry, letters, nil
}

func scanEntry(row pgx.CollectableRow) (dlq.Entry, error) {
	var e dlq.Entry
	var resolvedAt *time.Time
	var notes, by, topic, code, message *string
	var predecessor *uuid.UUID
	var snapshot, metadata []byte
	err := row.Scan(&e.UUID, &e.Subject.Type, &e.Subject.ID, &e.OriginalState, &e.Reason, &e.DeadLetteredAt,
		&e.Status, &resolvedAt, &notes, &by, &topic, &code, &message, &e.Occurrences, &e.LastOccurredAt,
		&predecessor, &snapshot, &metadata, &e.CreatedAt, &e.UpdatedAt)
	if err != nil {
		return dlq.Entry{}, err
	}
	e.ResolvedAt, e.ResolutionNotes, e.ResolvedBy = value(resolvedAt), value(notes), value(by)
	e.Topic, e.ErrorCode, e.ErrorMessage = value(topic), value(code), value(message)
	e.PredecessorUUID = value(predecessor)
	e.Snapshot, e.Metadata = json.RawMessage(snapshot), json.RawMessage(metadata)
	return e, nil
}

func scanLetter(row pgx.CollectableRow) (dlq.Letter, error) {
	var l dlq.Letter
	var entry, event *uuid.UUID
	var recordAt, firstAt, lastAt *time.Time
	var origin, group, class, code, message *string
	var headers []byte
	err := row.Scan(&l.ID, &entry, &l.Dialect, &l.DLQTopic, &l.DLQPartition, &l.DLQOffset, &recordAt,
		&origin, &l.OriginPartition, &l.OriginOffset, &group, &event, &l.Episode, &l.OutboxID,
		&l.Key, &l.Payload, &l.PayloadKind, &l.PayloadBytes, &headers, &class, &code, &message,
		&l.Attempts, &firstAt, &lastAt, &l.RecordedAt, &l.KeyKind)
	if err != nil {
		return dlq.Letter{}, err
	}
	l.EntryUUID, l.EventID = value(entry), value(event)
	l.DLQRecordAt, l.FirstFailedAt, l.LastFailedAt = value(recordAt), value(firstAt), value(lastAt)
	l.OriginTopic, l.ConsumerGroup = value(origin), value(group)
	l.ErrorClass, l.ErrorCode, l.ErrorMessage = value(class), value(code), value(message)
	if l.Headers, err = parseHeaders(headers); err != nil {
		return dlq.Letter{}, fmt.Errorf("letter %s: %w", l.ID, err)
	}
	return l, nil
}

// value is what p points to, or zero for null.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
