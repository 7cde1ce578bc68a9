package postgres

import (
	"cmp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
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

// source is the source of a letter, as columns have it.
func source(l *dlq.Letter) string { return cmp.Or(l.Source, dlq.MainSource) }

// writeLetter writes the columns of letter_copy.sql.
func writeLetter(r *row, l *dlq.Letter, entry uuid.UUID) {
	r.text(l.ID)
	r.uuid(entry)
	r.text(string(l.Dialect))
	r.text(l.DLQTopic)
	r.int4(&l.DLQPartition)
	r.int8(&l.DLQOffset)
	r.time(l.DLQRecordAt)
	r.optional(l.OriginTopic)
	r.int4(l.OriginPartition)
	r.int8(l.OriginOffset)
	r.optional(l.ConsumerGroup)
	r.uuid(l.EventID)
	r.int4(l.Episode)
	r.int8(l.OutboxID)
	r.data(l.Key)
	r.data(l.Payload)
	r.text(string(l.PayloadKind))
	r.int8(l.PayloadBytes)
	r.json(message.MarshalHeaders(l.Headers))
	r.optional(l.ErrorClass)
	r.optional(l.ErrorCode)
	r.optional(l.ErrorMessage)
	r.int4(l.Attempts)
	r.time(l.FirstFailedAt)
	r.time(l.LastFailedAt)
	r.text(string(l.KeyKind))
	r.optional(l.RetryTopic)
	r.optional(string(l.OriginalRecord))
	hops := int32(l.Hops)
	r.int4(&hops)
	r.optional(string(l.ErrorCategory))
	r.text(source(l))
	r.int8(l.SourceOutboxID)
	r.bool(l.HaltsKey)
}

// writeEntry writes the columns of entry_copy.sql; now is the time of the transaction.
func writeEntry(r *row, c *opening, redactor *dlq.Redactor, now time.Time) {
	at := func(t time.Time) {
		if t.IsZero() {
			t = now
		}
		r.time(t)
	}
	r.uuid(c.proposed)
	r.text(string(c.subject.Type))
	r.text(c.subject.ID)
	r.text(c.first.OriginalState)
	r.text(string(c.first.Reason))
	at(c.first.DeadLetteredAt())
	r.optional(c.first.OriginTopic)
	r.optional(c.first.ErrorCode)
	r.optional(c.first.ErrorMessage)
	r.int4(&c.letters)
	at(c.lastOccurred)
	r.json(redactor.Snapshot(*c.first))
	r.json(c.first.Metadata)
	r.uuid(c.group)
	r.int4(c.newest.Attempts)
	r.optional(c.first.Root.Cause())
	r.optional(c.first.Root.Frame)
	r.optional(c.fingerprint.ID)
	r.optional(c.fingerprint.Exact)
	r.uuid(c.first.OwnTask())
	r.optional(c.first.ConsumerGroup)
	r.optional(c.first.DLQTopic)
	r.optional(string(c.first.ErrorCategory))
	r.text(source(c.first))
}

// entryColumns are the parameters of entry_open.sql.
func entryColumns(cs []*opening, r *dlq.Redactor) []any {
	type C = *opening
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
		column(cs, func(c C) string { return c.first.Root.Cause() }),
		column(cs, func(c C) string { return c.first.Root.Frame }),
		column(cs, func(c C) string { return c.fingerprint.ID }),
		column(cs, func(c C) string { return c.fingerprint.Exact }),
		column(cs, func(c C) pgtype.UUID { return nullUUID(c.first.OwnTask()) }),
		column(cs, func(c C) string { return c.first.ConsumerGroup }),
		column(cs, func(c C) string { return c.first.DLQTopic }),
		column(cs, func(c C) string { return string(c.first.ErrorCategory) }),
		column(cs, func(c C) string { return source(c.first) }),
	}
}
