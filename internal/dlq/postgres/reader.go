package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// List implements dlq.Reader. A Filter that makes no sense is an error that wraps dlq.ErrRequest.
func (s *Store) List(ctx context.Context, f dlq.Filter) ([]dlq.Entry, int, error) {
	const doing = "list investigations"
	q := dlq.Search{Filter: f}
	if err := q.Check(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var page dlq.Page
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) error {
		var ids []uuid.UUID
		var err error
		if page, ids, err = find(ctx, tx, q, usualBounds.whole()); err != nil || len(ids) == 0 {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(known)
		queueRows(b, &page.Entries, scanEntry, entryMany, ids)
		return send(ctx, tx, b)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", doing, err)
	}
	return page.Entries, int(page.Total), nil
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
	var assignee, redrive, cause, frame, word *string
	var snapshot, metadata []byte
	err := row.Scan(&e.UUID, &e.Subject.Type, &e.Subject.ID, &e.OriginalState, &e.Reason, &e.DeadLetteredAt,
		&e.Status, &resolvedAt, &notes, &by, &topic, &code, &message, &e.Occurrences, &e.LastOccurredAt,
		&predecessor, &snapshot, &metadata, &e.CreatedAt, &e.UpdatedAt,
		&e.GroupUUID, &e.Attempts, &e.Generation, &assignee, &redrive, &cause, &frame, &word)
	if err != nil {
		return dlq.Entry{}, err
	}
	e.ResolvedAt, e.ResolutionNotes, e.ResolvedBy = value(resolvedAt), value(notes), value(by)
	e.Topic, e.ErrorCode, e.ErrorMessage = value(topic), value(code), value(message)
	e.RootCause, e.RootFrame, e.Word = value(cause), value(frame), value(word)
	e.PredecessorUUID = value(predecessor)
	e.Assignee, e.Redrive = value(assignee), dlq.RedriveState(value(redrive))
	e.Snapshot, e.Metadata = json.RawMessage(snapshot), json.RawMessage(metadata)
	return e, nil
}

func scanLetter(row pgx.CollectableRow) (dlq.Letter, error) {
	var l dlq.Letter
	var entry, event *uuid.UUID
	var recordAt, firstAt, lastAt *time.Time
	var origin, group, class, code, message, retry, original *string
	var headers []byte
	err := row.Scan(&l.ID, &entry, &l.Dialect, &l.DLQTopic, &l.DLQPartition, &l.DLQOffset, &recordAt,
		&origin, &l.OriginPartition, &l.OriginOffset, &group, &event, &l.Episode, &l.OutboxID,
		&l.Key, &l.Payload, &l.PayloadKind, &l.PayloadBytes, &headers, &class, &code, &message,
		&l.Attempts, &firstAt, &lastAt, &l.RecordedAt, &l.KeyKind, &retry, &original, &l.Hops)
	if err != nil {
		return dlq.Letter{}, err
	}
	l.EntryUUID, l.EventID = value(entry), value(event)
	l.DLQRecordAt, l.FirstFailedAt, l.LastFailedAt = value(recordAt), value(firstAt), value(lastAt)
	l.OriginTopic, l.ConsumerGroup = value(origin), value(group)
	l.ErrorClass, l.ErrorCode, l.ErrorMessage = value(class), value(code), value(message)
	l.RetryTopic, l.OriginalRecord = value(retry), dlq.OriginalState(value(original))
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
