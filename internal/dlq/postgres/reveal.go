package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// Reveal implements dlq.Investigations.
func (d *Investigations) Reveal(ctx context.Context, r dlq.RevealRequest) (dlq.Letter, error) {
	if err := r.Check(); err != nil {
		return dlq.Letter{}, err
	}
	var l dlq.Letter
	err := d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, letterOne, r.Entry, r.LetterID)
		if err != nil {
			return err
		}
		l, err = pgx.CollectExactlyOneRow(rows, scanLetter)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("letter %q of investigation %s: %w", r.LetterID, r.Entry, dlq.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if err := refer(ctx, tx, &l); err != nil {
			return err
		}
		return d.audit.Audit(ctx, tx, r.Actor, "payload.reveal", "entry", r.Entry.String(), []string{l.Source}, map[string]any{"letter_id": l.ID, "reason": r.Reason})
	})
	if err != nil {
		return dlq.Letter{}, err
	}
	return l, nil
}

// refer fills in the bytes that the letter only refers to, if the outbox still has them.
func refer(ctx context.Context, tx pgx.Tx, l *dlq.Letter) error {
	if l.OutboxID == nil || l.KeyKind != dlq.Reference && l.PayloadKind != dlq.Reference {
		return nil
	}
	var key, payload, headers []byte
	err := tx.QueryRow(ctx, outboxLook, *l.OutboxID, l.EventID).Scan(&key, &payload, &headers)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	kind := func(b []byte) dlq.BytesKind {
		if b == nil {
			return dlq.Tombstone
		}
		return dlq.Inline
	}
	if l.PayloadKind == dlq.Reference {
		l.Payload, l.PayloadKind = payload, kind(payload)
	}
	if l.KeyKind == dlq.Reference { // the headers were left out with it
		l.Key, l.KeyKind = key, kind(key)
		l.Headers, err = parseHeaders(headers)
	}
	return err
}
