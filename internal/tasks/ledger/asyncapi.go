package ledger

import _ "embed"

//go:embed asyncapi.yaml
var asyncAPI string

// AsyncAPI returns the AsyncAPI 3.0 document, YAML, of what Postrider itself writes to Kafka: lifecycle events,
// start events and dead letters, with the schemas of their headers and payloads.
func AsyncAPI() string { return asyncAPI }
