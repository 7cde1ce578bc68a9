package app

import (
	"context"
	"time"

	"github.com/postrider/postrider/relay/ledger"
	ledgerpostgres "github.com/postrider/postrider/relay/ledger/postgres"
)

// makeFollower prepares what moves tasks whose events the relay gave up while somebody else was at work on them,
// where this process has the relay.
func (a *App) makeFollower(context.Context) error {
	if !a.has(Relay) {
		return nil
	}
	follower, err := ledger.NewFollower(ledger.FollowerConfig{
		Store: ledgerpostgres.On(a.service), Logger: a.options.Logger, Registerer: a.options.Registry,
	})
	if err != nil {
		return err
	}
	a.parts = append(a.parts, part{name: "follower", limit: 2 * time.Second, run: follower.Run})
	return nil
}
