package api

import "time"

// TopicUse is what Postrider uses a topic for.
type TopicUse string

const (
	// UsedForEvents: events of the outbox go there, or wait for it.
	UsedForEvents TopicUse = "events"
	// UsedForDeadLetters: the relay's dead letters go there.
	UsedForDeadLetters TopicUse = "dead_letters"
	// UsedForLifecycle: events about tasks go there.
	UsedForLifecycle TopicUse = "lifecycle"
	// UsedForCollecting: the collector reads it.
	UsedForCollecting TopicUse = "collected"
	// UsedForRetries: a consumer group of the library reads its retries there.
	UsedForRetries TopicUse = "retry"
)

// Topic is a topic that Postrider uses, as the brokers describe it.
type Topic struct {
	// Name is its name.
	Name string `json:"topic"`
	// Uses are what Postrider uses it for.
	Uses []TopicUse `json:"uses"`
	// Exists is false for a topic that is missing, or that the login may not see.
	Exists bool `json:"exists"`
	// Waits is true when events of the outbox wait for it.
	Waits bool `json:"waits"`
	// Problem is what the brokers say where they do not describe it; null where they do.
	Problem *string `json:"problem"`
	// Partitions is how many partitions it has.
	Partitions int `json:"partitions"`
	// Replicas is how many replicas the partition with the fewest has.
	Replicas int `json:"replicas"`
	// Leaderless is how many partitions have no leader: they take no messages.
	Leaderless int `json:"leaderless"`
	// UnderReplicated is how many partitions have fewer replicas in sync than replicas.
	UnderReplicated int `json:"under_replicated"`
}

// Topics are the topics that Postrider uses.
type Topics struct {
	List[Topic]
	// LookedAt is when the brokers were asked.
	LookedAt time.Time `json:"looked_at"`
}

// GroupProtocol is how the members of a consumer group share work.
type GroupProtocol string

const (
	// ProtocolClassic: members share partitions among themselves.
	ProtocolClassic GroupProtocol = "classic"
	// ProtocolConsumer: the brokers share partitions among members (KIP-848).
	ProtocolConsumer GroupProtocol = "consumer"
	// ProtocolShare: members share records (KIP-932); such a group commits no offsets, and has no lag here.
	ProtocolShare GroupProtocol = "share"
)

// ConsumerGroup is a consumer group that reads topics which Postrider uses, or may read them: its offsets cannot be read.
type ConsumerGroup struct {
	// Name is its name.
	Name string `json:"group"`
	// Protocol is how its members share work.
	Protocol GroupProtocol `json:"protocol"`
	// State is the word that the brokers have for it; a group without members is called empty.
	State string `json:"state"`
	// Members is how many members it has.
	Members int `json:"members"`
	// Collector is true for the group of Postrider's collectors.
	Collector bool `json:"collector"`
	// Problem is why it could not be described or its offsets not be read; null where all was.
	Problem *string `json:"problem"`
	// Topics are the topics that it reads and that Postrider uses. They are empty for a group without members whose
	// offsets cannot be read.
	Topics []string `json:"topics"`
	// Lag is how many messages it has yet to read there: the sum of the partitions whose lag is known.
	Lag int64 `json:"lag"`
	// Standing is how many of its partitions do not move.
	Standing int `json:"standing"`
	// Partitions are the partitions with a committed offset, in their order.
	Partitions []ConsumedPartition `json:"partitions"`
}

// ConsumedPartition is how far a consumer group is in a partition.
type ConsumedPartition struct {
	// Topic is the topic.
	Topic string `json:"topic"`
	// Partition is the partition.
	Partition int32 `json:"partition"`
	// Committed is the offset behind the last message that the group is done with.
	Committed int64 `json:"committed"`
	// End is the offset of the next message that is written; null where no broker says it.
	End *int64 `json:"end"`
	// Lag is how many messages are between the two; null where the end is not known.
	Lag *int64 `json:"lag"`
	// BehindSince is the time of the first answer that had this committed offset with messages behind it; null without any.
	BehindSince *time.Time `json:"behind_since"`
	// Standing is true when messages wait and the group has committed nothing for 30 seconds or more.
	Standing bool `json:"standing"`
}

// ConsumerGroups are the groups that read topics which Postrider uses.
type ConsumerGroups struct {
	List[ConsumerGroup]
	// LookedAt is when the brokers were asked.
	LookedAt time.Time `json:"looked_at"`
	// Incomplete is why groups may be missing here: a broker that did not list its own. It is null where all brokers did.
	Incomplete *string `json:"incomplete"`
}
