package main

import (
	"context"
	"errors"
	"os"

	"github.com/postrider/postrider/cmd/internal/bench/debezium"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

// captor is Debezium's connector with the outbox event router.
type captor struct {
	alone
	tuned bool
}

func newDebezium(tuned bool) captor { return captor{alone{captured}, tuned} }

func (c captor) title() (name, settings string) {
	name = "Debezium " + debezium.Version
	if c.tuned {
		return name, "tuned: batch 8192, queue 32768, poll 5 ms, producer's linger 5 ms and batch 512 KiB"
	}
	return name, "defaults"
}

func (captor) warming() int { return warmJavaEvents }

func (c captor) prepare(ctx context.Context, s *stage) error { return decode(ctx, s.d, &c.table) }

func (c captor) start(ctx context.Context, s *stage) (process, error) {
	dir, err := os.MkdirTemp("", "postrider-bench-")
	if err != nil {
		return nil, err
	}
	p, err := debezium.Start(ctx, debezium.Connector{Name: s.d.name, Database: s.d.url, Brokers: s.b.address,
		Publication: publication, Table: "outbox", Tuned: c.tuned}, dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return &javaProgram{p, dir}, nil
}

// javaProgram is a Java machine with a folder.
type javaProgram struct {
	*kafkajars.Program
	dir string
}

func (p *javaProgram) pid() int              { return p.PID() }
func (p *javaProgram) gone() <-chan struct{} { return p.Done() }
func (p *javaProgram) String() string        { return "Kafka Connect:\n" + p.Output() + "\nit" }

func (p *javaProgram) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return errors.Join(p.Stop(ctx), os.RemoveAll(p.dir))
}
