// Package replay sends dead letters again, straight from their topic to where they came from, for estates without a
// database of ours. It plans first and sends nothing then. It sends in the order of each partition, commits how far it
// came as offsets of a consumer group of its own, and goes on from there after any death. Each message has an id that
// is the same however often the same replay sends it.
//
// The package knows no Kafka client: what it reads and commits comes through the port Cluster, and what it sends goes
// through the relay's Publisher, which keeps the order of keys through every fault.
package replay
