// Package wire makes the records that Debezium's outbox event router sends with the converters of Kafka Connect, byte for
// byte, so that consumers of topics that it filled go on without a change. It is pure: a row of the outbox in, the parts of a
// record out. docs/design/wire.md has the rules, and internal/wire/wiretest asks the real router.
package wire
