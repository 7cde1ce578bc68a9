package dlq

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	id := uuid.MustParse("01940000-0000-7000-8000-000000000001")
	for name, c := range map[string]struct {
		stats Stats
		want  string
	}{
		"none": {Stats{Total: 3}, `{"size":0,"oldestAgeMs":0,"byErrorCode":{},"recentSampleIds":[]}`},
		"some": {Stats{Total: 9, Pending: 4, OldestPending: now.Add(-90 * time.Second), Recent: []uuid.UUID{id},
			ByErrorCode: map[string]int64{"": 1, "UNKNOWN": 1, "MESSAGE_TOO_LARGE": 2}},
			`{"size":4,"oldestAgeMs":90000,"byErrorCode":{"MESSAGE_TOO_LARGE":2,"UNKNOWN":2},"recentSampleIds":["` + id.String() + `"]}`},
		"a clock behind the database's": {Stats{Pending: 1, OldestPending: now.Add(time.Second)}, `{"size":1,"oldestAgeMs":0,"byErrorCode":{},"recentSampleIds":[]}`},
	} {
		got, err := json.Marshal(c.stats.Summary(now))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
}
