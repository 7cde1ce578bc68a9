package relay

import "time"

// LongestPauses returns, for each cause of a hold that is probed, the longest pause that the relay sets between its
// probes, where retry is the longest delay between the attempts of an event.
func LongestPauses(retry time.Duration) map[Cause]time.Duration {
	return map[Cause]time.Duration{CauseRetry: retry, CauseInfrastructure: infrastructureProbeCap, CauseRoute: routeProbeCap,
		CauseBreaker: breakerProbeCap}
}

// LongestPause is the longest of these. If a probe is further ahead, a store concludes that the clock was put back. A probe
// that is nearer waits, even if its cause never pauses for so long.
func LongestPause(retry time.Duration) time.Duration {
	longest := retry
	for _, pause := range LongestPauses(retry) {
		longest = max(longest, pause)
	}
	return longest
}

// LongestLetterPause is how long a dead letter that its topic refused waits, until it is offered again. If a letter is to
// wait longer, a store concludes that the clock was put back.
const LongestLetterPause = letterPause

// LongestSilence returns for how long a relay with this PublishTimeout may work on events that it took without a word to
// the session that took them: it waits for the acknowledgements, and asks whether any broker
// is there. A timeout that ends silent transactions must be longer.
func LongestSilence(publishTimeout time.Duration) time.Duration {
	return settleTimeout + publishTimeout + pingTimeout
}
