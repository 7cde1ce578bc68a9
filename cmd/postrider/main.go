// Command postrider carries events from a PostgreSQL outbox to Kafka and turns what cannot be
// delivered into investigations. See `postrider --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/postrider/postrider/cmd/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end, a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
}
