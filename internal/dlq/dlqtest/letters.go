package dlqtest

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// Start is the time of the first record.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// EventID returns the id of event n, the same for every call.
func EventID(n int) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	id[6], id[8] = 0x70, 0x80
	return id
}

// Event returns the dead-letter record of an event's episode, as the relay writes it, read from offset n
// of partition 0; episode 1 of event n failed n seconds after Start, each later one a minute after the
// one before.
func Event(n, episode int) dlq.Record {
	failed := Start.Add(time.Duration(n)*time.Second + time.Duration(episode-1)*time.Minute)
	value := []byte(`{"n":` + strconv.Itoa(n) + `}`)
	h := func(name, value string) message.Header { return message.Header{Name: name, Value: []byte(value)} }
	return dlq.Record{
		Topic: "postrider.dlq", Offset: int64(n), Timestamp: failed.Add(time.Millisecond),
		Key: []byte("key-" + strconv.Itoa(n%7)), Value: value,
		Headers: []message.Header{
			h("trace", strconv.Itoa(n)),
			h(message.HeaderLetterVersion, "1"),
			h(message.HeaderEventID, EventID(n).String()),
			h(message.HeaderEpisode, strconv.Itoa(episode)),
			h(message.HeaderOutboxID, strconv.Itoa(n+1)),
			h(message.HeaderOriginTopic, "orders"),
			h(message.HeaderAttempts, "5"),
			h(message.HeaderFirstFailedAt, failed.Add(-time.Minute).Format(time.RFC3339Nano)),
			h(message.HeaderLastFailedAt, failed.Format(time.RFC3339Nano)),
			h(message.HeaderErrorClass, "record"),
			h(message.HeaderErrorCode, "INVALID_RECORD"),
			h(message.HeaderErrorMessage, "refused for the test"),
			h(message.HeaderCreatedAt, Start.Format(time.RFC3339Nano)),
			h(message.HeaderPayload, message.PayloadInline),
			h(message.HeaderPayloadBytes, strconv.Itoa(len(value))),
		},
	}
}

// Task returns the dead-letter record of a stay of task n, as the ledger writes it.
func Task(n, stay int) dlq.Record {
	id := EventID(n).String()
	at := Start.Add(time.Duration(n)*time.Second + time.Duration(stay)*time.Minute)
	value := fmt.Sprintf(`{"letter_id": "task:%[1]s:%[2]d:staleness_timeout", "task_uuid": "%[1]s", "namespace_name": "payments",
		"task_name": "charge", "version": "1.0.0", "dlq_reason": "staleness_timeout", "original_state": "waiting_for_retry",
		"dead_lettered_at": "%[3]s", "error_code": "STALENESS_TIMEOUT", "error_message": "31 minutes in waiting_for_retry",
		"metadata": {"threshold_minutes": 30}, "snapshot": {"state": "error", "stay": %[2]d}}`, id, stay, at.Format(time.RFC3339Nano))
	return dlq.Record{
		Topic: "postrider.dlq", Offset: int64(n), Timestamp: at.Add(time.Second), Key: []byte(id), Value: []byte(value),
		Headers: []message.Header{
			{Name: "ce_type", Value: []byte(dlq.TaskLetterType)},
			{Name: "ce_subject", Value: []byte(id)},
			{Name: message.HeaderEventID, Value: []byte(EventID(n + 1<<20 + stay).String())},
		},
	}
}

// From returns a record as it is when it comes from a source.
func From(source string, r dlq.Record) dlq.Record {
	r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], message.Header{Name: message.HeaderSource, Value: []byte(source)})
	return r
}

// Letters decodes records.
func Letters(records ...dlq.Record) []dlq.Letter {
	letters := make([]dlq.Letter, len(records))
	for i, r := range records {
		letters[i] = dlq.Decode(r)
	}
	return letters
}
