package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

//go:embed schema.sql
var schemaSQL string

//go:embed move.sql
var moveSQL string

//go:embed stale.sql
var staleSQL string

//go:embed archive.sql
var archiveSQL string

// event has the fields of all lifecycle events, and the fields of the events that matter here; internal/tasks/ledger/asyncapi.yaml
// is the catalogue. Fields may be added to events, so unknown ones are no error.
type event struct {
	TaskUUID      string    `json:"task_uuid"`
	NamespaceName string    `json:"namespace_name"`
	TaskName      string    `json:"task_name"`
	Version       string    `json:"version"`
	OccurredAt    time.Time `json:"occurred_at"`
	ToState       *string   `json:"to_state"`
	SortKey       int64     `json:"sort_key"`
	FinalState    string    `json:"final_state"`
	ArchivedAt    time.Time `json:"archived_at"`
}

// The types of events; others are left alone, as the catalogue asks.
const (
	typeCreated      = "postrider.task.created.v1"
	typeTransitioned = "postrider.task.transitioned.v1"
	typeRetryQueued  = "postrider.task.retry_queued.v1"
	typeStale        = "postrider.task.task_staleness_detected.v1"
	typeArchived     = "postrider.task.archived.v1"
)

// states keeps the table task_state.
type states struct {
	pool *pgxpool.Pool
	log  *slog.Logger
}

// change is what one record tells.
type change struct {
	*kgo.Record
	event
}

// apply brings the table up to these records. While the database is away it waits.
func (s states) apply(ctx context.Context, records []*kgo.Record) error {
	var changes []change
	for _, r := range records {
		e, err := read(r)
		if err != nil {
			s.skip(r, err)
			continue
		}
		changes = append(changes, change{r, e})
	}
	return s.store(ctx, changes)
}

// store applies changes in one transaction, or, where one of them fits no table, each in its own.
func (s states) store(ctx context.Context, changes []change) error {
	for {
		err := s.try(ctx, changes)
		var refused *pgconn.PgError
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case !errors.As(err, &refused):
		case strings.HasPrefix(refused.Code, "42"): // the table is not what it should be, and will not be by waiting
			return err
		case strings.HasPrefix(refused.Code, "22") && len(changes) == 1: // its values fit no table
			s.skip(changes[0].Record, err)
			return nil
		case strings.HasPrefix(refused.Code, "22"):
			for n := range changes {
				if err := s.store(ctx, changes[n:n+1]); err != nil {
					return err
				}
			}
			return nil
		}
		s.log.Warn("states not stored, trying again", "err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s states) try(ctx context.Context, changes []change) error {
	batch := &pgx.Batch{}
	for _, c := range changes {
		c.queue(batch)
	}
	if batch.Len() == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
}

// skip passes over a record that another program has written into the topic.
func (s states) skip(r *kgo.Record, err error) {
	s.log.Warn("not a lifecycle event", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "err", err)
}

// queue adds what a record changes. Each statement changes nothing when the record comes again, or after a later one.
func (c change) queue(batch *pgx.Batch) {
	switch header(c.Record, "ce_type") {
	case typeCreated, typeTransitioned, typeRetryQueued:
		if c.ToState != nil {
			batch.Queue(moveSQL, c.TaskUUID, c.NamespaceName, c.TaskName, c.event.Version, *c.ToState, c.SortKey, c.OccurredAt)
		}
	case typeStale:
		batch.Queue(staleSQL, c.TaskUUID, c.SortKey, c.OccurredAt)
	case typeArchived:
		batch.Queue(archiveSQL, c.TaskUUID, c.NamespaceName, c.TaskName, c.event.Version, c.FinalState, c.ArchivedAt)
	}
}

// read reads an event. Another program may have written anything into the topic.
func read(r *kgo.Record) (event, error) {
	var e event
	if err := json.Unmarshal(r.Value, &e); err != nil {
		return e, err
	}
	if subject := header(r, "ce_subject"); e.TaskUUID == "" || e.TaskUUID != subject || e.TaskUUID != string(r.Key) {
		return e, fmt.Errorf("the task is %q in the value, %q in the header ce_subject and %q in the key", e.TaskUUID, subject, r.Key)
	}
	return e, nil
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
