// Package dlq is what becomes of a message that could not be delivered: the dead letter as it was read
// from a dead-letter topic, the investigation that it opens, and the redrive that sends it again, alone or in an operation
// of many. It knows no database client and no Kafka client: it decides, and they come in through the ports of ports.go.
package dlq
