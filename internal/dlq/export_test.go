package dlq

import "context"

// RunOnce is runOnce for tests outside of the package.
func (c *Collector) RunOnce(ctx context.Context) (int, error) { return c.runOnce(ctx) }

// BatchLetters and Writers are batchLetters and writers for tests outside of the package.
const BatchLetters, Writers = batchLetters, writers

// Shares is shares for tests outside of the package.
func Shares(letters []Letter) [Writers][]Letter { return shares(letters) }
