package cli

import (
	"encoding/json"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// The JSON of investigations and letters: the columns of dlq_entry and dlq_letter under their own
// names, with null where they have none.

type entryView struct {
	UUID            string     `json:"dlq_entry_uuid"`
	SubjectType     string     `json:"subject_type"`
	SubjectID       string     `json:"subject_id"`
	OriginalState   string     `json:"original_state"`
	Reason          string     `json:"dlq_reason"`
	DeadLetteredAt  *time.Time `json:"dlq_timestamp"`
	Status          string     `json:"resolution_status"`
	ResolvedAt      *time.Time `json:"resolution_timestamp"`
	ResolutionNotes *string    `json:"resolution_notes"`
	ResolvedBy      *string    `json:"resolved_by"`
	Topic           *string    `json:"topic"`
	ErrorCode       *string    `json:"error_code"`
	ErrorCategory   *string    `json:"error_category"` // validation, transient or fatal
	ErrorMessage    *string    `json:"error_message"`
	Occurrences     int        `json:"occurrences"`
	LastOccurredAt  *time.Time `json:"last_occurred_at"`
	PredecessorUUID *string    `json:"predecessor_uuid"`
	CreatedAt       *time.Time `json:"created_at"`
	UpdatedAt       *time.Time `json:"updated_at"`
}

func viewEntry(e dlq.Entry) entryView {
	v := entryView{
		UUID: e.UUID.String(), SubjectType: string(e.Subject.Type), SubjectID: e.Subject.ID, OriginalState: e.OriginalState,
		Reason: string(e.Reason), DeadLetteredAt: given(e.DeadLetteredAt), Status: string(e.Status), ResolvedAt: given(e.ResolvedAt),
		ResolutionNotes: given(e.ResolutionNotes), ResolvedBy: given(e.ResolvedBy), Topic: given(e.Topic), ErrorCode: given(e.ErrorCode),
		ErrorCategory: given(string(e.Category())), ErrorMessage: given(e.ErrorMessage), Occurrences: e.Occurrences, LastOccurredAt: given(e.LastOccurredAt),
		CreatedAt: given(e.CreatedAt), UpdatedAt: given(e.UpdatedAt),
	}
	if e.PredecessorUUID != [16]byte{} {
		v.PredecessorUUID = given(e.PredecessorUUID.String())
	}
	return v
}

// given is a pointer to a value, nil for the zero value.
func given[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// detailView is the JSON of dlq show.
type detailView struct {
	entryView
	Snapshot json.RawMessage `json:"snapshot"`
	Metadata json.RawMessage `json:"metadata"`
	Letters  []letterView    `json:"letters"`
}

type letterView struct {
	ID              string          `json:"letter_id"`
	Dialect         string          `json:"dialect"`
	DLQTopic        string          `json:"dlq_topic"`
	DLQPartition    int32           `json:"dlq_partition"`
	DLQOffset       int64           `json:"dlq_offset"`
	DLQRecordAt     *time.Time      `json:"dlq_record_at"`
	OriginTopic     *string         `json:"origin_topic"`
	OriginPartition *int32          `json:"origin_partition"`
	OriginOffset    *int64          `json:"origin_offset"`
	ConsumerGroup   *string         `json:"consumer_group"`
	EventID         *string         `json:"event_id"`
	Episode         *int32          `json:"episode"`
	OutboxID        *int64          `json:"outbox_id"`
	Key             []byte          `json:"key"` // base64; this and payload are of the letter that was asked for
	KeyKind         string          `json:"key_kind"`
	Payload         []byte          `json:"payload"`
	PayloadKind     string          `json:"payload_kind"`
	PayloadBytes    *int64          `json:"payload_bytes"`
	Headers         json.RawMessage `json:"headers"`
	ErrorClass      *string         `json:"error_class"`
	ErrorCode       *string         `json:"error_code"`
	ErrorCategory   *string         `json:"error_category"`
	ErrorMessage    *string         `json:"error_message"`
	Attempts        *int32          `json:"attempts"`
	Hops            int             `json:"hops"`
	FirstFailedAt   *time.Time      `json:"first_failed_at"`
	LastFailedAt    *time.Time      `json:"last_failed_at"`
	RecordedAt      *time.Time      `json:"recorded_at"`
}

// viewDetail shows whole, if not nil, with its bytes, the other letters without.
func viewDetail(d dlq.Detail, whole *dlq.Letter) detailView {
	v := detailView{entryView: viewEntry(d.Entry), Snapshot: orNull(d.Snapshot), Metadata: orNull(d.Metadata), Letters: make([]letterView, len(d.Letters))}
	for i := range d.Letters {
		if v.Letters[i] = viewLetter(&d.Letters[i]); whole != nil && whole.ID == d.Letters[i].ID {
			v.Letters[i] = viewLetter(whole)
			whole = nil
		}
	}
	if whole != nil { // an older letter than the listed ones
		v.Letters = append(v.Letters, viewLetter(whole))
	}
	return v
}

func viewLetter(l *dlq.Letter) letterView {
	v := letterView{
		ID: l.ID, Dialect: string(l.Dialect), DLQTopic: l.DLQTopic, DLQPartition: l.DLQPartition, DLQOffset: l.DLQOffset,
		DLQRecordAt: given(l.DLQRecordAt), OriginTopic: given(l.OriginTopic), OriginPartition: l.OriginPartition, OriginOffset: l.OriginOffset,
		ConsumerGroup: given(l.ConsumerGroup), Episode: l.Episode, OutboxID: l.OutboxID, Key: l.Key, KeyKind: string(l.KeyKind), Payload: l.Payload,
		PayloadKind: string(l.PayloadKind), PayloadBytes: l.PayloadBytes, Headers: message.MarshalHeaders(l.Headers),
		ErrorClass: given(l.ErrorClass), ErrorCode: given(l.ErrorCode),
		ErrorCategory: given(string(l.Category())), ErrorMessage: given(l.ErrorMessage), Attempts: l.Attempts, Hops: l.Hops,
		FirstFailedAt: given(l.FirstFailedAt), LastFailedAt: given(l.LastFailedAt), RecordedAt: given(l.RecordedAt),
	}
	if l.EventID != [16]byte{} {
		v.EventID = given(l.EventID.String())
	}
	return v
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
