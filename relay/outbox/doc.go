// Package outbox is the domain of the outbox: what an event is, how its headers are written, when a
// failed one is tried again, and how Go services enqueue one inside their own transaction. It knows
// no database client beyond the two transaction interfaces it enqueues through, and no broker.
package outbox
