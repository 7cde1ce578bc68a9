package dialect_test

import (
	"fmt"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// A consumer that does not use the library gives a record up: it writes key and value to the dead-letter topic, with these
// headers. Then the collector knows which group failed at which record.
func ExampleEncode() {
	headers, err := dialect.Encode(dialect.Failure{
		Topic: "orders", Partition: 3, Offset: 42, Group: "billing", Attempts: 5,
		ErrorClass: "permanent", ErrorCode: "BAD_AMOUNT", ErrorMessage: "the amount is negative",
		Headers: []message.Header{{Name: "tenant", Value: []byte("7")}},
	}, dialect.Postrider)
	if err != nil {
		panic(err)
	}
	for _, h := range headers {
		fmt.Printf("%s: %s\n", h.Name, h.Value)
	}
	// Output:
	// tenant: 7
	// postrider-letter-version: 1
	// postrider-consumer-group: billing
	// postrider-origin-topic: orders
	// postrider-origin-partition: 3
	// postrider-origin-offset: 42
	// postrider-attempts: 5
	// postrider-error-class: permanent
	// postrider-error-code: BAD_AMOUNT
	// postrider-error-message: the amount is negative
}
