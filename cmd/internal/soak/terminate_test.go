package soak

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestFault03Terminated ends serve by SIGTERM in the middle of the work, while a topic appends what it gets
// and never says so. It must end in its time, and call nothing published that its topic does not hold. Events with
// an unknown outcome are left to the next relay, which carries all of them.
func TestFault03Terminated(t *testing.T) {
	t.Parallel()
	db, b := pgtest.New(t), kafkatest.Kfake(t, kfake.NumBrokers(3))
	pool := db.Pool(t)
	// Another topic falls silent each time: a hold that is known from before is no sign of work in hand.
	topics := []string{b.Topic(t, 4, nil), b.Topic(t, 2, nil), b.Topic(t, 2, nil), b.Topic(t, 2, nil)}
	dlq := b.Topic(t, 1, nil)
	w := &Workload{Pool: pool, Topics: topics, Keys: 100, Seed: seed(t)}
	if err := w.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	binary := buildtest.Program(t, "cmd/postrider")
	start := func() *process {
		return run(t, binary, []string{"serve", "--http", "127.0.0.1:0"}, db.URL, b, "DLQ_TOPIC="+dlq, "OUTBOX_PUBLISH_TIMEOUT_MS=1000", "OUTBOX_BATCH_SIZE=200")
	}
	for _, silent := range topics[1:] {
		f := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: silent, Err: kerr.RequestTimedOut, Count: -1})
		if err := w.Load(t.Context(), 5_000); err != nil {
			t.Fatal(err)
		}
		p := start()
		p.said(t, "relay started") // a signal before that is no test
		until(t, pool, "no batch with the silent topic", `select 1 - least(1, count(*))::int from postrider.outbox_hold
			where error_code = 'UNKNOWN_OUTCOME' and topic = '`+silent+`'`)
		p.stop(t)
		until(t, pool, "the relay that ended in order did not hand over", `select count(*) from postrider.outbox_receipt r
			where r.number = (select max(number) from postrider.outbox_receipt) and r.note is distinct from 'ended'`)
		wantPublishedIsThere(t, pool, b, topics)
		f.Remove()
	}
	last := start()
	drained(t, pool)
	last.stop(t)
	v := w.judge(t, b, dlq)
	if v.DeadLettered > 0 || v.Delivered != int(w.Written.Load()) {
		t.Errorf("delivered %d of %d, %d were given up", v.Delivered, w.Written.Load(), v.DeadLettered)
	}
}

// TestFault03TerminatedTwice: the second signal ends a relay at once that still waits for acknowledgements.
// That is no other end than any crash: the next relay carries on.
func TestFault03TerminatedTwice(t *testing.T) {
	t.Parallel()
	db, b := pgtest.New(t), kafkatest.Kfake(t)
	pool := db.Pool(t)
	topics := []string{b.Topic(t, 2, nil)}
	dlq := b.Topic(t, 1, nil)
	w := &Workload{Pool: pool, Topics: topics, Keys: 50, Seed: seed(t)}
	if err := w.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Load(t.Context(), 2000); err != nil {
		t.Fatal(err)
	}
	binary := buildtest.Program(t, "cmd/postrider")
	const publishTimeout = 12 * time.Second // the longest that the setting takes
	env := []string{"DLQ_TOPIC=" + dlq, fmt.Sprint("OUTBOX_PUBLISH_TIMEOUT_MS=", publishTimeout.Milliseconds())}
	f := b.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	for tries := 1; ; tries++ {
		started, known := time.Now(), f.Hits()
		p := run(t, binary, []string{"serve", "--http", "127.0.0.1:0"}, db.URL, b, env...)
		inFlight, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		err := f.Wait(inFlight, known+1)
		cancel()
		if err != nil {
			t.Fatalf("no batch is in flight: %v\n%s", err, p.log)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.said(t, "stopping")
		signalled := time.Since(started)
		over, stopAsking := context.WithCancel(t.Context())
		go func() { // a signal that comes together with the first one is taken for that one
			for over.Err() == nil {
				_ = p.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended: its end says so
				rest(50 * time.Millisecond)
			}
		}()
		err = p.ended(t)
		stopAsking()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
			break
		}
		// On a machine that is slow enough the wait for acknowledgements is over before the second signal is sent.
		if err != nil || signalled < publishTimeout || tries == 5 {
			t.Fatalf("the second signal, %v after the start, ended it with %v, want at once (try %d):\n%s", signalled, err, tries, p.log)
		}
	}
	wantPublishedIsThere(t, pool, b, topics)
	f.Remove()
	last := run(t, binary, []string{"serve", "--http", "127.0.0.1:0"}, db.URL, b, env...)
	drained(t, pool)
	last.stop(t)
	v := judge(t, pool, b, dlq, topics)
	if err := v.Err(); err != nil || v.Delivered != 2000 {
		t.Errorf("%v (%s)", err, v)
	}
}

// ended waits until the process has ended, and returns how.
func (p *process) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(3 * time.Minute):
		t.Fatalf("it did not end:\n%s", p.log)
		return nil
	}
}

// said waits until the process has logged a text.
func (p *process) said(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(p.log.String(), text); {
		select {
		case err := <-p.done:
			t.Fatalf("it ended, %v, and never said %q:\n%s", err, text, p.log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never said %q:\n%s", text, p.log)
		}
	}
}

// wantPublishedIsThere checks that every event that the outbox calls published is in its topic.
func wantPublishedIsThere(t *testing.T, pool *pgxpool.Pool, b *kafkatest.Broker, topics []string) {
	t.Helper()
	reads, err := Reads(t.Context(), b.Addrs, topics...)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(reads))
	for i := range reads {
		ids[i] = reads[i].ID
	}
	var missing int
	if err := pool.QueryRow(t.Context(), `select count(*) from (
		select convert_from(substr(e.payload, 1, $2), 'UTF8') from postrider.v_outbox_event v join postrider.outbox_event e using (id) where v.state = 'published'
		except select unnest($1::text[])) m`, ids, idBytes).Scan(&missing); err != nil || missing > 0 {
		t.Errorf("%d events are published and are not in their topic, %v", missing, err)
	}
}
