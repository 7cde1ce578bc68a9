package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func (f *fixture) turned(e ledger.Engine) ledger.Switch {
	f.t.Helper()
	s, err := f.Switch(f.t.Context(), e)
	f.must(err)
	return s
}

// TestSwitches: each kind of engine has a switch of its own.
func TestSwitches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for e, other := range map[ledger.Engine]ledger.Engine{ledger.EngineDetector: ledger.EngineArchiver, ledger.EngineArchiver: ledger.EngineDetector} {
		if s := f.turned(e); s != (ledger.Switch{}) {
			t.Errorf("%s at first: %+v", e, s)
		}
		if was, err := f.ResumeEngine(t.Context(), e); was || err != nil {
			t.Errorf("%s is resumed without a pause: %v, %v", e, was, err)
		}
		// A pause with an end is over when that has come.
		f.must(f.PauseEngine(t.Context(), e, ledger.Pause{By: "me", Reason: "slow", For: time.Hour}))
		s := f.turned(e)
		if !s.Paused || s.PausedBy != "me" || s.Reason != "slow" || s.ResumeAt == nil || s.ResumeAt.Sub(*s.PausedAt) != time.Hour {
			t.Errorf("%s is paused for an hour: %+v", e, s)
		}
		f.exec(`update postrider.tasker_switch set resume_at = clock_timestamp() where engine = $1`, string(e))
		if s := f.turned(e); s != (ledger.Switch{}) {
			t.Errorf("%s after the end of its pause: %+v", e, s)
		}
		if was, err := f.ResumeEngine(t.Context(), e); was || err != nil {
			t.Errorf("%s is resumed after the end of its pause: %v, %v", e, was, err)
		}
		// A pause without an end waits for a person, and is given no end.
		f.must(f.PauseEngine(t.Context(), e, ledger.Pause{By: "me"}))
		f.must(f.PauseEngine(t.Context(), e, ledger.Pause{By: "you", For: time.Minute}))
		if s := f.turned(e); !s.Paused || s.PausedBy != "me" || s.ResumeAt != nil {
			t.Errorf("%s is paused by an operator: %+v", e, s)
		}
		if s := f.turned(other); s.Paused {
			t.Errorf("with %s, %s is paused: %+v", e, other, s)
		}
		if was, err := f.ResumeEngine(t.Context(), e); !was || err != nil {
			t.Errorf("%s is resumed: %v, %v", e, was, err)
		}
		if s := f.turned(e); s.Paused {
			t.Errorf("%s after it was resumed: %+v", e, s)
		}
	}
	for name, err := range map[string]error{
		"pause":  f.PauseEngine(t.Context(), "relay", ledger.Pause{By: "me"}),
		"resume": func() error { _, err := f.ResumeEngine(t.Context(), "relay"); return err }(),
	} {
		if refusal, ok := errors.AsType[*ledger.StoreError](err); !ok || refusal.Type != ledger.ErrorValidation {
			t.Errorf("%s of another engine: %v", name, err)
		}
	}
}

// A detector that finds itself too slow shortens no pause of an operator, and does not put its name to it. A pause that
// has an end is replaced by a longer pause of a detector, and by every pause of an operator. Who made it, and why, stays
// before the new ones until it has ended.
func TestADetectorLeavesAnOperatorsPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	paused := func(by string, d, want time.Duration, wantBy, reasons string) {
		t.Helper()
		f.must(f.PauseEngine(t.Context(), ledger.EngineDetector, ledger.Pause{By: by, Reason: "of " + by, For: d}))
		s := f.turned(ledger.EngineDetector)
		if !s.Paused || s.PausedBy != wantBy || s.Reason != reasons || s.ResumeAt == nil || s.ResumeAt.Sub(*s.PausedAt) != want {
			t.Errorf("%s pauses for %v: %+v", by, d, s)
		}
	}
	paused("me", 2*time.Hour, 2*time.Hour, "me", "of me")
	paused(ledger.PausedByLatency, time.Hour, 2*time.Hour, "me", "of me")
	paused("you", time.Hour, time.Hour, "me, you", "of me; of you")
	paused(ledger.PausedByLatency, 3*time.Hour, 3*time.Hour, "me, you, latency_limit", "of me; of you; of latency_limit")
	paused("me", time.Minute, time.Minute, "me, you, latency_limit", "of me; of you; of latency_limit; of me")
	f.exec(`update postrider.tasker_switch set resume_at = clock_timestamp() where engine = 'detector'`)
	paused(ledger.PausedByLatency, time.Hour, time.Hour, ledger.PausedByLatency, "of latency_limit")
	long := strings.Repeat("x", 256)
	paused(long, time.Minute, time.Minute, "latency_limit, "+long, "of latency_limit; of "+long)
	paused("me", time.Minute, time.Minute, "latency_limit, "+long+", me", "of latency_limit; of "+long+"; of me")
}

// pausedArchive pauses the archivers while the first batch is under way, and tells of each look at the switch.
type pausedArchive struct {
	*postgres.Archive
	ledger postgres.Ledger
	once   sync.Once
	looks  chan ledger.Switch
}

func (a *pausedArchive) ArchiveBatch(ctx context.Context, s ledger.ArchiveStep) (done ledger.ArchivedBatch, err error) {
	a.once.Do(func() {
		err = a.ledger.PauseEngine(ctx, ledger.EngineArchiver, ledger.Pause{By: "me", Reason: "release"})
	})
	if err != nil {
		return done, err
	}
	return a.Archive.ArchiveBatch(ctx, s)
}

func (a *pausedArchive) Switch(ctx context.Context, e ledger.Engine) (ledger.Switch, error) {
	s, err := a.Archive.Switch(ctx, e)
	a.looks <- s
	return s, err
}

// TestPauseOfTheArchiver: the batch that is under way ends, and no other begins, in this process and in the next one, until
// a person resumes. What ended meanwhile is archived then.
func TestPauseOfTheArchiver(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	for range 3 {
		r.ended("complete", 40*day)
	}
	store := &pausedArchive{Archive: r.archive, ledger: postgres.On(r.pool), looks: make(chan ledger.Switch, 10)}
	// runUntil runs an archiver until the switch is as it was asked for, and then until something is so.
	runUntil := func(paused bool, sql string) {
		t.Helper()
		archiver, err := ledger.NewArchiver(ledger.ArchiverConfig{Store: store, RetentionDays: 30, BatchSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- archiver.Run(ctx) }()
		for s := range store.looks {
			if s.Paused == paused {
				break
			}
		}
		pgtest.WaitFor(t, r.pool, sql)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	const archived = `select count(*) = %d from postrider.tasker_tasks_archive`
	for process := range 2 {
		runUntil(true, `select pg_sleep(0.2) is not null`) // time enough for a batch that must not begin
		if !one[bool](r, fmt.Sprintf(archived, 1)) {
			t.Errorf("process %d moved tasks during the pause", process)
		}
	}
	if was, err := store.ledger.ResumeEngine(t.Context(), ledger.EngineArchiver); !was || err != nil {
		t.Errorf("resume: %v, %v", was, err)
	}
	runUntil(false, fmt.Sprintf(archived, 3))
}
