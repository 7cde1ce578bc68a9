package soak

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

// The judge's patience lies between what two whole calms of a long run show and what three do: a key that stood
// still over three is found. Between two calms lie an aftermath and seven faults, so a pause of a minute spans
// two at most. After the last fault the longest pause of a probe must fit in.
func TestPatience(t *testing.T) {
	t.Parallel()
	if long.patience <= 2*long.calm || long.patience >= 3*long.calm {
		t.Errorf("the patience of %v is not between two and three calms of %v", long.patience, long.calm)
	}
	pauses := relay.LongestPauses(time.Minute)
	for _, cause := range []relay.Cause{relay.CauseRetry, relay.CauseInfrastructure, relay.CauseRoute} { // circuit breakers are off
		for _, p := range []pace{brief, long} {
			if pauses[cause] > aftermath+p.patience {
				t.Errorf("a hold because of %s may pause for %v, and the backlog has %v", cause, pauses[cause], aftermath+p.patience)
			}
		}
	}
}
