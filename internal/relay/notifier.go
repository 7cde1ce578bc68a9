package relay

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Notifier lets writers wake an idle relay, so that it need not look all the time. It is an advantage and
// no promise: a notification may be lost, and then the event waits for the next look.
type Notifier interface {
	// Listen keeps the notifier working until ctx ends.
	Listen(ctx context.Context)
	// Notified has a value after a notification, and when Armed is true no longer.
	Notified() <-chan struct{}
	// Alive reports whether notifications are known to arrive.
	Alive() bool
	// Arm has writers notify for a while and reports whether they do. Whatever was written before does not
	// notify, so look once more.
	Arm(ctx context.Context) bool
	// Armed reports whether writers notify and will for some time.
	Armed() bool
}

const (
	// calm is how long there must have been nothing to do before writers are asked to notify: a relay that
	// is busy finds their events anyway, and notifying costs them.
	calm = 50 * time.Millisecond
	// armAgain is the pause before writers are asked once more after they could not be.
	armAgain = 250 * time.Millisecond
	// armTimeout bounds one attempt; the one that makes it does not look meanwhile.
	armTimeout = time.Second
)

// notifier is the notifier of a relay, which may have none. Only the worker that polls uses it.
type notifier struct {
	Notifier
	next time.Time // not to be armed before
}

// notified never has a value without a notifier.
func (n *notifier) notified() <-chan struct{} {
	if n.Notifier == nil {
		return nil
	}
	return n.Notified()
}

func (n *notifier) armed() bool { return n.Notifier != nil && n.Armed() }

// arm has writers notify, if that is possible and it is time for it, after nothing was there for quiet.
func (n *notifier) arm(ctx context.Context, quiet time.Duration) bool {
	if n.Notifier == nil || quiet < calm || !n.Alive() || time.Now().Before(n.next) {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, armTimeout)
	defer cancel()
	if n.Arm(bounded) {
		return true
	}
	n.next = time.Now().Add(armAgain)
	return false
}

// watchNotifier registers the gauge that says whether the notifier works. Without a notifier it is 0.
func watchNotifier(reg prometheus.Registerer, n Notifier) {
	if reg == nil {
		return
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "postrider_outbox_notifier_alive",
		Help: "1 while writers can wake this relay, 0 while it only polls."}, func() float64 {
		if n != nil && n.Alive() {
			return 1
		}
		return 0
	}))
}
