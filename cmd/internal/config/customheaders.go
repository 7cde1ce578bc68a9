package config

import "github.com/postrider/postrider/internal/dlq"

// CustomHeaders are the headers of home-made dead letters.
func (c Collector) CustomHeaders() dlq.CustomHeaders {
	return dlq.CustomHeaders{Topic: c.HeadersTopic, Partition: c.HeadersPartition, Offset: c.HeadersOffset, Timestamp: c.HeadersTimestamp,
		Group: c.HeadersGroup, Attempts: c.HeadersAttempts, Code: c.HeadersCode, Error: c.HeadersError, Stack: c.HeadersStack}
}
