package outboxsync_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/postrider/postrider/outboxsync"
)

// nightly is a program that empties the outbox from a scheduler, without a relay that runs. A test runs it, too.
func nightly(ctx context.Context, out io.Writer, databaseURL string, brokers []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	outbox, err := outboxsync.Open(ctx, outboxsync.Config{
		DatabaseURL: databaseURL,
		Brokers:     brokers,
		Retention:   outboxsync.Retention{Published: 7 * 24 * time.Hour},
	})
	if err != nil {
		return err
	}
	defer outbox.Close()
	sent, err := outbox.ProcessPending(ctx, outboxsync.Options{})
	if err != nil {
		return err
	}
	again, err := outbox.ProcessRetries(ctx, outboxsync.Options{Limit: 1000})
	if err != nil {
		return err
	}
	old, err := outbox.Cleanup(ctx, outboxsync.CleanupOptions{})
	if err != nil {
		return err
	}
	dead, err := outbox.DLQStats(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d published, %d tried again, %d dead-lettered, %d removed, %d investigations are open\n",
		sent.Succeeded, again.Succeeded, sent.DeadLettered+again.DeadLettered, old.Published, dead.Size)
	return err
}

func Example() {
	err := nightly(context.Background(), os.Stdout, os.Getenv("DATABASE_URL"), strings.Split(os.Getenv("KAFKA_BROKERS"), ","))
	if err != nil {
		log.Fatal(err)
	}
}
