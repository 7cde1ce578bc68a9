// Package replay sends dead letters again, straight from their topic to the topics that they came from, for estates
// without a database of ours. It makes a plan first, for which nothing is sent. It sends in the order of each
// partition, commits its progress as offsets of a consumer group of its own, and goes on from there after any crash.
// Each message has an id that is the same however often the same replay sends it.
//
// The package knows no Kafka client: it reads and commits through the port Cluster, and it sends through the relay's
// Publisher, which keeps the order of keys through every fault.
package replay
