package relaytest

import (
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestFault02StoppedAndContinued: a relay is stopped with a batch at the broker, for longer than PostgreSQL waits for a
// leader that is silent, and goes on when another one has long carried everything. The broker appends the batch only
// then: these are copies, no first occurrence changes its place, and the zombie writes nothing.
func TestFault02StoppedAndContinued(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	arrived, appends := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	r.broker.Cluster.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.broker.Cluster.KeepControl()
		if first.CompareAndSwap(false, true) {
			close(arrived)
			r.broker.Cluster.SleepControl(func() { <-appends })
		}
		return nil, nil, false
	})
	l.write(topic, 6, 5)
	zombie := r.startChild(dlq, childConfig{Name: "zombie", LeaderSilence: 2 * time.Second})
	select {
	case <-arrived:
	case <-time.After(3 * time.Minute):
		t.Fatal("the zombie sends nothing")
	}
	zombie.signal(syscall.SIGSTOP)
	heir := r.start(dlq)
	r.until(`(select max(term) from postrider.outbox_receipt) = 2`)
	l.write(topic, 6, 5)
	r.until(drained)
	heir.halt()
	close(appends)
	zombie.signal(syscall.SIGCONT)
	zombie.said("loop=lead err=") // its term is over
	l.write(topic, 6, 5)          // the zombie is a relay like any other now
	r.until(drained)
	zombie.finish()
	if v := l.wantAll(dlq); v.Duplicates == 0 {
		t.Error("the zombie sent nothing: nothing was tested")
	}
	if n := pgtest.Value[int](t, r.pool, `select count(*) from postrider.outbox_receipt where term = 1`); n != 1 {
		t.Errorf("the first term wrote %d receipts, want the one that begins it", n)
	}
}

// TestFault04PanicInAWorker: a panic ends the whole process, not one worker of four in silence; and an
// event that does it to every relay is found and given up, alone.
func TestFault04PanicInAWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 4, 5)
	bad := l.poison(topic, "k1", 10)
	l.write(topic, 4, 5)
	deaths := 0
	for {
		child := r.startChild(dlq, childConfig{PanicOver: bad})
		if child.works(r, drained) {
			child.finish()
			break
		}
		var exit *exec.ExitError
		if err := child.end(); !errors.As(err, &exit) || !strings.Contains(child.log.String(), "panic: over ") {
			t.Fatalf("the child ended with %v:\n%s", err, child.log.Tail(4000))
		}
		if deaths++; deaths > 12 {
			t.Fatalf("%d relays died over one event", deaths)
		}
	}
	if deaths < 3 {
		t.Errorf("only %d relays died", deaths)
	}
	l.wantAll(dlq)
	var code string
	if err := r.pool.QueryRow(t.Context(), `select last_error_code from postrider.v_outbox_event where state = 'dead_lettered'`).Scan(&code); err != nil || code != relay.CodeWorkerKilled {
		t.Errorf("the event was given up with %s, %v", code, err)
	}
}

// TestFault05DifferentSettings rolls relays that agree on nothing but the schema, as deployments do: there are always two,
// and each ends in order after it led. Nothing is sent twice.
func TestFault05DifferentSettings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topics, dlq := []string{r.broker.Topic(t, 4, nil), r.broker.Topic(t, 1, nil)}, r.broker.Topic(t, 1, nil)
	l := r.newLedger(topics...)
	begin := func(worker string, batch, dispatches int, timeout time.Duration) *running {
		return r.startWith(dlq, options{engine: func(c *relay.Config) {
			c.Worker, c.BatchSize, c.Dispatches, c.PublishTimeout = worker, batch, dispatches, timeout
		}})
	}
	// It settled something, and not only its first receipt.
	const led = `exists (select from postrider.outbox_receipt r join postrider.outbox_receipt b on b.term = r.term and b.note = 'began'
		where starts_with(b.worker, $1) and r.note is null)`
	before := begin("a", 7, 1, 25*time.Second)
	for _, next := range []struct {
		name              string
		batch, dispatches int
		timeout           time.Duration
	}{{"b", 500, 8, 20 * time.Second}, {"c", 50, 3, time.Second}, {"a", 1, 2, 20 * time.Second}, {"d", 200, 16, 10 * time.Second}} {
		after := begin(next.name, next.batch, next.dispatches, next.timeout)
		for range 20 {
			for _, topic := range topics {
				l.write(topic, 10, 2)
			}
		}
		before.halt()
		for _, topic := range topics {
			l.write(topic, 10, 2)
		}
		r.until(led, next.name)
		before = after
	}
	r.until(drained)
	l.wantOnce(dlq)
}

// TestFault06NoFiles: the relay may write no file, has no place for temporary ones, and its working
// directory is gone; it cannot tell.
func TestFault06NoFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 5, 10)
	l.poison(topic, "k0", maxMessageBytes)
	child := r.startChild(dlq, childConfig{Bare: true})
	if !child.works(r, drained) {
		t.Fatalf("the child ended with %v:\n%s", child.err, child.log.Tail(4000))
	}
	child.finish()
	l.wantOnce(dlq)
}

// TestFault06NoDescriptors: no connection can be opened, because the process has too many files open. It
// goes on trying, and works as soon as it may.
func TestFault06NoDescriptors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
	l := r.newLedger(topic)
	l.write(topic, 5, 10)
	child := r.startChild(dlq, childConfig{Files: 7})
	child.said("too many open files")
	child.signal(syscall.SIGUSR1)
	if !child.works(r, drained) {
		t.Fatalf("the child ended with %v:\n%s", child.err, child.log.Tail(4000))
	}
	child.finish()
	l.wantOnce(dlq)
}
