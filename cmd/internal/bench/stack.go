package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/migrations/pgserver"
	"github.com/postrider/postrider/relay/kafka/kafkatest/kafkajars"
)

// startDatabase runs a PostgreSQL that keeps its promises (fsync and synchronous_commit on), migrated.
func startDatabase(ctx context.Context) (*pgserver.Server, error) {
	server, err := pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{
		"fsync": "on", "synchronous_commit": "on", "shared_buffers": "1GB", "max_wal_size": "8GB",
		"checkpoint_timeout": "30min", "max_connections": "100",
	}})
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, server.URL())
	if err == nil {
		defer conn.Close(ctx)
		var all []migrations.Migration
		if all, err = migrations.All(); err == nil {
			_, err = migrations.New(conn, all).Up(ctx)
		}
	}
	if err != nil {
		_ = server.Stop(ctx)
		return nil, fmt.Errorf("prepare the database: %w", err)
	}
	return server, nil
}

// child is a process of ours with a line on stdout when it is ready.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin interface{ Write([]byte) (int, error) }
}

func startChild(role string, env ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, role)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, lines: bufio.NewScanner(stdout), stdin: stdin}, nil
}

// line waits for the child's next line.
func (c *child) line() (string, error) {
	if c.lines.Scan() {
		return c.lines.Text(), nil
	}
	return "", fmt.Errorf("%s ended: %w", c.cmd.Args[1], c.cmd.Wait())
}

// stop ends the child and returns its CPU seconds.
func (c *child) stop() (cpu float64, err error) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	err = c.cmd.Wait()
	s := c.cmd.ProcessState
	return s.UserTime().Seconds() + s.SystemTime().Seconds(), err
}

// broker is where either side produces to.
type broker struct {
	name, address string
	pid           int
	stop          func()
}

func startBroker(ctx context.Context, kind string) (*broker, error) {
	switch kind {
	case "kfake":
		c, err := startChild("child-kfake")
		if err != nil {
			return nil, err
		}
		address, err := c.line()
		if err != nil {
			return nil, err
		}
		return &broker{"kfake in its own process", address, c.cmd.Process.Pid, func() { _, _ = c.stop() }}, nil
	case "kafka":
		b, err := kafkajars.Start(ctx, kafkajars.Options{Heap: "1g"})
		if err != nil {
			return nil, err
		}
		return &broker{"Apache Kafka " + b.Version(), b.Addr(), b.PID(), func() { _ = b.Close() }}, nil
	}
	return nil, fmt.Errorf("broker %q is neither kfake nor kafka", kind)
}

func serveKfake(ctx context.Context) error {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"log.segment.bytes": "4194304"}))
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(strings.Join(c.ListenAddrs(), ","))
	<-ctx.Done()
	return nil
}
