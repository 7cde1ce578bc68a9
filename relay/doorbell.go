package relay

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Doorbell lets writers wake an idle relay, so that it need not look all the time. It is an advantage and
// no promise: a ring may be lost, and then the event waits for the next look.
type Doorbell interface {
	// Listen keeps the doorbell working until ctx ends.
	Listen(ctx context.Context)
	// Rung has a value after a ring, and when Armed is true no longer.
	Rung() <-chan struct{}
	// Alive reports whether rings are known to arrive.
	Alive() bool
	// Arm has writers ring for a while and reports whether they do. Whatever was written before does not
	// ring, so look once more.
	Arm(ctx context.Context) bool
	// Armed reports whether writers ring and will for some time.
	Armed() bool
}

const (
	// calm is how long there must have been nothing to do before writers are asked to ring: a relay that
	// is busy finds their events anyway, and ringing costs them.
	calm = 50 * time.Millisecond
	// armAgain is the pause before writers are asked once more after they could not be.
	armAgain = 250 * time.Millisecond
	// armTimeout bounds one attempt; the one that makes it does not look meanwhile.
	armTimeout = time.Second
)

// bell is the doorbell of a relay, which may have none. Only the worker that polls uses it.
type bell struct {
	Doorbell
	next time.Time // not to be armed before
}

// rung never has a value without a doorbell.
func (b *bell) rung() <-chan struct{} {
	if b.Doorbell == nil {
		return nil
	}
	return b.Rung()
}

func (b *bell) armed() bool { return b.Doorbell != nil && b.Armed() }

// arm has writers ring, if that is possible and it is time for it, after nothing was there for quiet.
func (b *bell) arm(ctx context.Context, quiet time.Duration) bool {
	if b.Doorbell == nil || quiet < calm || !b.Alive() || time.Now().Before(b.next) {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, armTimeout)
	defer cancel()
	if b.Arm(bounded) {
		return true
	}
	b.next = time.Now().Add(armAgain)
	return false
}

// watchDoorbell registers the gauge that says whether the doorbell works. Without a doorbell it is 0.
func watchDoorbell(reg prometheus.Registerer, d Doorbell) {
	if reg == nil {
		return
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "postrider_outbox_doorbell_alive",
		Help: "1 while writers can wake this relay, 0 while it only polls."}, func() float64 {
		if d != nil && d.Alive() {
			return 1
		}
		return 0
	}))
}
