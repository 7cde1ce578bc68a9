package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/message"
)

// DefaultMaxPayloadBytes is the writer-side payload limit of a fresh schema, in bytes (16 MiB); the
// database's own limit is what postrider.outbox_max_payload_bytes() returns.
const DefaultMaxPayloadBytes = 16 << 20

// MaxIdempotencyKeyBytes is the longest idempotency key the database accepts, in bytes.
const MaxIdempotencyKeyBytes = 512

// Message is an event that a writer enqueues.
type Message struct {
	// Topic is the Kafka topic. Required. Names beginning with "__" are Kafka's own and are refused.
	Topic string
	// Key orders events: the events of one topic and key are published in the order they were enqueued, as long as
	// their transactions serialise on the key. nil means no key and no order; empty is a key.
	Key []byte
	// Payload is the record's value, exact bytes. nil is a tombstone; empty is an empty value.
	Payload []byte
	// Headers are sent in this order. A name that begins with "postrider-" or has a control character is refused.
	Headers []message.Header
	// IdempotencyKey makes a repeated Enqueue return the first event's id and write nothing. UTF-8
	// without NUL, at most MaxIdempotencyKeyBytes. Optional.
	IdempotencyKey string
	// AvailableAt delays the event; later events of its key without a delay may overtake it. Zero is now.
	AvailableAt time.Time
	// TaskUUID links the event to a task. Optional.
	TaskUUID uuid.UUID
}

const enqueueSQL = `select postrider.outbox_publish_bytes($1::text, $2::bytea, $3::bytea, $4::jsonb, $5::text, $6::timestamptz, $7::uuid)`

// limitSQL asks for the database's limit. Enqueue asks for payloads of more than askAbove bytes: an insert that the database
// refuses would end the caller's transaction.
const (
	limitSQL = `select postrider.outbox_max_payload_bytes()`
	askAbove = 1 << 20
)

// Enqueue writes the message into the outbox inside the caller's transaction and returns its event id.
// It is published if and when that transaction commits. A message that breaks a rule is refused with an error
// wrapping message.ErrInvalid, and the transaction goes on. For a payload of more than 1 MiB the database is asked for its
// limit first. If its owner set a limit below 1 MiB, a payload between the two ends the transaction.
func Enqueue(ctx context.Context, tx pgx.Tx, m Message) (uuid.UUID, error) {
	args, err := m.args()
	if err != nil {
		return uuid.Nil, err
	}
	if len(m.Payload) > askAbove {
		var limit int
		if err := tx.QueryRow(ctx, limitSQL).Scan(&limit); err != nil {
			return uuid.Nil, fmt.Errorf("ask how large a payload may be: %w", err)
		}
		if err := m.fits(limit); err != nil {
			return uuid.Nil, err
		}
	}
	var id string
	if err := tx.QueryRow(ctx, enqueueSQL+"::text", args...).Scan(&id); err != nil {
		return uuid.Nil, fmt.Errorf("enqueue an event for topic %q: %w", m.Topic, err)
	}
	return uuid.Parse(id)
}

// EnqueueSQL is Enqueue for database/sql with a PostgreSQL driver.
func EnqueueSQL(ctx context.Context, tx *sql.Tx, m Message) (uuid.UUID, error) {
	args, err := m.args()
	if err != nil {
		return uuid.Nil, err
	}
	if len(m.Payload) > askAbove {
		var limit int
		if err := tx.QueryRowContext(ctx, limitSQL).Scan(&limit); err != nil {
			return uuid.Nil, fmt.Errorf("ask how large a payload may be: %w", err)
		}
		if err := m.fits(limit); err != nil {
			return uuid.Nil, err
		}
	}
	var id string
	if err := tx.QueryRowContext(ctx, enqueueSQL+"::text", args...).Scan(&id); err != nil {
		return uuid.Nil, fmt.Errorf("enqueue an event for topic %q: %w", m.Topic, err)
	}
	return uuid.Parse(id)
}

// fits refuses a payload that the database would refuse.
func (m Message) fits(limit int) error {
	if len(m.Payload) > limit {
		return fmt.Errorf("%w: the payload for topic %q is %d bytes, the limit of the database is %d", message.ErrInvalid, m.Topic, len(m.Payload), limit)
	}
	return nil
}

func (m Message) args() ([]any, error) {
	if err := message.ValidTopic(m.Topic); err != nil {
		return nil, err
	}
	if strings.HasPrefix(m.Topic, "__") {
		return nil, fmt.Errorf("%w: topic %q: names beginning with __ are Kafka's own", message.ErrInvalid, m.Topic)
	}
	for _, h := range m.Headers {
		if err := message.ValidHeaderName(h.Name); err != nil {
			return nil, err
		}
		if message.Reserved(h.Name) {
			return nil, fmt.Errorf("%w: header %q: names beginning with %s are the relay's own", message.ErrInvalid, h.Name, message.HeaderPrefix)
		}
	}
	switch key := m.IdempotencyKey; {
	case len(key) > MaxIdempotencyKeyBytes:
		return nil, fmt.Errorf("%w: idempotency key is %d bytes, the limit is %d", message.ErrInvalid, len(key), MaxIdempotencyKeyBytes)
	case !utf8.ValidString(key):
		return nil, fmt.Errorf("%w: idempotency key is not UTF-8", message.ErrInvalid)
	case strings.ContainsRune(key, 0):
		return nil, fmt.Errorf("%w: idempotency key contains NUL", message.ErrInvalid)
	}
	args := []any{m.Topic, nil, nil, string(message.MarshalHeaders(m.Headers)), nil, nil, nil}
	// Not every database/sql driver takes a nil slice for null.
	if m.Key != nil {
		args[1] = m.Key
	}
	if m.Payload != nil {
		args[2] = m.Payload
	}
	if m.IdempotencyKey != "" {
		args[4] = m.IdempotencyKey
	}
	if !m.AvailableAt.IsZero() {
		args[5] = m.AvailableAt
	}
	if m.TaskUUID != uuid.Nil {
		args[6] = m.TaskUUID.String()
	}
	return args, nil
}
