package httpapi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

// TestSeriesCountWhatHappened: receipts and investigations of ten minutes before are in the series of a process that begins now.
func TestSeriesCountWhatHappened(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.record(dlqtest.Letters(dlqtest.Event(1, 1))[0])
	r.pending()
	r.pending()
	outboxtest.SettleAll(t, r.pool, outboxtest.Published, outboxtest.Pending, 0)
	r.pending() // waits
	r.exec(`update postrider.outbox_receipt set at = clock_timestamp() - interval '10 minutes'`)
	r.exec(`update postrider.dlq_entry set created_at = clock_timestamp() - interval '10 minutes'`)
	read := func(query string) (s api.Series, sum api.SeriesPoint) {
		t.Helper()
		if err := json.Unmarshal(r.ask("GET", "/series"+query, "").is(200).Data, &s); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Points {
			sum.Delivered, sum.GivenUp = sum.Delivered+p.Delivered, sum.GivenUp+p.GivenUp
			if p.Waiting != nil {
				sum.Waiting, sum.OldestDueSeconds = p.Waiting, p.OldestDueSeconds
			}
		}
		return s, sum
	}
	short, sum := read("")
	if short.StepSeconds != 5 || short.To.Sub(short.From) != 15*time.Minute || sum.Delivered != 2 || sum.GivenUp != 1 {
		t.Errorf("of 15 minutes it has %+v", short)
	}
	long, sum := read("?span=24h")
	if long.StepSeconds != 300 || long.To.Sub(long.From) != 24*time.Hour || sum.Delivered != 2 || sum.GivenUp != 1 {
		t.Errorf("of 24 hours it has %+v", long)
	}
	for deadline := time.Now().Add(3 * time.Minute); sum.Waiting == nil; time.Sleep(100 * time.Millisecond) { // the step ends
		if _, sum = read("?span=15m"); time.Now().After(deadline) {
			t.Fatal("no step has what waits")
		}
	}
	if *sum.Waiting != 1 || *sum.OldestDueSeconds <= 0 {
		t.Errorf("%d wait, the oldest for %v seconds", *sum.Waiting, *sum.OldestDueSeconds)
	}
}
