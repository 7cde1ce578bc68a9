package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/dlq"
)

// Record is a record as a client read it, for other readers of dead-letter topics.
func Record(r *kgo.Record) dlq.Record { return record(r) }
