// Package dlq is what becomes of a message that could not be delivered: the dead letter as it was read
// from a dead-letter topic, the investigation that it opens, and the collector that turns the one into
// the other. It knows no database client and no Kafka client; they come in through the ports Source,
// Store and Reader.
package dlq
