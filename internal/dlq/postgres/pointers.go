package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// Pointing implements dlq.Pointers.
func (d *Investigations) Pointing(ctx context.Context, entries []uuid.UUID) (letters []dlq.Letter, err error) {
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var found []uuid.UUID
		found, letters, err = pointing(ctx, tx, entries, false)
		if err != nil {
			return err
		}
		return allThere(entries, found)
	})
	return letters, err
}

// PointingNext implements dlq.Pointers.
func (d *Investigations) PointingNext(ctx context.Context, limit int) (letters []dlq.Letter, err error) {
	const doing = "look for letters that point to records"
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, letterPointingNext, limit)
		if err != nil {
			return translate(doing, err)
		}
		entries, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil || len(entries) == 0 {
			return translate(doing, err)
		}
		_, letters, err = pointing(ctx, tx, distinctIDs(entries), true)
		return err
	})
	return letters, err
}

// pointing returns which of the investigations exist, and the newest letter of each if it points to a record.
func pointing(ctx context.Context, tx pgx.Tx, entries []uuid.UUID, again bool) (found []uuid.UUID, letters []dlq.Letter, err error) {
	const doing = "look for letters that point to records"
	rows, err := tx.Query(ctx, letterPointing, entries, again)
	if err != nil {
		return nil, nil, translate(doing, err)
	}
	var entry uuid.UUID
	var subject string
	var id, topic, keyKind, payloadKind, original, dlqTopic *string
	var partition, dlqPartition *int32
	var offset, bytes, dlqOffset *int64
	var headers []byte
	var event *uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&entry, &subject, &id, &topic, &partition, &offset, &keyKind, &payloadKind, &bytes, &headers,
		&event, &original,
		&dlqTopic, &dlqPartition, &dlqOffset}, func() error {
		found = append(found, entry)
		if id == nil {
			return nil
		}
		l := dlq.Letter{ID: *id, EntryUUID: entry, Subject: dlq.Subject{Type: dlq.SubjectRecord, ID: subject}, OriginTopic: *topic,
			OriginPartition: partition, OriginOffset: offset, KeyKind: dlq.BytesKind(*keyKind), PayloadKind: dlq.BytesKind(*payloadKind),
			PayloadBytes: bytes, EventID: value(event), OriginalRecord: dlq.OriginalState(value(original)),
			DLQTopic: *dlqTopic, DLQPartition: *dlqPartition, DLQOffset: *dlqOffset}
		if l.Headers, err = parseHeaders(headers); err != nil {
			return fmt.Errorf("letter %s: %w", l.ID, err)
		}
		partition, offset = new(int32), new(int64) // the letter has these
		bytes = nil
		letters = append(letters, l)
		return nil
	})
	return found, letters, translate(doing, err)
}

// Complete implements dlq.Pointers.
func (d *Investigations) Complete(ctx context.Context, letters []dlq.Letter, actor string) error {
	if len(letters) == 0 {
		return nil
	}
	return d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		ids := column(letters, func(l dlq.Letter) uuid.UUID { return l.EntryUUID })
		if _, err := lockEntries(ctx, tx, redriveLock, ids); err != nil {
			return err
		}
		states := map[dlq.OriginalState]int{}
		for _, l := range letters {
			done, err := d.complete(ctx, tx, l)
			if err != nil {
				return err
			}
			if done {
				states[l.OriginalRecord]++
			}
		}
		if len(states) == 0 {
			return nil
		}
		target := ""
		if len(letters) == 1 {
			target = letters[0].EntryUUID.String()
		}
		sources, err := sourcesOfEntries(ctx, tx, ids)
		if err != nil {
			return err
		}
		return d.audit.Audit(ctx, tx, actor, "dlq.fetch", "entry", target, sources, map[string]any{"entries": distinctIDs(ids), "states": states})
	})
}

// complete stores what became of one letter. It is false for a letter whose bytes came meanwhile.
func (d *Investigations) complete(ctx context.Context, tx pgx.Tx, l dlq.Letter) (done bool, err error) {
	doing := fmt.Sprintf("store what letter %s points to", l.ID)
	var snapshot *string
	if l.OriginalRecord == dlq.OriginalFetched {
		switch err := tx.QueryRow(ctx, entrySnapshot, l.EntryUUID).Scan(&snapshot); {
		case errors.Is(err, pgx.ErrNoRows): // purged meanwhile; the letter is there
		case err != nil:
			return false, translate(doing, err)
		default:
			text := string(d.redactor.Completed(json.RawMessage(*snapshot), l))
			snapshot = &text
		}
	}
	err = tx.QueryRow(ctx, letterComplete, l.ID, string(l.OriginalRecord), l.Key, l.Payload, string(message.MarshalHeaders(l.Headers)),
		nullUUID(l.EventID),
		string(l.Metadata), snapshot).Scan(&done)
	return done, translate(doing, err)
}
