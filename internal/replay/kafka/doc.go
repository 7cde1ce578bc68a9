// Package kafka is the replay.Cluster on franz-go: it reads ranges of a topic without a consumer group, and keeps
// progress as the offsets of one that has no members.
package kafka
