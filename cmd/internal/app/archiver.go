package app

import (
	"context"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/tasks/task"
)

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
		Thresholds: task.Defaults{
			WaitingForDependenciesMinutes: c.Staleness.WaitingForDependenciesMinutes, WaitingForRetryMinutes: c.Staleness.WaitingForRetryMinutes,
			StepsInProcessMinutes: c.Staleness.StepsInProcessMinutes, TaskMaxLifetimeHours: c.Staleness.TaskMaxLifetimeHours,
		},
		Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	// A batch in hand is given up, and the database takes it back.
	a.parts = append(a.parts, part{name: "archiver", limit: 3 * time.Second, run: archiver.Run})
	return nil
}
