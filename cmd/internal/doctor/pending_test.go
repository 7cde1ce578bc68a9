package doctor

import (
	"strings"
	"testing"
	"time"
)

func TestManyPendingInvestigationsAreNotWell(t *testing.T) {
	t.Parallel()
	for pending, want := range map[int]Verdict{manyPending: OK, manyPending + 1: Warning, 100_001: Warning} {
		got := judgeInvestigations(pending, time.Hour, 24*time.Hour)
		if len(got) != 1 || got[0].verdict != want || want == Warning && !strings.Contains(got[0].hint, "postrider dlq groups") {
			t.Errorf("%d: %+v", pending, got)
		}
	}
}
