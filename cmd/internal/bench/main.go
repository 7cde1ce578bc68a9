// Command bench measures the whole product beside what people would have instead: a reader and producer without any
// bookkeeping, a day's poller, logical decoding, Debezium, and other outboxes. It asks how fast a backlog drains, how long
// an event takes from commit to the broker, what writers pay, what stays flat as the tables grow, how long a takeover takes,
// what one hot key costs the others. BENCHMARKS.md says how each figure is taken.
//
// Every side, PostgreSQL and the broker run in processes of their own. The sides of a comparison take turns, and only
// ratios within one run of this command mean anything. Postrider is measured with its defaults.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/postrider/postrider/cmd/internal/bench/baseline"
	"github.com/postrider/postrider/internal/testenv/kafkawire"
)

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// run is the whole command, or one of its child processes.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && strings.HasPrefix(args[0], "child-") {
		return runChild(ctx, args[0])
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return bench(ctx, o, stdout, stderr)
}

// runChild plays the part of one process.
func runChild(ctx context.Context, role string) error {
	ctx, gate := newGate(ctx, os.Stdin)
	switch role {
	case "child-kfake":
		return serveKfake(ctx)
	case "child-slow-kfake":
		return serveKfake(ctx, kfake.ListenFn(kafkawire.Manner{ProduceTime: slowAnswer}.Over(net.Listen)))
	case "child-serve":
		return serve(ctx, gate)
	case "child-floor":
		return runBaseline(ctx, gate, baseline.Floor)
	case "child-poller":
		return runBaseline(ctx, gate, baseline.Poller)
	case "child-logical":
		return runBaseline(ctx, gate, baseline.Logical)
	case "child-consume":
		return runMember(ctx, gate)
	}
	return fmt.Errorf("%q is no part of the bench", role)
}

// bench runs the chosen scenarios one after the other and reports each as soon as it is known, so that a
// run that is broken off still leaves what it had.
func bench(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	r, err := newRig(ctx, o, stderr)
	if err != nil {
		return err
	}
	defer r.close()
	out := output{options: o, facts: r.facts()}
	_, _ = fmt.Fprintln(stdout, out.facts)
	for _, name := range o.scenarios {
		t, err := r.measure(ctx, name)
		if err != nil {
			return err
		}
		if err := out.add(t, stdout); err != nil {
			return err
		}
	}
	return nil
}

// measure runs one scenario on its brokers, each fresh.
func (r *rig) measure(ctx context.Context, name string) (table, error) {
	s := scenarios[name]
	t := table{Scenario: name, Title: s.title}
	for _, kind := range s.brokers(r.o) {
		r.say("%s on %s", name, kind)
		b, err := startBroker(ctx, kind, r.o.kafkaDir)
		if err != nil {
			return t, err
		}
		err = s.run(ctx, r, b, &t)
		b.close()
		if err != nil {
			return t, fmt.Errorf("%s on %s: %w", name, b.name, err)
		}
	}
	return t, nil
}
