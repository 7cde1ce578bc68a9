// Package kafka is the dlq.Source on franz-go: a member of a consumer group over dead-letter topics.
package kafka
