package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

func TestRunOnce(t *testing.T) {
	t.Parallel()
	r := newRoom(t, events(12)...)
	r.wantMetrics(nil)
	if err := r.runOnce(10); err != nil {
		t.Error(err)
	}
	if err := r.runOnce(2); err != nil {
		t.Error(err)
	}
	r.wantTrace("poll store commit poll store commit")
	r.wantEntries(12)
	r.wantMetrics(map[string]int{"opened": 12})
	if r.source.committed != 12 {
		t.Errorf("committed %d", r.source.committed)
	}
}

func TestRunOnceCounts(t *testing.T) {
	t.Parallel()
	again := dlqtest.Event(1, 2)
	again.Offset = 4
	r := newRoom(t, dlqtest.Event(1, 1), dlqtest.Event(2, 1), dlqtest.Event(2, 1), again)
	if err := r.runOnce(4); err != nil {
		t.Error(err)
	}
	r.wantMetrics(map[string]int{"opened": 2, "added": 1, "repeated": 1})
	if !strings.Contains(r.log.String(), "new=3 repeated=1 opened=2 added=1") || !strings.Contains(r.log.String(), "component=collector") {
		t.Errorf("log: %s", r.log.String())
	}
}

func TestStoreFailsInPassing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, events(3)...)
		for range 20 {
			r.store.errs = append(r.store.errs, errPassing)
		}
		start := time.Now()
		if err := r.runOnce(3); err != nil {
			t.Error(err)
		}
		r.wantTrace("poll" + strings.Repeat(" store", 21) + " commit")
		for _, size := range r.store.sizes {
			if size != 3 {
				t.Errorf("stored %v at a time, want the same 3 again", r.store.sizes)
				break
			}
		}
		if took := time.Since(start); took < 30*time.Second || took > 20*5*time.Second {
			t.Errorf("20 pauses took %v", took)
		}
		r.wantMetrics(map[string]int{"opened": 3, "store": 20})
	})
}

func TestStoreRefusesOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, events(5)...)
		bad := dlq.Decode(dlqtest.Event(2, 1))
		r.store.refuse = func(l dlq.Letter) error {
			if l.ID == bad.ID && !l.Unstorable {
				return fmt.Errorf("invalid byte: %w", dlq.ErrLetter)
			}
			return nil
		}
		// A passing fault in the middle of the fallback is waited out too.
		r.store.errs = []error{nil, nil, errPassing}
		if err := r.runOnce(5); err != nil {
			t.Error(err)
		}
		// Its halves, the half of these that is refused again and again, and last the letter in its reduced form.
		if want := []int{5, 2, 3, 3, 1, 1, 2}; !reflect.DeepEqual(r.store.sizes, want) {
			t.Errorf("stored %v at a time, want %v", r.store.sizes, want)
		}
		r.wantEntries(5)
		r.wantMetrics(map[string]int{"opened": 5, "refused": 1, "store": 1})
		for _, l := range r.store.Letters() {
			if refused := l.ErrorCode == dlq.CodeUnstorable; refused != (l.ID == bad.ID) {
				t.Errorf("letter %s was refused: %v", l.ID, refused)
			} else if refused && (!strings.Contains(l.ErrorMessage, "invalid byte") || string(l.Payload) != string(bad.Payload)) {
				t.Errorf("letter %+v", l)
			}
		}
		if !strings.Contains(r.log.String(), "letter_id="+bad.ID) {
			t.Errorf("log: %s", r.log.String())
		}
	})
}

// TestStoreRefusesBytes has a store that takes a letter only in its last form, and that form only at the
// third attempt.
func TestStoreRefusesBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, events(1)...)
		bare := 0
		r.store.refuse = func(l dlq.Letter) error {
			if l.Payload == nil {
				if bare++; bare > 2 {
					return nil
				}
			}
			return dlq.ErrLetter
		}
		if err := r.runOnce(1); err != nil {
			t.Error(err)
		}
		if letters := r.store.Letters(); len(letters) != 1 || letters[0].PayloadKind != dlq.Reference || letters[0].DLQOffset != 0 {
			t.Errorf("letters %+v", letters)
		}
		r.wantMetrics(map[string]int{"opened": 1, "refused": 1, "store": 2})
		if r.source.committed != 1 {
			t.Error("not committed")
		}
	})
}

func TestPollErrorBesideRecords(t *testing.T) {
	t.Parallel()
	r := newRoom(t, events(2)...)
	r.source.pollErrs = []error{errBeside}
	if err := r.runOnce(2); !errors.Is(err, errBeside) {
		t.Errorf("error %v", err)
	}
	r.wantTrace("poll store commit")
	r.wantMetrics(map[string]int{"opened": 2, "poll": 1})
}

func TestCommitFails(t *testing.T) {
	t.Parallel()
	r := newRoom(t, events(15)...)
	r.source.commitErrs = []error{errPoll}
	if err := r.runOnce(10); !errors.Is(err, errPoll) {
		t.Errorf("error %v", err)
	}
	if err := r.runOnce(5); err != nil {
		t.Error(err)
	}
	r.wantMetrics(map[string]int{"opened": 15, "commit": 1})
	if r.source.committed != 15 {
		t.Errorf("committed %d, the next commit covers the failed one", r.source.committed)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, events(25)...)
		r.source.polled = make(chan struct{})
		r.source.pollErrs = []error{errPoll, nil, errPoll, errPoll, errBeside}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.collector.Run(ctx) }()
		<-r.source.polled
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.wantEntries(25)
		r.wantMetrics(map[string]int{"opened": 25, "poll": 4})
		if !r.source.closed {
			t.Error("the source is not closed")
		}
	})
}

func TestRunWithEndedContext(t *testing.T) {
	t.Parallel()
	r := newRoom(t, events(1)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.collector.Run(ctx); err != nil {
		t.Error(err)
	}
	r.wantTrace("")
	if !r.source.closed {
		t.Error("the source is not closed")
	}
}

// TestCrashesBetweenStoreAndCommit runs every record through collectors that die before they commit.
func TestCrashesBetweenStoreAndCommit(t *testing.T) {
	t.Parallel()
	r := newRoom(t, events(30)...)
	for crash := 0; r.source.committed < 30; crash++ {
		r.registry = prometheus.NewRegistry()
		s := r.source.reader(4+crash%3, &r.trace)
		s.commitErrs = []error{nil, errPoll}
		c := r.newCollector(s)
		for range 2 {
			if _, err := c.RunOnce(t.Context()); err != nil && !errors.Is(err, errPoll) {
				t.Fatal(err)
			}
			if s.next == 30 { // nothing left to poll for
				break
			}
		}
	}
	for subject, letters := range r.wantEntries(30) {
		if letters != 1 {
			t.Errorf("%d occurrences of %v", letters, subject)
		}
	}
}

func TestNewCollector(t *testing.T) {
	t.Parallel()
	s, st := &source{}, dlqtest.NewRecorder()
	taken := prometheus.NewRegistry()
	if _, err := dlq.NewCollector(dlq.Config{Source: s, Letters: st, Registerer: taken}); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]dlq.Config{
		"no source":        {Letters: st},
		"no letters":       {Source: s},
		"negative timeout": {Source: s, Letters: st, StopTimeout: -1},
		"metrics twice":    {Source: s, Letters: st, Registerer: taken},
	} {
		if _, err := dlq.NewCollector(cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := dlq.NewCollector(dlq.Config{Source: s, Letters: st}); err != nil {
		t.Errorf("without logger and registry: %v", err)
	}
}
