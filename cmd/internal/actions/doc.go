// Package actions is what people do with tasks, templates and the outbox by hand: each change is one transaction with
// the row of the audit log that says who made it. The HTTP API and the commands share it. Investigations have their
// own in package dlq.
package actions
