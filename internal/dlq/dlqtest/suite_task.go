package dlqtest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
)

func tasks(t *testing.T, b *bench) {
	b.want(b.record(Letters(Task(1, 1), Task(1, 1), Event(1, 1))...), dlq.Recorded{New: 2, Repeated: 1, Opened: 2})
	b.want(b.record(Letters(Task(1, 1))...), dlq.Recorded{Repeated: 1})
	about := dlq.Filter{Subject: dlq.Subject{Type: dlq.SubjectTask, ID: EventID(1).String()}}
	first, letters := b.only(about)
	l := dlq.Decode(Task(1, 1))
	if first.Reason != dlq.StalenessTimeout || first.OriginalState != "waiting_for_retry" || first.Topic != "" ||
		first.ErrorCode != "STALENESS_TIMEOUT" ||
		!first.DeadLetteredAt.Equal(l.LastFailedAt) || !sameJSON(first.Snapshot, `{"state": "error", "stay": 1}`) ||
		!sameJSON(first.Metadata, `{"threshold_minutes": 30}`) {
		t.Errorf("entry %+v, snapshot %s, metadata %s", first, first.Snapshot, first.Metadata)
	}
	if len(letters) != 1 || letters[0].ID != l.ID || string(letters[0].Payload) != string(l.Payload) {
		t.Errorf("letters %+v", letters)
	}
	b.want(b.record(Letters(Task(1, 2))...), dlq.Recorded{New: 1, Added: 1})
	b.resolve(first.UUID)
	b.want(b.record(Letters(Task(1, 2), Task(1, 1))...), dlq.Recorded{Repeated: 2})
	b.want(b.record(Letters(Task(1, 3))...), dlq.Recorded{New: 1, Opened: 1})
	about.Status = dlq.Pending
	if second, _ := b.only(about); second.PredecessorUUID != first.UUID || !sameJSON(second.Snapshot, `{"state": "error", "stay": 3}`) {
		t.Errorf("second %+v, snapshot %s", second, second.Snapshot)
	}
}

func sameJSON(got json.RawMessage, want string) bool {
	var a, b any
	return json.Unmarshal(got, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && reflect.DeepEqual(a, b)
}
