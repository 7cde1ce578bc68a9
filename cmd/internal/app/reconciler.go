package app

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/tasks/ledger"
	ledgerpostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// makeReconciler prepares the reconciler, where this process has the relay. It moves tasks whose events the relay gave up
// while another process was at work on them.
func (a *App) makeReconciler(context.Context) error {
	if !a.has(Relay) {
		return nil
	}
	reconciler, err := ledger.NewReconciler(ledger.ReconcilerConfig{
		Store: ledgerpostgres.On(a.service), Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "reconciler", limit: 2 * time.Second, run: reconciler.Run})
	return nil
}
