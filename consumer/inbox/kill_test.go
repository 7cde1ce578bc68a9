package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/consumer/inbox"
)

// childEnv tells this test binary to be a service in a process of its own, which dies.
const childEnv = "INBOX_TEST_CHILD"

// child is a service that reads a log from its committed offset, handles each message and then commits the offset, as
// consumers do: so after a death the last message comes again.
type child struct {
	URL      string
	Messages int
	// Step and At say where it kills itself: at this step of this message.
	Step string
	At   int
}

// steps are the moments at which the child dies.
var steps = []string{"before the inbox is asked", "asked", "handled", "while committing", "committed", "offset committed"}

func childMain(text string) int {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func (c child) run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, c.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	p, err := inbox.New(dying{pool, c}, inbox.Options{Group: "g"})
	if err != nil {
		return err
	}
	var next int
	if err := pool.QueryRow(ctx, `select committed from log_offset`).Scan(&next); err != nil {
		return err
	}
	for ; next < c.Messages; next++ {
		c.dies("before the inbox is asked", next)
		id := inbox.IdentityOf("log", 0, int64(next), time.Time{}, nil).String()
		if _, err := p.Process(context.WithValue(ctx, messageKey{}, next), id, func(ctx context.Context, tx pgx.Tx) error {
			c.dies("asked", next)
			_, err := tx.Exec(ctx, putEffect, "g", fmt.Sprint(next))
			c.dies("handled", next)
			return err
		}); err != nil {
			return err
		}
		c.dies("committed", next)
		if _, err := pool.Exec(ctx, `update log_offset set committed = $1`, next+1); err != nil {
			return err
		}
		c.dies("offset committed", next)
	}
	return nil
}

// dies kills the process, if this is its step.
func (c child) dies(step string, message int) {
	if step == c.Step && message == c.At {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

type messageKey struct{}

// dying begins transactions that die while they commit, if that is the step.
type dying struct {
	pool *pgxpool.Pool
	c    child
}

func (d dying) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := d.pool.BeginTx(ctx, o)
	message, _ := ctx.Value(messageKey{}).(int)
	return dyingTx{tx, d.c, message}, err
}

type dyingTx struct {
	pgx.Tx
	c       child
	message int
}

func (tx dyingTx) Commit(ctx context.Context) error {
	if tx.c.Step == "while committing" && tx.c.At == tx.message {
		// The commit is on its way, and its answer is not waited for.
		tx.Conn().PgConn().Frontend().SendQuery(&pgproto3.Query{String: "commit"})
		_ = tx.Conn().PgConn().Frontend().Flush()
		tx.c.dies("while committing", tx.message)
	}
	return tx.Tx.Commit(ctx)
}

// TestKilled kills the service at every step, again and again, and starts it anew each time. Every message takes effect
// once.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.exec(`create table log_offset (committed int not null)`)
	s.exec(`insert into log_offset values (0)`)
	const messages = 20
	start := func(step string, at int) error {
		text, err := json.Marshal(child{URL: s.url, Messages: messages, Step: step, At: at})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+string(text))
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) > 0 {
			t.Errorf("the child said: %s", out)
		}
		return err
	}
	at := 0
	for range 2 {
		for _, step := range steps {
			if err := start(step, at); err == nil {
				t.Errorf("%s %d: the child was not killed", step, at)
			}
			at++
		}
	}
	if err := start("", 0); err != nil {
		t.Fatal(err)
	}
	if got := s.count(`select committed from log_offset`); got != messages {
		t.Errorf("the offset is %d, want %d", got, messages)
	}
	for n := range messages {
		if got := s.effects(fmt.Sprint(n)); got != 1 {
			t.Errorf("message %d took effect %d times", n, got)
		}
	}
}
