package retry_test

import (
	"fmt"

	"github.com/postrider/postrider/retry"
)

// The default: 1 s doubling to 60 s, and given up after the fifth failed attempt. The second argument draws the jitter;
// with 0 there is none.
func ExamplePolicy() {
	p := retry.Default()
	for attempt := 1; !p.Exhausted(attempt, 0); attempt++ {
		fmt.Printf("after attempt %d wait %v\n", attempt, p.Delay(attempt, 0))
	}
	// Output:
	// after attempt 1 wait 1s
	// after attempt 2 wait 2s
	// after attempt 3 wait 4s
	// after attempt 4 wait 8s
}
