// Package outbox is how a Go service writes an event: Enqueue and EnqueueSQL put it into the outbox inside the service's
// own transaction. Services in other languages call the SQL function that they call.
package outbox
