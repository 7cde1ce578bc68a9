package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

// knownSource is what the desk knows of a source. The zero value is a source that it never saw.
type knownSource struct {
	id                       *uuid.UUID
	answered, receipt, drawn int64
	stopped                  dlq.StopReason
	stoppedAt                pgtype.Timestamptz
	forgottenAt              pgtype.Timestamptz
}

// sourceNow is what the database of a source says of itself.
type sourceNow struct {
	id             uuid.UUID
	heard, receipt int64
	copied         bool
	desk           string // that it obeys; empty for none
}

// obeysAnother reports whether the source obeys another desk than this one. What it has heard of is then that desk's.
func (n sourceNow) obeysAnother(desk string) bool { return n.desk != "" && n.desk != desk }

// Confirm proves that neither the database of a source nor that of the desk was set back since they last met. If one was, the
// source is stopped, and the error is a *dlq.StoppedError. Every other error says that one of the two could not be asked.
// Without an error it returns the other desk that the source obeys; empty where it obeys this one, or none yet.
//
// It needs no lock. What the desk knows of the source was committed there before it was noted here, so it is read first. What
// the source has heard of was committed here before the source heard of it, so the desk is read again behind it. A source that obeys
// another desk has heard of the calls of that one: it refuses the commands of this one, by name.
func (r *Redriver) Confirm(ctx context.Context, desk, source string, database querier) (other string, err error) {
	now, err := r.confirm(ctx, desk, source, database)
	if err == nil && now.obeysAnother(desk) {
		other = now.desk
	}
	return other, err
}

func (r *Redriver) confirm(ctx context.Context, desk, source string, database querier) (now sourceNow, err error) {
	known, err := r.known(ctx, source)
	if err != nil {
		return now, err
	}
	if err := known.refusal(source, ""); err != nil {
		return now, err
	}
	if now, err = readSource(ctx, database); err != nil {
		return now, fmt.Errorf("source %s: %w", source, err)
	}
	reason, detail := known.judge(now)
	if reason == "" {
		if known.drawn, err = r.noteSource(ctx, source, now); err != nil {
			return now, err
		}
		if now.heard <= known.drawn || now.obeysAnother(desk) {
			return now, nil
		}
		reason, detail = dlq.StopDeskRewound, fmt.Sprintf("it has heard call %d, and the desk knows of %d", now.heard, known.drawn)
	}
	stopped := false
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sourceStop, source, string(reason), known.answered, known.receipt, now.heard)
		stopped = tag.RowsAffected() > 0
		return translate("stop a source", err)
	})
	if err == nil && !stopped {
		err = errSourceMoved
	}
	if err != nil {
		return now, err
	}
	return now, &dlq.StoppedError{Source: source, Reason: reason, Detail: detail}
}

// errSourceMoved: what the desk knows of a source changed while its database was looked at. The next look sees it.
var errSourceMoved = errors.New("another process worked on the source meanwhile")

// refusal is the error of a source that is stopped; nil if it is not.
func (k knownSource) refusal(source, detail string) error {
	switch {
	case k.forgottenAt.Valid:
		return &dlq.StoppedError{Source: source, Reason: dlq.StopForgotten}
	case k.stopped != "":
		return &dlq.StoppedError{Source: source, Reason: k.stopped, Detail: detail}
	}
	return nil
}

// judge compares what the desk knew with what the source says now.
func (k knownSource) judge(now sourceNow) (reason dlq.StopReason, detail string) {
	switch {
	case k.id != nil && *k.id != now.id:
		return dlq.StopIdentity, fmt.Sprintf("it was the outbox %s, and is %s", *k.id, now.id)
	case now.heard < k.answered:
		return dlq.StopRewound, fmt.Sprintf("it has answered call %d, and knows of %d", k.answered, now.heard)
	case now.receipt < k.receipt:
		return dlq.StopRewound, fmt.Sprintf("it had receipt %d, and has %d", k.receipt, now.receipt)
	}
	return "", ""
}

// known reads what the desk knows of a source.
func (r *Redriver) known(ctx context.Context, source string) (k knownSource, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = r.pool.QueryRow(ctx, sourceRead, source).Scan(&k.id, &k.answered, &k.receipt, &k.drawn, &k.stopped, &k.stoppedAt, &k.forgottenAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return knownSource{}, nil
	}
	return k, translate("read what is known of a source", err)
}

// noteSource writes what the source says of itself, and returns how many calls the desk has drawn. A note that is lost makes the desk
// know less of the source, as if it had not looked.
func (r *Redriver) noteSource(ctx context.Context, source string, now sourceNow) (drawn int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, unhurried, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sourceNote, source, now.id, now.receipt); err != nil {
			return translate("note what is known of a source", err)
		}
		return translate("note what is known of a source", tx.QueryRow(ctx, sourceDrawn, source).Scan(&drawn))
	})
	return drawn, err
}

// readSource asks the database of a source about itself.
func readSource(ctx context.Context, database querier) (now sourceNow, err error) {
	ctx, cancel := context.WithTimeout(ctx, obeyLimit)
	defer cancel()
	rows, err := database.Query(ctx, sourceNowSQL)
	if err != nil {
		return now, err
	}
	return pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (now sourceNow, err error) {
		err = row.Scan(&now.id, &now.heard, &now.receipt, &now.copied, &now.desk)
		return now, err
	})
}
