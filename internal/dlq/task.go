package dlq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// TaskLetterType is the value of the header ce_type by which the dead letter of a task is known.
const TaskLetterType = "postrider.task.dead_lettered.v1"

// CodeBrokenTaskLetter is the error code of a record that says it is the dead letter of a task and cannot
// be read as one; the error message says why.
const CodeBrokenTaskLetter = "BROKEN_TASK_LETTER"

// Headers of CloudEvents in Kafka's binary mode, as far as a letter needs them.
const (
	headerType     = "ce_type"
	headerSubject  = "ce_subject"
	headerLetterID = "ce_letterid"
)

// MaxTaskSnapshotBytes is how large the snapshot of a task may be to be taken as it is, in bytes (1 MiB). Snapshots that
// Postrider writes are under 900 kB.
const MaxTaskSnapshotBytes = 1 << 20

// taskLetter is the value of a task's dead letter, as far as it is read.
type taskLetter struct {
	LetterID       string          `json:"letter_id"`
	TaskUUID       string          `json:"task_uuid"`
	Namespace      string          `json:"namespace_name"`
	Name           string          `json:"task_name"`
	Reason         string          `json:"dlq_reason"`
	OriginalState  string          `json:"original_state"`
	DeadLetteredAt string          `json:"dead_lettered_at"`
	ErrorCode      string          `json:"error_code"`
	ErrorMessage   string          `json:"error_message"`
	Metadata       json.RawMessage `json:"metadata"`
	Snapshot       json.RawMessage `json:"snapshot"`
}

// aboutTask reports whether the headers claim to be a task's dead letter.
func aboutTask(hs []message.Header) bool { return lastHeader(hs, headerType) == TaskLetterType }

func lastHeader(hs []message.Header, name string) string {
	for _, h := range slices.Backward(hs) {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// decodeTask reads the dead letter of a task that came as it was sent. What names the letter and its task
// must be right; times, texts and the snapshot are read leniently.
func decodeTask(r Record) (Letter, error) {
	body, err := readTaskLetter(r.Value)
	if err != nil {
		return Letter{}, err
	}
	h := readHeaders(r.Headers)
	l := readFrom(r)
	l.Dialect = DialectPostrider
	l.EventID, _ = uuid.Parse(h.text(message.HeaderEventID)) // of a copy by another tool it may be gone
	l.KeyKind, _ = kindOf(r.Key)
	l.PayloadKind, l.PayloadBytes = kindOf(r.Value)
	l.Headers = h.theirs
	body.describe(&l)
	return l, nil
}

// unwrapTask handles the dead letter of a task's dead letter that could not be delivered: it becomes a letter about the
// task, as it should have been. If the value is only referred to, its headers still name the task and the letter. By
// that id the ledger knows that the letter arrived; the task is archived no sooner.
func unwrapTask(l *Letter) {
	if body, err := readTaskLetter(l.Payload); err == nil {
		body.describe(l)
		return
	}
	if l.PayloadKind != Reference {
		return // it stays a letter about the event
	}
	if task, err := uuid.Parse(lastHeader(l.Headers, headerSubject)); err == nil && task != uuid.Nil {
		l.Subject, l.TaskUUID = Subject{Type: SubjectTask, ID: task.String()}, task
		l.Reason = Unclassified // what the letter's error says is not why the task was dead-lettered
		l.OriginalState = "unknown"
		if id := lastHeader(l.Headers, headerLetterID); letterOf(l.Subject.ID, id) {
			l.ID = id
			if reason := Reason(id[strings.LastIndexByte(id, ':')+1:]); slices.Contains(Reasons(), reason) {
				l.Reason = reason
			}
		}
	}
}

// readTaskLetter reads and checks what names the letter, its task and its cause.
func readTaskLetter(value []byte) (*taskLetter, error) {
	if value == nil {
		return nil, errors.New("it has no value")
	}
	body := &taskLetter{}
	if err := json.Unmarshal(value, body); err != nil {
		return nil, fmt.Errorf("the value is not the JSON of one: %w", err)
	}
	task, err := uuid.Parse(body.TaskUUID)
	if err != nil || task == uuid.Nil {
		return nil, errors.New("task_uuid is not a uuid")
	}
	body.TaskUUID = task.String()
	if !letterOf(body.TaskUUID, body.LetterID) {
		return nil, fmt.Errorf("letter_id does not begin with task:%s: or is longer than %d bytes", body.TaskUUID, maxIDBytes)
	}
	if body.OriginalState == "" {
		return nil, errors.New("original_state is missing")
	}
	return body, nil
}

// letterOf reports whether a letter's id is of this task, as it must be: letters of all kinds are looked up by their id.
func letterOf(task, id string) bool {
	return strings.HasPrefix(id, "task:"+task+":") && len(id) <= maxIDBytes && id == storableText(id, maxIDBytes)
}

// describe makes the letter one about the task.
func (t *taskLetter) describe(l *Letter) {
	l.ID = t.LetterID
	l.TaskUUID = uuid.MustParse(t.TaskUUID)
	l.Subject = Subject{Type: SubjectTask, ID: t.TaskUUID}
	l.Reason = Unclassified // a reason of a later version
	if slices.Contains(Reasons(), Reason(t.Reason)) {
		l.Reason = Reason(t.Reason)
	}
	l.OriginalState = storableText(t.OriginalState, maxNameBytes)
	l.OriginTopic = ""
	l.Template = storableText(strings.Join(nonEmpty(t.Namespace, t.Name), "/"), 2*maxNameBytes)
	l.ErrorCode = storableText(t.ErrorCode, maxNameBytes)
	l.ErrorMessage = storableText(t.ErrorMessage, maxMessageBytes)
	if at, err := time.Parse(time.RFC3339Nano, t.DeadLetteredAt); err == nil {
		l.LastFailedAt = storableTime(at)
	}
	l.TaskSnapshot = storableObject(t.Snapshot, MaxTaskSnapshotBytes)
	l.Metadata = storableObject(t.Metadata, MaxSnapshotBytes)
	if l.Reason == MaxRetriesExceeded {
		// The retries of the step; how often the whole task was retried its row says.
		var m struct {
			Error struct {
				RetryCount *int32 `json:"retry_count"`
			} `json:"error"`
		}
		if json.Unmarshal(t.Metadata, &m) == nil && m.Error.RetryCount != nil && *m.Error.RetryCount >= 0 {
			l.Attempts = m.Error.RetryCount
		}
	}
}

// storableObject returns raw if it is a JSON object that jsonb takes, of at most limit bytes; otherwise nil.
func storableObject(raw json.RawMessage, limit int) json.RawMessage {
	if len(raw) > limit || len(raw) == 0 || raw[0] != '{' || !storableJSON(raw) {
		return nil
	}
	return raw
}
