package postgres

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// Items implements dlq.Redriver.
func (r *Redriver) Items(ctx context.Context, id uuid.UUID, f dlq.ItemFilter, after int64, limit int) (items []dlq.Item, err error) {
	const doing = "list the items of an operation"
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	query, args := operationItems, []any{id, after, limit, f.State, f.Outcome}
	if f == (dlq.ItemFilter{State: dlq.ItemWaiting}) { // these have an index, whose order is not that of the others
		query, args = operationItemsWaiting, args[:3]
	}
	// Planned anew for the filter: a plan for all filters would walk past the items that were treated.
	err = pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i dlq.Item, err error) {
			return i, row.Scan(&i.Place, &i.Entry, &i.State, &i.Reason, &i.Outcome, &i.Successor)
		})
		if err != nil {
			return err
		}
		return knownBy(ctx, tx, items)
	})
	return items, translate(doing, err)
}

// knownBy reads into items what people know their investigations by.
func knownBy(ctx context.Context, tx pgx.Tx, items []dlq.Item) error {
	rows, err := tx.Query(ctx, entryKnownBy, column(items, func(i dlq.Item) uuid.UUID { return i.Entry }), dlq.MaxItemKey)
	if err != nil {
		return err
	}
	var topic, key, keyBase64, event, reason, code *string
	var task *uuid.UUID
	place := 0
	_, err = pgx.ForEachRow(rows, []any{&topic, &key, &keyBase64, &event, &task, &reason, &code}, func() error {
		i := &items[place]
		place++
		i.Topic, i.Key, i.TaskUUID, i.DLQReason, i.ErrorCode = value(topic), key, value(task), dlq.Reason(value(reason)), value(code)
		if keyBase64 != nil {
			if raw, err := base64.StdEncoding.DecodeString(*keyBase64); err == nil {
				i.Key = new(strings.ToValidUTF8(string(raw), "\ufffd"))
			}
		}
		if event != nil {
			i.EventID, _ = uuid.Parse(*event) // what is no id is none
		}
		return nil
	})
	return err
}
