// Package task is the domain of the ledger: templates and the state machines they declare, the order of
// steps, and when a task is stale. It is pure: no SQL, no clock, no files but the templates it ships.
//
// A template comes as YAML or JSON (Parse). All its mistakes are reported at once, with the line, the path and what to
// do (InvalidError). A parsed template is stored as JSON and encodes to itself. The functions of the database read from
// it: lifecycle, steps, input_schema, events, start_event, max_retries.
//
// Stale says in one place what the detector does in SQL for many tasks at once; a test compares the two.
package task
