package postgres

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/dlq"
	"github.com/postrider/postrider/relay/outbox"
)

// column makes one array parameter of a field of many.
func column[T, V any](items []T, field func(T) V) []V {
	values := make([]V, len(items))
	for i, item := range items {
		values[i] = field(item)
	}
	return values
}

func nullTime(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()} }

func nullUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != uuid.Nil} }

// letterColumns are the parameters of letter_insert.sql.
func letterColumns(letters []*dlq.Letter, entries map[dlq.Subject]uuid.UUID) []any {
	type L = *dlq.Letter
	return []any{
		column(letters, func(l L) string { return l.ID }),
		column(letters, func(l L) pgtype.UUID { return nullUUID(entries[l.Subject]) }),
		column(letters, func(l L) string { return string(l.Dialect) }),
		column(letters, func(l L) string { return l.DLQTopic }),
		column(letters, func(l L) int32 { return l.DLQPartition }),
		column(letters, func(l L) int64 { return l.DLQOffset }),
		column(letters, func(l L) pgtype.Timestamptz { return nullTime(l.DLQRecordAt) }),
		column(letters, func(l L) string { return l.OriginTopic }),
		column(letters, func(l L) *int32 { return l.OriginPartition }),
		column(letters, func(l L) *int64 { return l.OriginOffset }),
		column(letters, func(l L) string { return l.ConsumerGroup }),
		column(letters, func(l L) pgtype.UUID { return nullUUID(l.EventID) }),
		column(letters, func(l L) *int32 { return l.Episode }),
		column(letters, func(l L) *int64 { return l.OutboxID }),
		column(letters, func(l L) []byte { return l.Key }),
		column(letters, func(l L) []byte { return l.Payload }),
		column(letters, func(l L) string { return string(l.PayloadKind) }),
		column(letters, func(l L) *int64 { return l.PayloadBytes }),
		column(letters, func(l L) string { return string(outbox.MarshalHeaders(l.Headers)) }),
		column(letters, func(l L) string { return l.ErrorClass }),
		column(letters, func(l L) string { return l.ErrorCode }),
		column(letters, func(l L) string { return l.ErrorMessage }),
		column(letters, func(l L) *int32 { return l.Attempts }),
		column(letters, func(l L) pgtype.Timestamptz { return nullTime(l.FirstFailedAt) }),
		column(letters, func(l L) pgtype.Timestamptz { return nullTime(l.LastFailedAt) }),
		column(letters, func(l L) string { return string(l.KeyKind) }),
		column(letters, func(l L) string { return l.RetryTopic }),
		column(letters, func(l L) string { return string(l.OriginalRecord) }),
		column(letters, func(l L) int { return l.Hops }),
	}
}

// entryColumns are the parameters of entry_open.sql.
func entryColumns(cs []*candidate, r *dlq.Redactor) []any {
	type C = *candidate
	return []any{
		column(cs, func(c C) pgtype.UUID { return nullUUID(c.proposed) }),
		column(cs, func(c C) string { return string(c.subject.Type) }),
		column(cs, func(c C) string { return c.subject.ID }),
		column(cs, func(c C) string { return c.first.OriginalState }),
		column(cs, func(c C) string { return string(c.first.Reason) }),
		column(cs, func(c C) pgtype.Timestamptz { return nullTime(c.first.DeadLetteredAt()) }),
		column(cs, func(c C) string { return c.first.OriginTopic }),
		column(cs, func(c C) string { return c.first.ErrorCode }),
		column(cs, func(c C) string { return c.first.ErrorMessage }),
		column(cs, func(c C) int32 { return c.letters }),
		column(cs, func(c C) pgtype.Timestamptz { return nullTime(c.lastOccurred) }),
		column(cs, func(c C) string {
			if c.pending { // it stays what it is
				return "{}"
			}
			return string(r.Snapshot(*c.first))
		}),
		column(cs, func(c C) string { return string(c.first.Metadata) }),
		column(cs, func(c C) pgtype.UUID { return pgtype.UUID{Bytes: c.group, Valid: true} }),
		column(cs, func(c C) *int32 { return c.newest.Attempts }),
	}
}
