package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

func scanTreatment(row pgx.CollectableRow) (t dlq.Treatment, err error) {
	var started *time.Time
	err = row.Scan(&t.Operation, &t.Kind, &t.Name, &t.Actor, &t.State, &t.PlannedAt, &started, &t.Item, &t.Reason, &t.Outcome)
	t.StartedAt = value(started)
	return t, err
}

// Keys returns the keys of the messages of investigations, as their snapshots have them: at most dlq.MaxItemKey characters of
// each. One without a key, and an unknown id, are left out.
func (d *Investigations) Keys(ctx context.Context, entries []uuid.UUID) (map[uuid.UUID]string, error) {
	keys := map[uuid.UUID]string{}
	return keys, d.readByKey(ctx, "keys of investigations", func(ctx context.Context, tx pgx.Tx) error {
		items := make([]dlq.Item, len(entries))
		for i, id := range entries {
			items[i].Entry = id
		}
		if err := knownBy(ctx, tx, items); err != nil {
			return err
		}
		for _, i := range items {
			if i.Key != nil && *i.Key != "" {
				keys[i.Entry] = *i.Key
			}
		}
		return nil
	})
}
