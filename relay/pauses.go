package relay

import "time"

// LongestPause is the longest pause that the relay sets between the probes of any hold, where retry is the longest delay
// between the attempts of an event. A store takes a probe that is further ahead for one that the clock was put back under.
// Holds that wait for somebody wait for ever.
func LongestPause(retry time.Duration) time.Duration {
	return max(retry, infrastructureProbeCap, routeProbeCap, breakerProbeCap)
}

// LongestLetterPause is how long a dead letter that its topic refused waits, until it is offered again. A store takes a
// letter that is to wait longer for one that the clock was put back under.
const LongestLetterPause = letterPause

// LongestSilence returns for how long a relay with this PublishTimeout may work on what it took without a word to
// the session that took it: it waits for the acknowledgements, and asks whether any broker
// is there. What ends silent transactions must wait longer.
func LongestSilence(publishTimeout time.Duration) time.Duration {
	return settleTimeout + publishTimeout + pingTimeout
}
