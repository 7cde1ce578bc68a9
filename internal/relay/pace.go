package relay

import "time"

// pace is how fast events have come lately.
type pace struct {
	since time.Time
	n     int
	rate  float64 // a second
}

const (
	// paceOver is the least time that a rate is taken over. It is also how long a change goes unnoticed.
	paceOver = 50 * time.Millisecond
	// paceQuick is the rate, in events a second, above which looks may be further apart. Below it latency counts.
	paceQuick = 3000
	// paceMost is how many times further apart they may be, at most paceLongest.
	paceMost    = 10
	paceLongest = 20 * time.Millisecond
)

// add notes that a look that ended now found n events.
func (p *pace) add(now time.Time, n int) {
	p.n += n
	if d := now.Sub(p.since); d >= paceOver {
		p.rate = float64(p.n) / d.Seconds()
		p.since, p.n = now, 0
	}
}

// factor is how many times further apart looks should be. The cost of a look does not depend on what it finds, and the
// writers pay for it: 500 looks a second are a third of two cores. The factor grows with the square of the rate. So the
// more events there are, the more a look finds, and the cost of looking falls while that of sending grows.
func (p *pace) factor() float64 {
	f := p.rate / paceQuick
	return min(max(1, f*f), paceMost)
}

// apart is how far apart looks should be, if they are least apart at a low rate.
func (p *pace) apart(least time.Duration) time.Duration {
	return min(time.Duration(float64(least)*p.factor()), max(least, paceLongest))
}
