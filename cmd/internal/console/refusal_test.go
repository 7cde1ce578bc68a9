package console

import (
	"testing"

	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// TestRefusalsAreInWords: no name of the API and no time as Go writes it, and what people have named stays as it is.
func TestRefusalsAreInWords(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"request refused: resolution_notes has 5000 bytes; it must have at most 4096":                                "What was noted has 5000 bytes; it must have at most 4096.",
		"the brokers did not answer within 1m0s":                                                                     "The brokers did not answer within 1 minute.",
		"it is tried again in 1h1m30s (not before)":                                                                  "It is tried again in 1 hour 1 minute 30 seconds (not before).",
		"it took 1.5s, and 500ms before, and 168h0m0s at most":                                                       "It took 1.5 seconds, and 500 milliseconds before, and 7 days at most.",
		"this key asks too often; try again in 75 s":                                                                 "This key asks too often; try again in 1 minute 15 seconds.",
		`the name is taken: operation 0192 is called "hold_id 1m0s", too`:                                            `Operation 0192 is called "hold_id 1m0s", too.`,
		"field scope.group_uuid of the body is of the type number":                                                   "Field scope.group_uuid of the body is of the type number.",
		"field scope.filter.consumer_group of the body has a NUL character, which no text may have":                  "The consumer group has a NUL character, which no text may have.",
		"the batch is larger than staleness.batch_size":                                                              "The batch is larger than staleness.batch_size.",
		"field expires_in_seconds of the body is x":                                                                  "How long it works is x.",
		"request refused: muted_until must be in the years 1 to 9999":                                                "Until when it is muted must be in the years 1 to 9999.",
		`an operation of the kind purge needs the scope purge, which the key "ann" does not have`:                    `An operation of the kind purge needs the scope purge, which "ann" does not have.`,
		"edit: request refused: header \"postrider-x\" belongs to postrider":                                         "Header \"postrider-x\" belongs to postrider.",
		"the record is larger than kafka.max_message_bytes, and than the topic my_orders_5m takes":                   "The record is larger than kafka.max_message_bytes, and than the topic my_orders_5m takes.",
		"request refused: after is not what an answer named as next":                                                 "This address does not name a place in the list; begin at its first page.",
		`parameter resolution_status is "x"; it must be one of pending, manually_resolved`:                           `Parameter resolution_status is "x"; it must be one of pending, manually_resolved.`,
		"investigation 0192: it is closed already: it is manually_resolved since 8:00, by ann, and cannot become it": "Investigation 0192: it is closed already: it is resolved since 8:00, by ann, and cannot become it.",
		"request refused: investigations that are permanently_failed, are not redriven":                              "Investigations that are failed for good, are not redriven.",
		`the name is taken: operation 0192 is called "x, abort it", too; ann planned it at 2026-01-31T21:07:05Z, and it is paused. Go on with that one, abort it, or give another name`: `Operation 0192 is called "x, abort it", too; ann planned it at 21:07:05 UTC on 31 Jan, and it is halted by a person. Go on with that one, end it, or give another name.`,
		"operation refused: it is aborted, and cannot be told to resume; it has ended, and more is done by a new operation":                                                             "It is ended, and cannot go on; a new plan can do more.",
		"operation refused: it is planned, and cannot be told to pause":                                                                                                                 "It is planned, and cannot be halted.",
		`request refused: target: invalid outbox event: topic "no such topic !!" is not a Kafka topic name: use letters`:                                                                `Topic "no such topic !!" is not a Kafka topic name: use letters.`,
		"ids has 12000 elements; it must have 1 to 10000":                                                                                                                               "12000 are picked; it must be 1 to 10000.",
	} {
		if got := refusal(&httpapi.Error{Code: httpapi.Validation, Message: said}); got != want {
			t.Errorf("%q is told as %q, want %q", said, got, want)
		}
	}
}
