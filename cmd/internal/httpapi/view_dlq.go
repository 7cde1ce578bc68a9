package httpapi

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// entryView is an investigation as the API shows it: with the fields of both sources, and null where there is
// nothing.
type entryView struct {
	ID         string    `json:"id"`
	Entity     string    `json:"entity"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	RetryCount int32     `json:"retry_count"`

	UUID            uuid.UUID  `json:"dlq_entry_uuid"`
	TaskUUID        *string    `json:"task_uuid"`
	OriginalState   string     `json:"original_state"`
	DLQReason       string     `json:"dlq_reason"`
	DLQTimestamp    *time.Time `json:"dlq_timestamp"`
	Status          string     `json:"resolution_status"`
	ResolvedAt      *time.Time `json:"resolution_timestamp"`
	ResolutionNotes *string    `json:"resolution_notes"`
	ResolvedBy      *string    `json:"resolved_by"`

	SubjectType    string     `json:"subject_type"`
	SubjectID      string     `json:"subject_id"`
	Topic          *string    `json:"topic"`
	ErrorCode      *string    `json:"error_code"`
	ErrorCategory  *string    `json:"error_category"`
	Group          *uuid.UUID `json:"group_uuid"`
	Occurrences    int        `json:"occurrences"`
	LastOccurredAt *time.Time `json:"last_occurred_at"`
	Predecessor    *uuid.UUID `json:"predecessor_uuid"`
	Assignee       *string    `json:"assignee"`
	KeyHeld        bool       `json:"key_held"`
	Redrive        *string    `json:"redrive_state"`
	Generation     int        `json:"generation"`
}

func viewEntry(e dlq.Entry) entryView {
	v := entryView{
		ID: e.UUID.String(), Entity: string(e.Subject.Type), Reason: dlq.Word(e.ErrorCode, e.ErrorMessage), Message: e.ErrorMessage,
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt,
		UUID: e.UUID, OriginalState: e.OriginalState, DLQReason: string(e.Reason), DLQTimestamp: given(e.DeadLetteredAt), Status: string(e.Status),
		ResolvedAt: given(e.ResolvedAt), ResolutionNotes: given(e.ResolutionNotes), ResolvedBy: given(e.ResolvedBy),
		SubjectType: string(e.Subject.Type), SubjectID: e.Subject.ID, Topic: given(e.Topic), ErrorCode: given(e.ErrorCode),
		ErrorCategory: given(string(e.Category())), Group: given(e.GroupUUID), Occurrences: e.Occurrences, LastOccurredAt: given(e.LastOccurredAt),
		Predecessor: given(e.PredecessorUUID), Assignee: given(e.Assignee), KeyHeld: e.KeyHeld, Redrive: given(string(e.Redrive)), Generation: e.Generation,
	}
	if e.Attempts != nil {
		v.RetryCount = *e.Attempts
	}
	if e.Subject.Type == dlq.SubjectTask {
		v.TaskUUID = &v.SubjectID
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

// raw is JSON, null for none.
func raw(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}

type detailView struct {
	entryView
	TaskSnapshot json.RawMessage `json:"task_snapshot"`
	Snapshot     json.RawMessage `json:"snapshot"`
	Metadata     json.RawMessage `json:"metadata"`
	TraceID      string          `json:"trace_id,omitempty"`
	Letters      []letterView    `json:"letters"`
	Redrives     []redriveView   `json:"redrives"`
	Audit        []access.Done   `json:"audit"`
}

// letterView is a letter without what it carried, for which there is the scope read:payload. An investigation shows the
// letters' headers and, in its snapshot, key and payload of the first as redaction leaves them: without rules, all of it.
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
	EventID         *uuid.UUID      `json:"event_id"`
	Episode         *int32          `json:"episode"`
	OutboxID        *int64          `json:"outbox_id"`
	KeyKind         string          `json:"key_kind"`
	PayloadKind     string          `json:"payload_kind"`
	PayloadBytes    *int64          `json:"payload_bytes"`
	RedactedHeaders json.RawMessage `json:"redacted_headers"`
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

func viewLetter(l dlq.Letter) letterView {
	return letterView{
		ID: l.ID, Dialect: string(l.Dialect), DLQTopic: l.DLQTopic, DLQPartition: l.DLQPartition, DLQOffset: l.DLQOffset,
		DLQRecordAt: given(l.DLQRecordAt), OriginTopic: given(l.OriginTopic), OriginPartition: l.OriginPartition, OriginOffset: l.OriginOffset,
		ConsumerGroup: given(l.ConsumerGroup), EventID: given(l.EventID), Episode: l.Episode, OutboxID: l.OutboxID, KeyKind: string(l.KeyKind),
		PayloadKind: string(l.PayloadKind), PayloadBytes: l.PayloadBytes, RedactedHeaders: json.RawMessage("null"), ErrorClass: given(l.ErrorClass), ErrorCode: given(l.ErrorCode),
		ErrorCategory: given(string(l.Category())), ErrorMessage: given(l.ErrorMessage), Attempts: l.Attempts, Hops: l.Hops,
		FirstFailedAt: given(l.FirstFailedAt), LastFailedAt: given(l.LastFailedAt), RecordedAt: given(l.RecordedAt),
	}
}

type redriveView struct {
	ID         string     `json:"redrive_id"`
	Generation int        `json:"generation"`
	Operation  *uuid.UUID `json:"operation_uuid"`
	EventID    uuid.UUID  `json:"event_id"`
	OutboxID   string     `json:"outbox_id"`
	InPlace    bool       `json:"in_place"`
	Target     string     `json:"target"`
	Edited     bool       `json:"edited"`
	Actor      string     `json:"actor"`
	State      string     `json:"state"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at"`
}

