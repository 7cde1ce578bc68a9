package outbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/outbox"
)

// charge takes money from an account and says so in one transaction: both happen, or neither. A test runs it, too.
func charge(ctx context.Context, db *pgxpool.Pool, account string, cents int) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// In the order of keys that the transaction locks, events of an account are published in the order of its charges.
		if _, err := tx.Exec(ctx, `update account set cents = cents - $2 where name = $1`, account, cents); err != nil {
			return err
		}
		_, err := outbox.Enqueue(ctx, tx, outbox.Message{
			Topic:   "payments",
			Key:     []byte(account),
			Payload: fmt.Appendf(nil, `{"cents": %d}`, cents),
			Headers: []message.Header{{Name: "tenant", Value: []byte("7")}},
		})
		return err
	})
}

func ExampleEnqueue() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := charge(ctx, db, "account-42", 100); err != nil {
		log.Fatal(err)
	}
}

// The program of the example does what it says.
func TestExampleEnqueue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	if _, err := pool.Exec(t.Context(), `create table account (name text primary key, cents int not null check (cents >= 0));
		insert into account values ('account-42', 150)`); err != nil {
		t.Fatal(err)
	}
	if err := charge(t.Context(), pool, "account-42", 100); err != nil {
		t.Fatal(err)
	}
	if err := charge(t.Context(), pool, "account-42", 100); err == nil {
		t.Error("a second charge is more than the account has, and was accepted")
	}
	var events int
	var payload string
	if err := pool.QueryRow(t.Context(), `select count(*), min(convert_from(payload, 'UTF8')) from postrider.outbox_event where topic = 'payments'`).Scan(&events, &payload); err != nil {
		t.Fatal(err)
	}
	if events != 1 || payload != `{"cents": 100}` {
		t.Errorf("%d events, payload %s", events, payload)
	}
}
