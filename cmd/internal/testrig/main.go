// Command testrig runs a command, usually go test, with one PostgreSQL server
// and one Apache Kafka broker for all the test processes in it:
//
//	go run ./cmd/internal/testrig -- go test ./...
//
// The servers that the environment names are used as they are; otherwise it
// starts PostgreSQL from local binaries, and the broker that package kafkatest
// chooses, and stops them afterwards. What cannot be had here is left to each
// test package, and said so. The command gets their addresses in
// POSTRIDER_TEST_DATABASE_URL and POSTRIDER_TEST_KAFKA_BROKERS.
//
// It ends with the command's exit code, with 125 when it could not do its own
// part, and with 128 and the signal's number when a signal ended the command.
// An interrupt reaches the command and everything that it started; a second
// one kills them. The servers are stopped in any case.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	r := rig{
		services: []starter{startPostgres, startKafka},
		environ:  os.Environ(),
		stdout:   os.Stdout,
		stderr:   os.Stderr,
	}
	return r.run(signals, os.Args[1:])
}
