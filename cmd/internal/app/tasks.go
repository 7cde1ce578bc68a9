package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// Detection is what the sections staleness and dlq say of stale tasks. postrider serve writes it into the database.
func Detection(c config.Config) ledger.Detection {
	s, d := c.Staleness, c.DLQ
	return ledger.Detection{
		DryRun: s.DryRun, BatchSize: s.BatchSize,
		WaitingForDependenciesMinutes: s.WaitingForDependenciesMinutes, WaitingForRetryMinutes: s.WaitingForRetryMinutes,
		StepsInProcessMinutes: s.StepsInProcessMinutes, TaskMaxLifetimeHours: s.TaskMaxLifetimeHours,
		WorkerUnavailableMinutes: s.WorkerUnavailableMinutes,
		AutoTransitionToError:    s.AutoTransitionToError, EmitEvents: s.EmitEvents,
		AutoMoveToDLQ:          s.AutoMoveToDLQ && d.Enabled && d.AutoDLQOnStaleness,
		ReasonStalenessTimeout: d.ReasonStalenessTimeout, ReasonWorkerUnavailable: d.ReasonWorkerUnavailable,
	}
}

// DetectionBeside is Detection for a command that works beside postrider serve: what the command was not told, it takes
// from the settings that serve wrote into the database. Of the switches it takes all or none.
func DetectionBeside(c config.Config) ledger.Detection {
	d := Detection(c)
	told := map[string]bool{}
	for _, s := range c.Settings() {
		told[s.Name] = s.Origin != "default" && s.Origin != "not set"
	}
	for name, minutes := range map[string]*int{
		"staleness.waiting_for_dependencies_minutes": &d.WaitingForDependenciesMinutes, "staleness.waiting_for_retry_minutes": &d.WaitingForRetryMinutes,
		"staleness.steps_in_process_minutes": &d.StepsInProcessMinutes, "staleness.task_max_lifetime_hours": &d.TaskMaxLifetimeHours,
		"staleness.worker_unavailable_minutes": &d.WorkerUnavailableMinutes,
	} {
		if !told[name] {
			*minutes = 0
		}
	}
	stored := true
	for _, name := range []string{"staleness.auto_transition_to_error", "staleness.auto_move_to_dlq", "staleness.emit_events", "dlq.enabled",
		"dlq.auto_dlq_on_staleness", "dlq.reason_staleness_timeout", "dlq.reason_worker_unavailable"} {
		stored = stored && !told[name]
	}
	if stored {
		d.AutoTransitionToError, d.AutoMoveToDLQ, d.EmitEvents = false, false, false
		d.ReasonStalenessTimeout, d.ReasonWorkerUnavailable, d.StoredSwitches = false, false, true
	}
	return d
}

// ledgerSettings is what the functions of the ledger need to know of the settings.
func ledgerSettings(c config.Config) ledger.Settings {
	return ledger.Settings{
		LifecycleTopic: c.Tasks.LifecycleTopic, DLQTopic: c.DLQ.Topic, EventChannel: c.Staleness.EventChannel,
		IncludeFullTaskSnapshot:       c.DLQ.IncludeFullTaskSnapshot,
		ReasonMaxRetriesExceeded:      c.DLQ.Enabled && c.DLQ.ReasonMaxRetriesExceeded,
		ReasonDependencyCycleDetected: c.DLQ.Enabled && c.DLQ.ReasonDependencyCycleDetected,
		WarnPercent:                   c.Staleness.WarnPercent,
		Detection:                     Detection(c),
	}
}

// makeDetector writes down what the functions of the ledger need to know, and prepares the detector, where this
// process has the role and it is enabled.
func (a *App) makeDetector(ctx context.Context) error {
	if !a.has(Detector) {
		return nil
	}
	c := a.options.Config
	store := ledgerpostgres.On(a.service)
	changed, err := writeSettings(ctx, store, ledgerSettings(c))
	if err != nil {
		// Rights that are missing until the script of roles was run again, and values that the database refuses, must not keep events
		// from going.
		if e, ok := errors.AsType[*ledger.StoreError](err); !ok || e.Type != ledger.ErrorConfiguration && e.Type != ledger.ErrorValidation {
			return err
		}
		a.log.Error("the functions of the ledger go on with the settings that they have", "err", err)
	}
	if changed != "" {
		a.log.Info("the settings of the database's detectors and ledger are now those of this process", "changed", changed)
	}
	if !c.Staleness.Enabled {
		return nil
	}
	// The rest it takes from the settings that it has just written, as the functions of the ledger do.
	detection := ledger.StoredDetection()
	detection.DryRun, detection.BatchSize = c.Staleness.DryRun, c.Staleness.BatchSize
	detector, err := ledger.NewDetector(ledger.DetectorConfig{
		Store: store, Detection: detection, Interval: c.Staleness.DetectionInterval, TimeBudget: c.Staleness.TimeBudget,
		LatencyLimit: c.Staleness.LatencyLimit, WarnShare: float64(c.Staleness.WarnPercent) / 100,
		Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	// A batch in hand is given up, and the database takes it back.
	a.parts = append(a.parts, part{name: "detector", run: detector.Run})
	return nil
}

func writeSettings(ctx context.Context, store ledgerpostgres.Ledger, s ledger.Settings) (changed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if changed, err = store.WriteSettings(ctx, s); err != nil {
		return "", fmt.Errorf("start the detector: %w", err)
	}
	return changed, nil
}

// ArchivePolicies are the policies of the section archive.
func ArchivePolicies(c config.Archive) ledger.ArchivePolicies {
	return ledger.ArchivePolicies{
		Completed: c.ArchiveCompleted, Failed: c.ArchiveFailed, Cancelled: c.ArchiveCancelled, DLQResolved: c.ArchiveDLQResolved,
	}
}

// makeArchiver prepares the archiver, where this process has the role.
func (a *App) makeArchiver(context.Context) error {
	if !a.has(Archiver) {
		return nil
	}
	c := a.options.Config
	policies := ArchivePolicies(c.Archive)
	archiver, err := ledger.NewArchiver(ledger.ArchiverConfig{
		Store: ledgerpostgres.NewArchive(a.service), Disabled: !c.Archive.Enabled,
		Interval: c.Archive.ArchiveInterval, RetentionDays: c.Archive.RetentionDays, BatchSize: c.Archive.ArchiveBatchSize, Policies: &policies,
		Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	// A batch in hand is given up, and the database takes it back.
	a.parts = append(a.parts, part{name: "archiver", run: archiver.Run})
	return nil
}

// makeReconciler prepares the reconciler, where this process has the relay. It moves tasks whose events the relay gave up
// while another process was at work on them.
func (a *App) makeReconciler(context.Context) error {
	if !a.has(Relay) || !a.installed(migrations.PartTasks) {
		return nil
	}
	reconciler, err := ledger.NewReconciler(ledger.ReconcilerConfig{
		Store: ledgerpostgres.On(a.service), Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "reconciler", run: reconciler.Run})
	return nil
}
