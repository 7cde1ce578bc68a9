// Package kafka is the consumer.Client on franz-go: a member of a consumer group with cooperative rebalances, and an
// idempotent producer for retry and dead-letter topics.
package kafka
