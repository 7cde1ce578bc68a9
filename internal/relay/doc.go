// Package relay carries outbox events to Kafka: it reads the log, publishes its events, settles the outcome, holds events
// that cannot go now, and sends events that were given up to the dead-letter topic. It contains the decisions; the
// database and the broker are behind the ports Store and Publisher.
//
// Of many relays one leads. A term has a reader, a sender and a settler, one behind the other (term.go), and a loop that
// looks after holds (tend.go). If a term ends at any point, it leaves nothing but receipts: the next term begins at the
// newest one.
package relay
