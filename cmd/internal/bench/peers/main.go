// Command peers runs another outbox over a backlog of its own, for cmd/internal/bench: it makes the tables,
// loads the rows, says "ready", waits for a line on stdin, and works until stdin ends or it is told to stop.
//
// It is a module of its own, so that what it needs is none of the product's business.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		return 1
	}
	return 0
}

// task is what a peer is given.
type task struct {
	pool                  *pgxpool.Pool
	broker, topic         string
	events, keys, payload int
	tuned                 bool
}

// peer is an outbox.
type peer interface {
	// prepare makes the tables and loads the rows.
	prepare(ctx context.Context) error
	// work forwards them until ctx ends.
	work(ctx context.Context) error
}

func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 2 || (args[1] != "default" && args[1] != "tuned") {
		return errors.New("usage: peers watermill|river default|tuned, with PEER_DATABASE, PEER_BROKER, PEER_TOPIC, PEER_EVENTS, PEER_KEYS and PEER_PAYLOAD set")
	}
	t := &task{broker: env("PEER_BROKER"), topic: env("PEER_TOPIC"), tuned: args[1] == "tuned"}
	for name, into := range map[string]*int{"PEER_EVENTS": &t.events, "PEER_KEYS": &t.keys, "PEER_PAYLOAD": &t.payload} {
		n, err := strconv.Atoi(env(name))
		if err != nil || n < 1 {
			return fmt.Errorf("%s is %q, it must be a positive number", name, env(name))
		}
		*into = n
	}
	cfg, err := pgxpool.ParseConfig(env("PEER_DATABASE"))
	if err != nil {
		return fmt.Errorf("PEER_DATABASE: %w", err)
	}
	cfg.MaxConns = 32
	if t.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	defer t.pool.Close()
	var p peer
	switch args[0] {
	case "watermill":
		p = newWatermill(t)
	case "river":
		p = newRiver(t)
	default:
		return fmt.Errorf("%q is none of watermill, river", args[0])
	}
	if err := p.prepare(ctx); err != nil {
		return fmt.Errorf("prepare %s: %w", args[0], err)
	}
	_, _ = fmt.Fprintln(stdout, "ready")
	in := bufio.NewReader(stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return errors.New("told to end before it began")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return p.work(ctx)
}

func (t *task) key(n int) string { return fmt.Sprintf("key-%d", n%t.keys) }

// body is the payload of event n: its number, and filling.
func (t *task) body(n int) []byte {
	number := fmt.Sprintf("%016d", n)
	return []byte((number + strings.Repeat("x", max(0, t.payload-len(number))))[:max(t.payload, 1)])
}
