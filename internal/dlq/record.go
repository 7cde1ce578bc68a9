package dlq

import (
	"time"

	"github.com/postrider/postrider/message"
)

// Record is one record of a dead-letter topic, as read.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's own; zero, or before 1970, when it has none.
	Timestamp time.Time
	// Key and Value are exact bytes. nil is Kafka's null and differs from empty.
	Key, Value []byte
	// Headers are in the record's order; names may repeat, and a nil value is Kafka's null.
	Headers []message.Header
}
