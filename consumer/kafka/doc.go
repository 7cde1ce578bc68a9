// Package kafka implements consumer.Client with franz-go: a member of a consumer group with cooperative rebalances, and
// an idempotent producer for retry and dead-letter topics.
package kafka
