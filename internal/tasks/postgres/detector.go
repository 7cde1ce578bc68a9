package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

var (
	detectStale   = query("detect_stale")
	nearStale     = query("near_stale")
	lastPass      = query("last_pass")
	recordPass    = query("record_pass")
	writeSettings = query("write_settings")
)

var _ ledger.DetectorStore = Ledger{}

// DetectStale implements ledger.DetectorStore. On a pool it is a transaction of its own.
func (l Ledger) DetectStale(ctx context.Context, d ledger.Detection) ([]ledger.StaleTask, error) {
	switches := []any{d.AutoTransitionToError, d.AutoMoveToDLQ, d.EmitEvents, d.ReasonStalenessTimeout, d.ReasonWorkerUnavailable}
	if d.StoredSwitches {
		clear(switches)
	}
	found, err := many[ledger.StaleTask](ctx, l.db, "detect stale tasks", detectStale, append([]any{d.DryRun, d.BatchSize,
		unlessZero(d.WaitingForDependenciesMinutes), unlessZero(d.WaitingForRetryMinutes), unlessZero(d.StepsInProcessMinutes),
		unlessZero(d.TaskMaxLifetimeHours), unlessZero(d.WorkerUnavailableMinutes)}, switches...)...)
	return found, judge(err)
}

// NearStale implements ledger.DetectorStore.
func (l Ledger) NearStale(ctx context.Context, d ledger.Detection, share float64) (ledger.NearStale, error) {
	var near ledger.NearStale
	err := l.db.QueryRow(ctx, nearStale, share, unlessZero(d.WaitingForDependenciesMinutes), unlessZero(d.WaitingForRetryMinutes),
		unlessZero(d.StepsInProcessMinutes), unlessZero(d.TaskMaxLifetimeHours)).Scan(&near.State, &near.Lifetime)
	return near, judge(err)
}

// DetectorStatus implements ledger.DetectorStore.
func (l Ledger) DetectorStatus(ctx context.Context) (ledger.DetectorStatus, error) {
	var s ledger.DetectorStatus
	err := l.db.QueryRow(ctx, lastPass).Scan(&s.LastPassAt, &s.LastPassBy, &s.LastPassMS, &s.LastPassStale, &s.LastPassDryRun, &s.Settings)
	if err != nil {
		return s, judge(err)
	}
	s.Switch, err = l.Switch(ctx, ledger.EngineDetector)
	return s, err
}

// RecordPass implements ledger.DetectorStore.
func (l Ledger) RecordPass(ctx context.Context, p ledger.Pass) error {
	_, err := l.db.Exec(ctx, recordPass, p.By, float64(p.Took.Microseconds())/1000, p.Batches, p.Stale, p.DryRun)
	return judge(err)
}

// WriteSettings puts the settings where the functions of the ledger read them, and returns what it changed, for people;
// empty when they were there.
func (l Ledger) WriteSettings(ctx context.Context, s ledger.Settings) (changed string, err error) {
	d := s.Detection
	if d == (ledger.Detection{}) {
		d = ledger.DefaultDetection()
	}
	var before, after ledger.StoredSettings
	err = l.db.QueryRow(ctx, writeSettings, s.LifecycleTopic, s.DLQTopic, s.EventChannel, s.IncludeFullTaskSnapshot,
		s.ReasonMaxRetriesExceeded, s.ReasonDependencyCycleDetected, orDefault(s.WarnPercent, 80),
		d.WaitingForDependenciesMinutes, d.WaitingForRetryMinutes, d.StepsInProcessMinutes, d.TaskMaxLifetimeHours, d.WorkerUnavailableMinutes,
		d.AutoTransitionToError, d.AutoMoveToDLQ, d.EmitEvents, d.ReasonStalenessTimeout, d.ReasonWorkerUnavailable).Scan(&before, &after)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("write the settings of the ledger: %w", judge(err))
	}
	return before.Changes(after), nil
}

// judge says what an error means for the operators of an engine of the ledger:
//
//   - timeout: a statement_timeout or lock_timeout (57014, 55P03), or no answer at all;
//   - configuration: schema, rights or login (classes 28, 42, 3D, 3F);
//   - validation: a value that a function refuses (class 22);
//   - database: every other error, also one that is not known here.
func judge(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	e := &ledger.StoreError{Type: ledger.ErrorDatabase, Err: err}
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, ledger.ErrInvalid):
		e.Type, e.Hint = ledger.ErrorValidation, "check the settings of the section staleness"
	case errors.As(err, &refused):
		switch code := refused.Code; {
		case code == "57014", code == "55P03": // query_canceled, lock_not_available
			e.Type, e.Hint = ledger.ErrorTimeout, "look at the load and the locks of the database"
		case code == "42501": // insufficient_privilege
			e.Type, e.Hint = ledger.ErrorConfiguration, "run postrider migrate roles --apply, and grant the user of database.url postrider_relay for serve, or postrider_operator for commands"
		case len(code) == 5 && (code[:2] == "42" || code[:2] == "3F"):
			e.Type, e.Hint = ledger.ErrorConfiguration, "the database lacks migrations: postrider migrate up"
		case len(code) == 5 && (code[:2] == "28" || code[:2] == "3D"):
			e.Type, e.Hint = ledger.ErrorConfiguration, "check user and password in database.url"
		case len(code) == 5 && code[:2] == "22":
			e.Type, e.Hint = ledger.ErrorValidation, "check the settings of the section staleness, and the lifecycles of templates"
		}
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		e.Type, e.Hint = ledger.ErrorTimeout, "check the network to the database, its load and its locks"
	}
	return e
}
