package console

import (
	"fmt"
	"net/url"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/relay"
)

// keptEvents are events that fail as those of a cause do, and that a circuit breaker keeps. They have no investigation: what is
// done with the cause does not reach them.
type keptEvents struct {
	// Text says how many they are, what keeps them and what comes next; Path leads to the hold. Them is it or them.
	Text, Path, Them string
}

// keptOf finds what a circuit breaker keeps of a cause; nil for nothing.
func (v *visit) keptOf(g api.Group) (*keptEvents, error) {
	topic, code := text(g.Topic), g.Parts.ErrorCode
	if topic == "" || code == "" || !v.seesOwn() {
		return nil, nil
	}
	q := url.Values{"topic": {topic}, "cause": {string(relay.CauseBreaker)}}
	path := "/outbox?" + q.Encode() + "#holds"
	q.Set("page_size", "100")
	found, err := get[api.List[api.Hold]](v, "/holds", q)
	if err != nil {
		return nil, err
	}
	for _, h := range found.Items {
		if text(h.FailureCode) == code && !h.Draining && h.Parked > 0 {
			them := "them"
			if h.Parked == 1 {
				them = "it"
			}
			return &keptEvents{Text: keptText(h), Path: path, Them: them}, nil
		}
	}
	return nil, nil
}

func keptText(h api.Hold) string {
	wait := "wait behind the circuit breaker of %s and have no investigation."
	if h.Parked == 1 {
		wait = "waits behind the circuit breaker of %s and has no investigation."
	}
	said := some(h.Parked, "more event that fails", "more events that fail") + " with " + clip(text(h.FailureCode), 80) + " " + fmt.Sprintf(wait, clip(h.Topic, 120))
	if h.NextProbeAt != nil {
		said += " The relay tries one at " + h.NextProbeAt.UTC().Format("15:04:05 UTC") + "; if it arrives, it tries all."
	}
	return said + " An event that fails again goes on waiting."
}
