package dlq

import "context"

// RunOnce is runOnce for tests outside of the package.
func (c *Collector) RunOnce(ctx context.Context) (int, error) { return c.runOnce(ctx) }

// BatchLetters is batchLetters for tests outside of the package.
const BatchLetters = batchLetters
