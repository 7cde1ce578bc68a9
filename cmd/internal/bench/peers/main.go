// Command peers runs another outbox, for cmd/internal/bench. `peers load` makes the tables that are not there and writes
// events into them. `peers work` says "ready", waits for a line on stdin, and works until stdin ends or it is told to stop.
//
// It is a module of its own, so that what it needs is none of the product's business.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
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
	pool          *pgxpool.Pool
	broker, topic string
	first, events int // numbers of the events to load
	keys, payload int
	tuned         bool
}

// peer is an outbox.
type peer interface {
	// load makes the tables where they are missing and writes the events into them.
	load(ctx context.Context) error
	// work forwards them until ctx ends.
	work(ctx context.Context) error
}

const usage = "usage: peers load|work watermill|river default|tuned, with PEER_DATABASE, PEER_BROKER, PEER_TOPIC, PEER_KEYS and PEER_PAYLOAD set, and to load PEER_FIRST and PEER_EVENTS"

func run(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 3 || (args[0] != "load" && args[0] != "work") || (args[2] != "default" && args[2] != "tuned") {
		return errors.New(usage)
	}
	t := &task{broker: env("PEER_BROKER"), topic: env("PEER_TOPIC"), tuned: args[2] == "tuned"}
	numbers := []number{{"PEER_KEYS", 1, &t.keys}, {"PEER_PAYLOAD", minPayload, &t.payload}}
	if args[0] == "load" {
		numbers = append(numbers, number{"PEER_FIRST", 0, &t.first}, number{"PEER_EVENTS", 0, &t.events})
	}
	for _, n := range numbers {
		if err := n.read(env); err != nil {
			return err
		}
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
	switch args[1] {
	case "watermill":
		p = newWatermill(t)
	case "river":
		p = newRiver(t)
	default:
		return fmt.Errorf("%q is none of watermill, river", args[1])
	}
	if args[0] == "load" {
		if err := p.load(ctx); err != nil {
			return fmt.Errorf("load events into %s: %w", args[1], err)
		}
		return nil
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

// number is one that the environment gives.
type number struct {
	name  string
	least int
	into  *int
}

func (n number) read(env func(string) string) error {
	v, err := strconv.Atoi(env(n.name))
	if err != nil || v < n.least {
		return fmt.Errorf("%s is %q, it must be a number, at least %d", n.name, env(n.name), n.least)
	}
	*n.into = v
	return nil
}

func (t *task) key(n int) string { return fmt.Sprintf("key-%d", n%t.keys) }

// minPayload is the size of a payload without filling.
const minPayload = 35

// body is the payload of event n, of the shape that the bench's own have: JSON with the number, and filling.
func (t *task) body(n int) []byte {
	const end = `"}`
	head := fmt.Sprintf(`{"seq":"%016d","pad":"`, n)
	return []byte(head + filling[n*7919%(len(filling)-t.payload):][:t.payload-len(head)-len(end)] + end)
}

// filling is text that compresses no better than identifiers do.
var filling = func() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}()
