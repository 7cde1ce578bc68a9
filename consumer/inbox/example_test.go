package inbox_test

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/consumer/kafka"
)

// A consumer that books each message once, whatever is delivered twice: the booking and the note that the message was
// handled are one transaction. The orders example of the project is a whole program.
func Example() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	processor, err := inbox.New(db, inbox.Options{Group: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	client, err := kafka.NewClient(kafka.Config{Brokers: []string{os.Getenv("KAFKA_BROKERS")}})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{Client: client, Group: "billing", Topics: []string{"orders"}},
		inbox.Handler(processor, func(ctx context.Context, tx pgx.Tx, m *consumer.Message) error {
			_, err := tx.Exec(ctx, `insert into booking (body) values ($1)`, m.Value)
			return err
		}))
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
