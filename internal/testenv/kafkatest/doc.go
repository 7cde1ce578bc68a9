// Package kafkatest gives tests their Kafka brokers: an in-process fake that
// can be told to fail ([Kfake]), and one real Apache Kafka broker per test
// process ([Real]). A test that must hold on both says so with [Each].
//
// The real broker is the first of these that this machine has: the one that
// the environment names, one that runs in Docker, one started from the
// official jars (Java 17 and Maven). Where there is none, kfake stands in, and
// every report says so. A package that uses the real broker gives its test
// process an end:
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
package kafkatest

import (
	"cmp"
	"os"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

// Environment variables that decide which broker [Real] is.
const (
	// EnvBrokers names a running broker: host:port, several with commas.
	EnvBrokers = "POSTRIDER_TEST_KAFKA_BROKERS"
	// EnvKind demands one [Kind] and makes everything else a failure, for
	// continuous integration: env, docker, jars or kfake.
	EnvKind = "POSTRIDER_TEST_KAFKA_KIND"
	// EnvVersion is the Apache Kafka to run from jars or in Docker, for
	// example 3.9.1. Defaults to [kafkajars.DefaultVersion].
	EnvVersion = "POSTRIDER_TEST_KAFKA_VERSION"
)

// kafkaVersion is the Apache Kafka that this process starts, if it starts one.
func kafkaVersion() string { return cmp.Or(os.Getenv(EnvVersion), kafkajars.DefaultVersion) }
