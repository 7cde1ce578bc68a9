package soak

import (
	"testing"
	"time"
)

// The judge's patience lies between what two whole calms of a long run show and what three do: a key that stood
// still over three is found. Between two calms lie an aftermath and seven faults, so a pause of a minute spans
// two at most. After the last fault the longest pause of a probe must fit in.
func TestPatience(t *testing.T) {
	t.Parallel()
	if patience <= 2*long.calm || patience >= 3*long.calm {
		t.Errorf("the patience of %v is not between two and three calms of %v", patience, long.calm)
	}
	if longest := time.Minute; longest > aftermath+patience { // of retries and of missing topics; breakers are off
		t.Errorf("a hold may pause for %v, and the backlog has %v", longest, aftermath+patience)
	}
}
