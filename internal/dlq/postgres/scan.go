package postgres

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

func scanEntry(row pgx.CollectableRow) (dlq.Entry, error) {
	var e dlq.Entry
	var resolvedAt *time.Time
	var notes, by, topic, code, text *string
	var predecessor, task *uuid.UUID
	var assignee, redrive, cause, frame, fingerprint, exact, word, category *string
	var snapshot, metadata []byte
	err := row.Scan(&e.UUID, &e.Subject.Type, &e.Subject.ID, &e.OriginalState, &e.Reason, &e.DeadLetteredAt,
		&e.Status, &resolvedAt, &notes, &by, &topic, &code, &text, &e.Occurrences, &e.LastOccurredAt,
		&predecessor, &snapshot, &metadata, &e.CreatedAt, &e.UpdatedAt,
		&e.GroupUUID, &e.Attempts, &e.Generation, &assignee, &redrive, &cause, &frame, &fingerprint, &exact, &word, &task, &category, &e.Source)
	if err != nil {
		return dlq.Entry{}, err
	}
	e.ResolvedAt, e.ResolutionNotes, e.ResolvedBy = value(resolvedAt), value(notes), value(by)
	e.Topic, e.ErrorCode, e.ErrorMessage = value(topic), value(code), value(text)
	e.RootCause, e.RootFrame, e.Word = value(cause), value(frame), value(word)
	e.ErrorCategory = message.Category(value(category))
	e.Fingerprint, e.Exact = value(fingerprint), value(exact)
	e.PredecessorUUID, e.TaskUUID = value(predecessor), value(task)
	e.Assignee, e.Redrive = value(assignee), dlq.RedriveState(value(redrive))
	e.Snapshot, e.Metadata = json.RawMessage(snapshot), json.RawMessage(metadata)
	return e, nil
}

func scanLetter(row pgx.CollectableRow) (dlq.Letter, error) {
	var l dlq.Letter
	var entry, event *uuid.UUID
	var recordAt, firstAt, lastAt *time.Time
	var origin, group, class, code, text, retry, original, category *string
	var headers []byte
	err := row.Scan(&l.ID, &entry, &l.Dialect, &l.DLQTopic, &l.DLQPartition, &l.DLQOffset, &recordAt,
		&origin, &l.OriginPartition, &l.OriginOffset, &group, &event, &l.Episode, &l.OutboxID,
		&l.Key, &l.Payload, &l.PayloadKind, &l.PayloadBytes, &headers, &class, &code, &text,
		&l.Attempts, &firstAt, &lastAt, &l.RecordedAt, &l.KeyKind, &retry, &original, &l.Hops, &category, &l.Source, &l.SourceOutboxID, &l.HaltsKey)
	if err != nil {
		return dlq.Letter{}, err
	}
	l.EntryUUID, l.EventID = value(entry), value(event)
	l.DLQRecordAt, l.FirstFailedAt, l.LastFailedAt = value(recordAt), value(firstAt), value(lastAt)
	l.OriginTopic, l.ConsumerGroup = value(origin), value(group)
	l.ErrorClass, l.ErrorCode, l.ErrorMessage = value(class), value(code), value(text)
	l.ErrorCategory = message.Category(value(category))
	l.RetryTopic, l.OriginalRecord = value(retry), dlq.OriginalState(value(original))
	if l.Headers, err = parseHeaders(headers); err != nil {
		return dlq.Letter{}, fmt.Errorf("letter %s: %w", l.ID, err)
	}
	return l, nil
}

// value is what p points to, or zero for null.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// parseHeaders reads dlq_letter.headers. Unlike message.ParseHeaders, which checks what a writer gave, it
// takes whatever a foreign record may have, an empty name too.
func parseHeaders(raw []byte) ([]message.Header, error) {
	var pairs [][2]any
	if err := json.Unmarshal(raw, &pairs); err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	var hs []message.Header
	for i, pair := range pairs {
		name, named := pair[0].(string)
		value, ok := headerValue(pair[1])
		if !named || !ok {
			return nil, fmt.Errorf("headers: element %d is not a pair of a name and a value", i)
		}
		hs = append(hs, message.Header{Name: name, Value: value})
	}
	return hs, nil
}

func headerValue(v any) ([]byte, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return []byte(v), true
	case map[string]any:
		encoded, _ := v["base64"].(string)
		value, err := base64.StdEncoding.DecodeString(encoded)
		return value, err == nil
	}
	return nil, false
}
