// Package relay carries outbox events to Kafka: it reads the log, publishes its events, settles the outcome, keeps back
// what cannot go now, and hands what is given up to the dead-letter topic. It holds the decisions; the database and the
// broker are behind the ports Store and Publisher.
//
// Of many relays one leads. A term of it is a reader, a sender and a settler, one behind the other (term.go), and what looks
// after holds (tend.go). A term that ends at any point leaves nothing but receipts: the next begins at the newest.
package relay
