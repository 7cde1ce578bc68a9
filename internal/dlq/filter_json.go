package dlq

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// filterJSON is a Filter as operations are stored and shown with it, by the names that the API has for its parameters.
type filterJSON struct {
	Status      Status      `json:"resolution_status,omitempty"`
	Reason      Reason      `json:"dlq_reason,omitempty"`
	SubjectType SubjectType `json:"subject_type,omitempty"`
	SubjectID   string      `json:"subject_id,omitempty"`
	Topic       string      `json:"topic,omitempty"`
	ErrorCode   string      `json:"error_code,omitempty"`
	Group       uuid.UUID   `json:"group,omitzero"`
	Assignee    string      `json:"assignee,omitempty"`
	Message     string      `json:"reason,omitempty"`
	From        time.Time   `json:"from,omitzero"`
	To          time.Time   `json:"to,omitzero"`
	Limit       int         `json:"limit,omitempty"`
	Offset      int         `json:"offset,omitempty"`
}

// MarshalJSON writes the fields that are set, by the names of the API's parameters.
func (f Filter) MarshalJSON() ([]byte, error) {
	return json.Marshal(filterJSON{f.Status, f.Reason, f.Subject.Type, f.Subject.ID, f.Topic, f.ErrorCode, f.Group, f.Assignee, f.Message,
		f.From, f.To, f.Limit, f.Offset})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *Filter) UnmarshalJSON(text []byte) error {
	var j filterJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*f = Filter{j.Status, j.Reason, Subject{j.SubjectType, j.SubjectID}, j.Topic, j.ErrorCode, j.Group, j.Assignee, j.Message,
		j.From, j.To, j.Limit, j.Offset}
	return nil
}