func viewDetail(d dlq.Detail, done []access.Done) detailView {
	v := detailView{entryView: viewEntry(d.Entry), TaskSnapshot: raw(nil), Snapshot: raw(d.Snapshot), Metadata: raw(d.Metadata), TraceID: d.Entry.TraceID(),
		Letters: make([]letterView, len(d.Letters)), Redrives: make([]redriveView, len(d.Redrives)), Audit: notNull(done)}
	if d.Subject.Type == dlq.SubjectTask {
		v.TaskSnapshot = v.Snapshot
	}
	for i, l := range d.Letters {
		v.Letters[i] = viewLetter(l)
		v.Letters[i].RedactedHeaders = message.MarshalHeaders(l.Headers)
	}
	for i, p := range d.Redrives {
		v.Redrives[i] = redriveView{p.ID, p.Generation, given(p.Operation), p.EventID, *next(p.OutboxID), p.InPlace, p.Target, p.Edited, p.Actor,
			string(p.State), p.CreatedAt, given(p.FinishedAt)}
	}
	return v
}

type skipView struct {
	ID          string `json:"id"`
	Reason      string `json:"reason"`
	Explanation string `json:"explanation"`
}

// viewRequeued tells what became of each, in the order in which they were asked for.
func viewRequeued(asked []uuid.UUID, done dlq.Requeued) any {
	sent, skipped := map[uuid.UUID]bool{}, map[uuid.UUID]dlq.SkipReason{}
	for _, id := range done.Entries {
		sent[id] = true
	}
	for _, k := range done.Skipped {
		skipped[k.Entry] = k.Reason
	}
	v := struct {
		Requeued []string   `json:"requeued"`
		Skipped  []skipView `json:"skipped"`
	}{[]string{}, []skipView{}}
	for _, id := range asked {
		if sent[id] {
			v.Requeued = append(v.Requeued, id.String())
		} else if why, ok := skipped[id]; ok {
			v.Skipped = append(v.Skipped, skipView{id.String(), string(why), why.Explain()})
		}
	}
	return v
}

type reasonStatsView struct {
	Reason            string     `json:"dlq_reason"`
	Total             int64      `json:"total_entries"`
	Pending           int64      `json:"pending"`
	ManuallyResolved  int64      `json:"manually_resolved"`
	PermanentFailures int64      `json:"permanent_failures"`
	Cancelled         int64      `json:"cancelled"`
	Oldest            *time.Time `json:"oldest_entry"`
	Newest            *time.Time `json:"newest_entry"`
}

func viewStats(s dlq.Stats) any {
	v := struct {
		Total         int64             `json:"total"`
		ByReason      map[string]int64  `json:"by_reason"`
		Last24h       int64             `json:"last_24h"`
		Reasons       []reasonStatsView `json:"reasons"`
		Pending       int64             `json:"pending"`
		ByErrorCode   map[string]int64  `json:"by_error_code"`
		OldestPending *time.Time        `json:"oldest_pending_at"`
		Recent        []uuid.UUID       `json:"recent"`
	}{s.Total, s.ByReason, s.Last24h, make([]reasonStatsView, len(s.Reasons)), s.Pending, s.ByErrorCode, given(s.OldestPending), notNull(s.Recent)}
	if v.ByReason == nil {
		v.ByReason = map[string]int64{}
	}
	if v.ByErrorCode == nil {
		v.ByErrorCode = map[string]int64{}
	}
	for i, r := range s.Reasons {
		v.Reasons[i] = reasonStatsView{string(r.Reason), r.Total, r.Pending, r.ManuallyResolved, r.PermanentFailures, r.Cancelled, given(r.Oldest), given(r.Newest)}
	}
	return v
}
