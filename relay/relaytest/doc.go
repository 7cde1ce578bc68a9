// Package relaytest tests the whole relay: engine, PostgreSQL adapter and Kafka adapter together, on a
// real database and an in-process broker that fails on demand. What the crash of a process does is
// tested in cmd/internal/soak.
package relaytest
