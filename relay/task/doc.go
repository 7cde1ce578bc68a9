// Package task is the domain of the ledger: templates and the state machines they declare, the order of
// steps, and when a task is stale. It is pure: no SQL, no clock, no files but the templates it ships.
//
// A template comes as YAML or JSON (Parse). Everything that is wrong with it is reported at once, with the
// line, the path and what to do (InvalidError). What was parsed is stored as JSON, encodes to itself, and is
// what the functions of the database read: lifecycle, steps, input_schema, events, start_event, max_retries.
//
// Stale says in one place what the detector does in SQL for many tasks at once; a test compares the two.
package task
