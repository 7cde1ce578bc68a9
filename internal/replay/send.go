package replay

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/relay"
)

// maxAttempts is how often a message is tried that fails alone for a reason that may pass; then it is refused.
const maxAttempts = 5

// send publishes messages until each is delivered or refused for good, however long brokers are away, and returns an
// outcome for each; messages that were not reached have none. Unless refused ones are skipped, the first ends it. It
// ends, too, with an error when a topic is missing or may not be written, and when ctx ends; then it waits a little for
// the messages that are on their way.
func (r *Replay) send(ctx context.Context, ms []relay.Message) ([]relay.Outcome, error) {
	out := make([]relay.Outcome, len(ms))
	waiting := make([]int, len(ms))
	for i := range waiting {
		waiting[i] = i
	}
	attempts := map[int]int{}
	for pause := firstPause; len(waiting) > 0; {
		var again []int
		var missing error
		problem, progressed, refused := "", false, false
		for n, o := range r.publishSome(ctx, ms, waiting) {
			i := waiting[n]
			if o.Class == relay.Record {
				attempts[i]++
			}
			switch {
			case o.Class == relay.Delivered:
				out[i], progressed = o, true
			case o.Class == relay.Permanent, o.Class == relay.Record && attempts[i] >= maxAttempts:
				out[i], progressed, refused = o, true, true
			case o.Class == relay.Route:
				missing = fmt.Errorf("topic %s does not take messages: %s: %s", ms[i].Topic, o.Code, o.Message)
			default:
				again = append(again, i)
				if o.Class != relay.Withheld && problem == "" {
					problem = fmt.Sprintf("topic %s: %s: %s", ms[i].Topic, o.Code, o.Message)
				}
			}
		}
		waiting = again
		switch {
		case missing != nil:
			return out, missing
		case refused && !r.options.SkipRefused, len(waiting) == 0:
			return out, nil
		case ctx.Err() != nil:
			return out, ctx.Err()
		case progressed:
			pause = firstPause
			continue
		}
		r.waiting("send", cmp.Or(problem, "earlier messages of the same keys"))
		if loop.Sleep(ctx, pause) != nil {
			return out, ctx.Err()
		}
		pause = min(2*pause, longestPause)
	}
	return out, nil
}

// publishSome publishes some of the messages once. When ctx ends it waits a little for the acknowledgements.
func (r *Replay) publishSome(ctx context.Context, ms []relay.Message, some []int) []relay.Outcome {
	sending := make([]relay.Message, len(some))
	for n, i := range some {
		sending[n] = ms[i]
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(stopLimit, cancel)
		context.AfterFunc(bounded, func() { timer.Stop() })
	})
	defer stop()
	return r.publish.Publish(bounded, sending)
}
