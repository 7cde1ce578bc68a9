// Command bench measures the relay against its floor: the same rows read in id order and produced with
// the same client, nothing locked, nothing settled. Both run in processes of their own, in turn, against
// the same database and broker, and only their ratio in one run means anything.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "child-kfake":
			return serveKfake(ctx)
		case "child-relay":
			return runRelay(ctx)
		case "child-floor":
			return runFloor(ctx)
		}
	}
	var o drainOptions
	var brokers string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.events, "events", 500_000, "events in the backlog")
	flags.IntVar(&o.runs, "runs", 3, "runs of each side; the median is what counts")
	flags.IntVar(&o.keys, "keys", 500, "distinct keys")
	flags.IntVar(&o.payload, "payload", 300, "bytes of a payload")
	flags.IntVar(&o.workers, "workers", 2, "workers of either side")
	flags.StringVar(&brokers, "brokers", "kfake,kafka", "which brokers: kfake (in a process of its own), kafka (the official broker)")
	flags.Func("batches", "batch sizes to try on either side, such as 1000,5000", o.setBatches)
	flags.StringVar(&o.profile, "profile", "", "write CPU profiles of the relay into this `folder`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.brokers = strings.Split(brokers, ",")
	return drain(ctx, o)
}
