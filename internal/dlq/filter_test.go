package dlq

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestFilterAsJSON: fields that are not set are not written, and all others come back.
func TestFilterAsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 8, 0, 0, 5000, time.UTC)
	for want, f := range map[string]Filter{
		`{}`: {},
		`{"resolution_status":"pending","dlq_reason":"undeliverable","subject_type":"event","subject_id":"s","source":"orders","topic":"t","error_code":"c",` +
			`"group":"11111111-2222-3333-4444-555555555555","assignee":"ada","consumer_group":"g","dlq_topic":"d","event_id":"11111111-2222-3333-4444-666666666666","reason":"word","text":"text","from":"2026-01-31T08:00:00.000005Z","to":"2026-01-31T09:00:00.000005Z","limit":3,"offset":4}`: {
			Status: Pending, Reason: Undeliverable, Subject: Subject{Type: SubjectEvent, ID: "s"}, Source: "orders", Topic: "t", ErrorCode: "c",
			Group: uuid.MustParse("11111111-2222-3333-4444-555555555555"), Assignee: "ada", ConsumerGroup: "g", DLQTopic: "d",
			EventID: uuid.MustParse("11111111-2222-3333-4444-666666666666"), Word: "word", Message: "text", From: at, To: at.Add(time.Hour), Limit: 3, Offset: 4},
	} {
		text, err := json.Marshal(Scope{Filter: &f})
		if err != nil || string(text) != `{"filter":`+want+`}` {
			t.Errorf("%s, %v; want %s", text, err, want)
		}
		var back Scope
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(*back.Filter, f) {
			t.Errorf("%+v, %v; want %+v", back.Filter, err, f)
		}
	}
	// Each field is written: a new one must not be forgotten.
	if fields := reflect.TypeFor[Filter]().NumField(); fields != 17 {
		t.Errorf("a filter has %d fields; write and read them all", fields)
	}
}
